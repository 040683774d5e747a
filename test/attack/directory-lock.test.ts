import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { startLocalServer } from '@batonsql/local-server'
import { expect, test } from 'vitest'

const PROGRAM = fileURLToPath(new URL('programs/lock-contender.ts', import.meta.url))
const CONTENDERS = 8
const DEAD = { pid: 2 ** 22 + 1, identity: 'start 1' }

/** What lies in the directory when they all come at once. */
const BEGINNINGS: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  'a fresh directory': {},
  'a lock of a dead process': { 'baton.lock': JSON.stringify({ ...DEAD, token: 'one' }) },
  'a lock as earlier versions made it': { 'baton.lock': JSON.stringify(DEAD) },
  'an empty lock': { 'baton.lock': '' },
  'a taking over that was killed': {
    'baton.lock': JSON.stringify({ ...DEAD, token: 'one' }),
    'baton.lock.one': JSON.stringify({ ...DEAD, token: 'two' }),
  },
  'a taking over that was killed twice': {
    'baton.lock': JSON.stringify({ ...DEAD, token: 'one' }),
    'baton.lock.one': JSON.stringify({ ...DEAD, token: 'two' }),
    'baton.lock.one.two': JSON.stringify({ ...DEAD, token: 'three' }),
  },
}

class Contender {
  readonly #child: ChildProcess
  readonly #lines: AsyncIterator<string>

  constructor(directory: string, end = 'wait') {
    this.#child = spawn(
      process.execPath,
      ['--disable-warning=ExperimentalWarning', PROGRAM, directory, end],
      {
        stdio: ['pipe', 'pipe', 'inherit'],
      },
    )
    this.#lines = linesOf(this.#child)
  }

  async line(): Promise<string> {
    const { value } = (await this.#lines.next()) as { value?: string }
    return value ?? 'gone'
  }

  go(): void {
    this.#child.stdin?.write('go\n')
  }

  async end(): Promise<void> {
    const { exitCode, signalCode } = this.#child
    const gone = exitCode !== null || signalCode !== null ? Promise.resolve() : once(this.#child, 'exit')
    this.#child.stdin?.end()
    await gone
  }
}

async function* linesOf(child: ChildProcess): AsyncGenerator<string> {
  let rest = ''
  for await (const chunk of child.stdout as AsyncIterable<Buffer>) {
    const lines = (rest + chunk.toString()).split('\n')
    rest = lines.pop() as string
    yield* lines
  }
}

test.each(Object.keys(BEGINNINGS))(
  'many processes at once, one gets it: %s',
  async (beginning) => {
    for (let round = 0; round < 3; round += 1) {
      const directory = await mkdtemp(join(tmpdir(), 'baton-lock-'))
      for (const [name, text] of Object.entries(BEGINNINGS[beginning] ?? {}))
        await writeFile(join(directory, name), text)
      const contenders = Array.from({ length: CONTENDERS }, () => new Contender(directory))
      await Promise.all(contenders.map((contender) => contender.line()))
      for (const contender of contenders) contender.go()
      const outcomes = await Promise.all(contenders.map((contender) => contender.line()))
      expect(outcomes.filter((outcome) => outcome === 'taken')).toHaveLength(1)
      for (const outcome of outcomes) expect(outcome).toMatch(/^taken$|is in use by process \d+$/)
      expect(await readdir(directory)).toEqual(['baton.lock'])
      await Promise.all(contenders.map((contender) => contender.end()))
      await rm(directory, { recursive: true })
    }
  },
  60_000,
)

test('a lock of one that was killed is taken over, again and again', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'baton-lock-'))
  for (let round = 0; round < 3; round += 1) {
    const contenders = Array.from({ length: 3 }, () => new Contender(directory, 'die'))
    await Promise.all(contenders.map((contender) => contender.line()))
    for (const contender of contenders) contender.go()
    const outcomes = await Promise.all(contenders.map((contender) => contender.line()))
    // one that comes when its predecessor is dead already gets it as well
    expect(outcomes).toContain('taken')
    await Promise.all(contenders.map((contender) => contender.end()))
  }
  await rm(directory, { recursive: true })
}, 60_000)

test('a second server on one directory; one after the other; a directory that cannot be', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'baton-lock-'))
  const dataDirectory = join(directory, 'deep', 'data')
  const first = await startLocalServer({ dataDirectory })
  await expect(startLocalServer({ dataDirectory })).rejects.toThrow(`in use by process ${process.pid}`)
  await first.close()
  await expect(first.createDatabase('late')).rejects.toThrow('the server is closed')
  await (await startLocalServer({ dataDirectory })).close()
  const file = join(directory, 'file')
  await writeFile(file, '')
  for (const place of [file, join(file, 'below'), '/dev/null/x', '/proc/nowhere/x'])
    await expect(startLocalServer({ dataDirectory: place })).rejects.toThrow(`${place} cannot be written`)
  await rm(directory, { recursive: true })
})
