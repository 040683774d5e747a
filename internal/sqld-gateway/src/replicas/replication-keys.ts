import { createSign, generateKeyPairSync, type KeyObject, randomBytes } from 'node:crypto'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'

/** The name that a libsql-server expects in the certificate of its primary. */
export const PRIMARY_NAME = 'sqld'
const VALID_MS = 20 * 365 * 24 * 3_600_000
const DAY_MS = 24 * 3_600_000

/** A certificate for the connections between a primary, its proxies and its replicas, and the authority that signed it. */
export interface ReplicationKeys {
  readonly ca: string
  readonly cert: string
  readonly key: string
  /** Folder with the same keys as files, which libsql-server reads. */
  readonly folder: string
}

/**
 * Creates the keys of a group. Both sides of a connection must present them, because there is no other authentication. The
 * authority's private key is not kept.
 */
export async function createReplicationKeys(folder: string): Promise<ReplicationKeys> {
  const authority = newKeys()
  const server = newKeys()
  const ca = createCertificate({ subject: 'baton', publicKey: authority.publicKey }, authority.privateKey)
  const cert = createCertificate({ subject: PRIMARY_NAME, publicKey: server.publicKey }, authority.privateKey)
  const key = server.privateKey.export({ type: 'pkcs8', format: 'pem' }).toString()
  await mkdir(folder, { recursive: true, mode: 0o700 })
  for (const [name, pem] of Object.entries({ ca, cert, key }))
    await writeFile(join(folder, `${name}.pem`), pem, { mode: 0o600 })
  return { ca, cert, key, folder }
}

/** Returns the command-line arguments for a server that uses the keys. */
export function keyArguments(prefix: '--grpc' | '--primary-grpc', folder: string): readonly string[] {
  return [
    `${prefix}-tls`,
    `${prefix}-ca-cert-file`,
    join(folder, 'ca.pem'),
    `${prefix}-cert-file`,
    join(folder, 'cert.pem'),
    `${prefix}-key-file`,
    join(folder, 'key.pem'),
  ]
}

const newKeys = () => generateKeyPairSync('ec', { namedCurve: 'P-256' })

interface CertificateHolder {
  readonly subject: string
  readonly publicKey: KeyObject
}

// DER tags of X.509 (RFC 5280)
const SEQUENCE = 0x30
const SET = 0x31
const INTEGER = 0x02
const BITS = 0x03
const OCTETS = 0x04
const UTF8 = 0x0c
const UTC_TIME = 0x17
/** The first of the context tags `[0]` to `[3]` of a certificate. */
const CONTEXT = 0xa0
const DNS_NAME = 0x82
const ECDSA_WITH_SHA256 = '06082a8648ce3d040302'
const COMMON_NAME = '0603550403'
const BASIC_CONSTRAINTS = '0603551d13'
const SUBJECT_ALT_NAME = '0603551d11'
const TRUE = '0101ff'
const VERSION_3 = '020102'

/** Returns a certificate (PEM) issued by the authority `baton`: its own, or one for {@link PRIMARY_NAME}. */
function createCertificate({ subject, publicKey }: CertificateHolder, authorityKey: KeyObject): string {
  const now = Date.now()
  const extension =
    subject === PRIMARY_NAME
      ? der(SEQUENCE, SUBJECT_ALT_NAME, der(OCTETS, der(SEQUENCE, der(DNS_NAME, Buffer.from(subject)))))
      : der(SEQUENCE, BASIC_CONSTRAINTS, TRUE, der(OCTETS, der(SEQUENCE, TRUE)))
  const algorithm = der(SEQUENCE, ECDSA_WITH_SHA256)
  const content = der(
    SEQUENCE,
    der(CONTEXT, VERSION_3),
    // the serial number: positive, and without a leading zero
    der(INTEGER, Buffer.concat([Buffer.from([1]), randomBytes(15)])),
    algorithm,
    distinguishedName('baton'),
    der(SEQUENCE, time(now - DAY_MS), time(now + VALID_MS)),
    distinguishedName(subject),
    publicKey.export({ type: 'spki', format: 'der' }),
    der(CONTEXT + 3, der(SEQUENCE, extension)),
  )
  const signature = createSign('sha256').update(content).sign(authorityKey)
  const encoded = der(SEQUENCE, content, algorithm, der(BITS, '00', signature))
  const lines = encoded.toString('base64').replaceAll(/.{1,64}/g, '$&\n')
  return `-----BEGIN CERTIFICATE-----\n${lines}-----END CERTIFICATE-----\n`
}

function distinguishedName(name: string): Buffer {
  return der(SEQUENCE, der(SET, der(SEQUENCE, COMMON_NAME, der(UTF8, Buffer.from(name)))))
}

/** Encodes a time as `YYMMDDhhmmssZ`. */
function time(ms: number): Buffer {
  const digits = new Date(ms).toISOString().replaceAll(/\D/g, '')
  return der(UTC_TIME, Buffer.from(`${digits.slice(2, 14)}Z`))
}

/** Encodes a value consisting of these parts; strings are bytes in hexadecimal. */
function der(tag: number, ...parts: readonly (Buffer | string)[]): Buffer {
  const content = Buffer.concat(
    parts.map((part) => (typeof part === 'string' ? Buffer.from(part, 'hex') : part)),
  )
  return Buffer.concat([Buffer.from([tag, ...derLength(content.length)]), content])
}

/** Encodes a length below 65,536: from 128 on, its bytes follow their number. */
function derLength(length: number): readonly number[] {
  if (length < 128) return [length]
  return length < 256 ? [0x81, length] : [0x82, length >> 8, length & 255]
}
