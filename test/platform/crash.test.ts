import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdir, readFile } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { expect, inject, onTestFinished, test } from 'vitest'
import { isRunning } from '../support/is-running.ts'
import { createTemporaryDirectory } from '../support/temporary-directory.ts'
import { databaseFolders, groupFolders, sql } from './platform-harness.ts'

/** Number of calls that are made while the server is repeatedly killed. */
const CALL_COUNT = Number(process.env['FAULT_PLATFORM_CALLS'] ?? 60)
const SLOT_COUNT = 6
const CLI = fileURLToPath(new URL('../../packages/cli/src/cli.ts', import.meta.url))

const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/

/** A server in a separate process. */
interface ServerProcess {
  readonly child: ChildProcess
  readonly platform: { readonly url: string; readonly token: string }
}

async function startServer(directory: string): Promise<ServerProcess> {
  const flags = [
    '--conditions=@batonsql/source',
    '--disable-warning=ExperimentalWarning',
    CLI,
    'dev',
    '--json',
  ]
  const tokenFile = join(directory, 'tokens.json')
  const ports = ['--port', '0', '--platform-port', '0']
  const options = ['--token-file', tokenFile, '--data', directory, ...ports, '--backend', inject('target')]
  const { NODE_OPTIONS: _, ...env } = process.env
  const child = spawn(process.execPath, [...flags, ...options], { stdio: ['ignore', 'pipe', 'inherit'], env })
  let line = ''
  for await (const chunk of child.stdout as AsyncIterable<Buffer>) {
    line += chunk.toString()
    if (line.endsWith('\n'))
      return { child, platform: JSON.parse(await readFile(tokenFile, 'utf8')).platform }
  }
  throw new Error('the server did not start')
}

async function kill({ child }: ServerProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  const exited = once(child, 'exit')
  child.kill('SIGKILL')
  await exited
}

/** Sends a request. Returns null if the server was killed before it responded. */
async function sendRequest(
  { platform }: ServerProcess,
  method: string,
  path: string,
  body?: object,
  token = platform.token,
) {
  try {
    const response = await fetch(`${platform.url}/v1${path}`, {
      method,
      headers: { authorization: `Bearer ${token}` },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    })
    const text = await response.text()
    return { status: response.status, body: text === '' ? undefined : JSON.parse(text) }
  } catch {
    return null
  }
}

/**
 * A database name and a group name, and the changes acknowledged for them. Calls are made one at a time. A field is undefined
 * after a call without a response, because its outcome is unknown.
 */
class Slot {
  readonly name: string
  readonly group: string
  /** The id of the database; null if it does not exist, undefined if a call concerning it got no response. */
  database: string | null | undefined = null
  /** Whether its group exists; undefined if a call concerning it got no response. */
  hasGroup: boolean | undefined = false
  isBlocked: boolean | undefined = false
  hasMarker = false
  groupToken: string | null = null
  readonly invalidTokens: string[] = []
  calls = 0

  constructor(number: number) {
    this.name = `db-${number}`
    this.group = `group-${number}`
  }

  get path(): string {
    return `/databases/${this.name}`
  }

  /** Makes one call. */
  async makeCall(running: ServerProcess): Promise<void> {
    this.calls += 1
    if (this.hasGroup === false) return await this.#createGroup(running)
    if (this.database === null)
      return Math.random() < 0.2 ? await this.#deleteGroup(running) : await this.#create(running)
    const choice = Math.random()
    if (choice < 0.35) await this.#delete(running)
    else if (choice < 0.55) await this.#block(running)
    else if (choice < 0.75) await sendRequest(running, 'POST', `${this.path}/auth/rotate`)
    else if (choice < 0.9) await this.#deleteGroup(running)
    else await this.#createToken(running)
  }

  /** Checks the state after a restart: acknowledged changes exist, and no change is partially applied. */
  async check(running: ServerProcess): Promise<void> {
    const group = await sendRequest(running, 'GET', `/groups/${this.group}`)
    if (this.hasGroup !== undefined)
      expect([this.group, group?.status]).toEqual([this.group, this.hasGroup ? 200 : 404])
    const reply = await sendRequest(running, 'GET', this.path)
    const id: string | null = reply?.status === 200 ? reply.body.database.DbId : null
    if (this.database !== undefined) expect([this.name, id]).toEqual([this.name, this.database])
    // a database does not exist without its group, or without its data
    if (group?.status === 404) expect([this.name, id]).toEqual([this.name, null])
    if (id !== null) await this.#checkData(running, reply?.body.database.Hostname, id)
    for (const token of this.invalidTokens)
      expect((await sendRequest(running, 'GET', '/groups', undefined, token))?.status).toBe(401)
    this.hasGroup = group?.status === 200
    if (!this.hasGroup) this.#invalidateTokens()
    this.database = id
    if (id === null) this.hasMarker = false
  }

  async #checkData(running: ServerProcess, host: string, id: string): Promise<void> {
    const configuration = await sendRequest(running, 'GET', `${this.path}/configuration`)
    if (this.isBlocked !== undefined) expect(configuration?.body.block_writes).toBe(this.isBlocked)
    this.isBlocked = configuration?.body.block_writes === true
    const { jwt } = (await sendRequest(running, 'POST', `${this.path}/auth/tokens`))?.body ?? {}
    const tables = await sql(host, jwt, "SELECT name FROM sqlite_schema WHERE name = 'marker'")
    expect([this.name, tables.error]).toEqual([this.name, null])
    if (this.hasMarker) expect(tables.rows).toEqual([['marker']])
    if (tables.rows.length > 0) {
      // its contents were written to this database, not to an earlier one of the same name
      expect((await sql(host, jwt, 'SELECT id FROM marker')).rows).toEqual([[id]])
      this.hasMarker = true
    }
    if (this.isBlocked) expect((await sql(host, jwt, 'CREATE TABLE refused (a)')).error).toBe('BLOCKED')
  }

  async #createGroup(running: ServerProcess): Promise<void> {
    this.hasGroup = undefined
    const reply = await sendRequest(running, 'POST', '/groups', { name: this.group, location: 'local' })
    if (reply?.status === 200) this.hasGroup = true
  }

  async #create(running: ServerProcess): Promise<void> {
    this.database = undefined
    this.hasMarker = false
    this.isBlocked = false
    const reply = await sendRequest(running, 'POST', '/databases', { name: this.name, group: this.group })
    if (reply === null) return
    expect(reply.status).toBe(200)
    this.database = reply.body.database.DbId
    const token = await sendRequest(running, 'POST', `${this.path}/auth/tokens`)
    if (token === null) return
    const insert = `INSERT INTO marker VALUES ('${this.database}')`
    const statements = ['BEGIN', 'CREATE TABLE marker (id)', insert, 'COMMIT']
    const result = await sql(reply.body.database.Hostname, token.body.jwt, statements).catch(() => null)
    this.hasMarker = result?.error === null
  }

  async #delete(running: ServerProcess): Promise<void> {
    this.database = undefined
    const reply = await sendRequest(running, 'DELETE', this.path)
    if (reply?.status === 200) this.database = null
  }

  async #block(running: ServerProcess): Promise<void> {
    const isBlocked = this.isBlocked !== true
    this.isBlocked = undefined
    const change = { block_writes: isBlocked }
    const reply = await sendRequest(running, 'PATCH', `${this.path}/configuration`, change)
    if (reply?.status === 200) this.isBlocked = isBlocked
  }

  async #deleteGroup(running: ServerProcess): Promise<void> {
    this.hasGroup = undefined
    this.database = undefined
    const reply = await sendRequest(running, 'DELETE', `/groups/${this.group}`)
    if (reply?.status !== 200) return
    this.hasGroup = false
    this.database = null
    this.#invalidateTokens()
  }

  async #createToken(running: ServerProcess): Promise<void> {
    const body = { organization: 'local', group: this.group, scopes: ['read'] }
    const reply = await sendRequest(running, 'POST', `/auth/api-tokens/${this.name}-${this.calls}`, body)
    if (reply?.status === 200) this.groupToken = reply.body.token
  }

  #invalidateTokens(): void {
    if (this.groupToken !== null) this.invalidTokens.push(this.groupToken)
    this.groupToken = null
  }
}

test(`SIGKILL at random times during ${CALL_COUNT} calls keeps acknowledged changes, and applies none partially`, {
  timeout: 180_000 + CALL_COUNT * 1_000,
}, async () => {
  const directory = createTemporaryDirectory()
  let running = await startServer(directory)
  onTestFinished(() => kill(running))
  const slots = Array.from({ length: SLOT_COUNT }, (_, number) => new Slot(number))
  const countCalls = (): number => slots.reduce((sum, { calls }) => sum + calls, 0)
  let kills = 0
  while (countCalls() < CALL_COUNT) {
    const round = { hasEnded: false }
    const roundEnd = Math.min(CALL_COUNT, countCalls() + CALL_COUNT / 4)
    const calling = slots.map(async (slot) => {
      // after a call without a response, its outcome is checked before the next call
      while (
        !round.hasEnded &&
        countCalls() < roundEnd &&
        slot.database !== undefined &&
        slot.hasGroup !== undefined
      )
        await slot.makeCall(running)
    })
    await sleep(30 + Math.random() * 400)
    const killed = kill(running)
    await killed
    kills += 1
    round.hasEnded = true
    await Promise.all(calling)
    running = await startServer(directory)
    for (const slot of slots) await slot.check(running)
  }
  expect(kills).toBeGreaterThanOrEqual(3)
  const { databases } = (await sendRequest(running, 'GET', '/databases'))?.body ?? {}
  const ids = databases.map(({ DbId }: { DbId: string }) => DbId)
  const folderNames: string[] = []
  for (const folder of await databaseFolders(directory))
    folderNames.push(...(await readdir(folder).catch(() => [])))
  expect(folderNames).toEqual(expect.arrayContaining(ids))
  if (inject('target') === 'embedded')
    expect(folderNames.filter((name) => UUID.test(name))).toHaveLength(ids.length)
  else await checkGroups(running, directory)
})

/** Checks that deleted groups leave no files behind, neither data nor the file that identifies their process. */
async function checkGroups(running: ServerProcess, directory: string): Promise<void> {
  const { groups } = (await sendRequest(running, 'GET', '/groups'))?.body ?? {}
  const ids = groups.map(({ uuid }: { uuid: string }) => uuid)
  const listRemaining = async (): Promise<string[]> => {
    const folders = (await groupFolders(directory)).filter((folder) => !ids.includes(basename(folder)))
    return (await Promise.all(folders.map((folder) => readdir(folder, { recursive: true })))).flat()
  }
  // removals that failed are retried
  await expect.poll(listRemaining, { timeout: 60_000 }).toEqual([])
}

test('databases and their settings are restored after libsql-server itself is killed', async () => {
  if (inject('target') !== 'sqld') return
  const directory = createTemporaryDirectory()
  const running = await startServer(directory)
  onTestFinished(() => kill(running))
  const slot = new Slot(0)
  for (let call = 0; call < 3; call += 1) await slot.makeCall(running)
  const pids: number[] = []
  for (const folder of await groupFolders(directory)) {
    const { pid } = JSON.parse(await readFile(join(folder, 'sqld.pid'), 'utf8')) as { pid: number }
    process.kill(pid, 'SIGKILL')
    pids.push(pid)
  }
  // the control plane sends its next request after libsql-server has exited
  await expect.poll(() => pids.some(isRunning)).toBe(false)
  const next = await sendRequest(running, 'POST', '/databases', { name: 'next', group: 'default' })
  expect(next?.status).toBe(200)
  await slot.check(running)
})
