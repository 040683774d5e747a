import { execFile } from 'node:child_process'
import { generateKeyPairSync } from 'node:crypto'
import { chmod, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { startLocalServer } from '@batonsql/local-server'
import { startSqld } from '@batonsql/local-server/sqld'
import { expect, test } from 'vitest'
import { blocksOf } from '../../docs/readme/blocks.ts'
import { freezeProcess } from '../../support/freeze-process.ts'
import { createTemporaryDirectory } from '../../support/temporary-directory.ts'

// Tests the code on the pages about self-hosting and about a defect of libsql-server.

const probeText = codeBlocksOf('docs/self-hosting.md', 'sh').find((text) => text.startsWith('#!')) ?? ''
const systemdUnits = codeBlocksOf('docs/self-hosting.md', 'ini')
const [programText = ''] = codeBlocksOf('docs/self-hosting.md', 'js')

function codeBlocksOf(page: string, language: string): string[] {
  return blocksOf(page)
    .filter((block) => block.language === language)
    .map(({ code }) => code)
}

/** Writes text to an executable file. */
async function writeExecutable(name: string, text: string): Promise<string> {
  const directory = createTemporaryDirectory()
  const file = join(directory, name)
  await writeFile(file, text)
  await chmod(file, 0o755)
  return file
}

interface RunResult {
  readonly code: number
  readonly stdout: string
}

async function run(
  file: string,
  args: readonly string[],
  env: Record<string, string> = {},
): Promise<RunResult> {
  return await promisify(execFile)(file, args, { env: { ...process.env, ...env } }).then(
    ({ stdout }) => ({ code: 0, stdout }),
    ({ code, stdout }: RunResult) => ({ code, stdout }),
  )
}

const RESTART_COMMAND = ['echo', 'ended']
const SHORT_TIMEOUT = { SQLD_PROBE_SECONDS: '1' }

test('the probe stops only a server that no longer grants its write lock', async () => {
  const probe = await writeExecutable('sqld-probe', probeText)
  await using sqld = await startSqld()
  expect(await run(probe, [sqld.url, ...RESTART_COMMAND], SHORT_TIMEOUT)).toEqual({ code: 0, stdout: '' })
  await freezeProcess(sqld.pid)
  expect(await run(probe, [sqld.url, ...RESTART_COMMAND], SHORT_TIMEOUT)).toEqual({
    code: 0,
    stdout: 'ended\n',
  })
  process.kill(sqld.pid, 'SIGCONT')
  // a missing path is not a reason to restart
  expect(await run(probe, [`${sqld.url}/nothing`, ...RESTART_COMMAND], SHORT_TIMEOUT)).toEqual({
    code: 2,
    stdout: '',
  })
})

test('the probe sends a token from a header file', async () => {
  const probe = await writeExecutable('sqld-probe', probeText)
  await using server = await startLocalServer({ auth: true })
  const { url, authToken } = await server.createDatabase('probed')
  const headers = await writeExecutable('headers', `authorization: Bearer ${authToken}\n`)
  const base = url.replace(/\/$/, '')
  expect((await run(probe, [base, ...RESTART_COMMAND])).code).toBe(2)
  expect(await run(probe, [base, ...RESTART_COMMAND], { SQLD_PROBE_HEADERS: headers })).toEqual({
    code: 0,
    stdout: '',
  })
})

test('the systemd units run the probe at intervals', () => {
  const [service = '', timer = ''] = systemdUnits
  expect(service).toMatch(
    /^ExecStart=\/usr\/local\/bin\/sqld-probe http\S+ systemctl kill .* sqld\.service$/m,
  )
  expect(timer).toMatch(/^OnUnitInactiveSec=\d+s$/m)
  expect(timer).toContain('WantedBy=timers.target')
})

test('the program that demonstrates the defect does not reproduce it behind the control plane', async () => {
  const program = await writeExecutable('lost-writer.mjs', programText)
  await using server = await startLocalServer({ backend: 'sqld' })
  const { code, stdout } = await run(process.execPath, [program, server.url, '5'])
  expect(stdout).toMatch(/^[1-9]\d* committed\n$/)
  expect(code).toBe(0)
})

test('a database on an unresponsive server given by URL is not healthy', async () => {
  const { publicKey } = generateKeyPairSync('ed25519')
  const publicKeyPem = publicKey.export({ type: 'spki', format: 'pem' }).toString()
  await using sqld = await startSqld({ namespaces: true, publicKeyPem })
  await using server = await startLocalServer({
    backend: 'sqld',
    auth: true,
    sqld: { url: sqld.url, ...sqld.adminAccess },
  })
  const getHealth = async (): Promise<[number, string]> => {
    const response = await fetch(`${server.url}/health`)
    return [response.status, await response.text()]
  }
  expect(await getHealth()).toEqual([200, ''])
  await freezeProcess(sqld.pid)
  expect(await getHealth()).toEqual([503, ''])
  process.kill(sqld.pid, 'SIGCONT')
  expect(await getHealth()).toEqual([200, ''])
})
