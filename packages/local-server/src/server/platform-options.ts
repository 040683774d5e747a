import { isSlug } from '@batonsql/control-plane'
import { checkOptions, PORT, type RulesOf } from '@batonsql/options'

/** Options of the platform API. */
export interface PlatformOptions {
  /** @default a free port */
  readonly port?: number
  /** Slug of the organization that the databases of this server belong to. @default 'local' */
  readonly organization?: string
  /**
   * Suffix of the host names of databases, after `<database>-<organization>.`, such as `db.example:8443`, for a server behind a
   * TLS proxy. By default, databases are at `127.0.0.1:PORT/<database>`.
   */
  readonly domain?: string
  /** How long a database created through the API initially responds with 404, in ms, as in the cloud. @default 0 */
  readonly readyDelayMs?: number
  /** Status for a name that is taken: 409 is documented, 400 was observed. @default 409 */
  readonly takenNameStatus?: 400 | 409
}

const isDelay = (value: unknown): boolean =>
  Number.isInteger(value) && Number(value) >= 0 && Number(value) < 2 ** 31
const OPTIONS: RulesOf<PlatformOptions> = {
  port: PORT,
  organization: 'string',
  domain: 'string',
  readyDelayMs: { text: 'an integer from 0 to 2^31 - 1', accepts: isDelay },
  takenNameStatus: { text: '400 or 409', accepts: (status) => status === 400 || status === 409 },
}
const LABEL = '[a-z0-9](?:[a-z0-9-]*[a-z0-9])?'
const DOMAIN = new RegExp(`^${LABEL}(?:\\.${LABEL})*(?::\\d+)?$`)

/** Checks the options of the platform API. @throws TypeError */
export function checkPlatformOptions(options: PlatformOptions): void {
  checkOptions(options, OPTIONS, 'platform')
  const { organization, domain } = options
  if (organization !== undefined && !isSlug(organization))
    throw new TypeError(
      'platform: organization must be a slug: 1 to 39 characters a-z, 0-9 and "-", without a "-" at the beginning or end',
    )
  if (domain !== undefined && !isDomain(domain))
    throw new TypeError(
      'platform: domain must be a host name in lower case, such as "db.example" or "db.example:8443"',
    )
}

// `URL` rejects ports above 65535
const isDomain = (text: string): boolean => DOMAIN.test(text) && URL.canParse(`http://${text}`)
