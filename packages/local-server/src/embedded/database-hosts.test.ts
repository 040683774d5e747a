import { expect, test } from 'vitest'
import type { DatabaseId, DatabaseSettings } from '../backend.ts'
import { DatabaseHosts } from './database-hosts.ts'
import { type EngineHost, type HostCall, NotBegunError } from './engine-host.ts'
import { DatabaseBoard } from './protocol/database-board.ts'
import type { CallOutcome, OpenedDatabase } from './protocol/host-messages.ts'
import { OWNER } from './protocol/permissions.ts'
import type { PipelineRequest } from './protocol/pipeline-types.ts'

const SETTINGS: DatabaseSettings = {
  sizeLimitBytes: null,
  allowAttach: false,
  blockReads: false,
  blockWrites: false,
  blockReason: null,
  keys: [],
}
const CALL: HostCall = {
  stream: 1,
  permissions: OWNER,
  signal: new AbortController().signal,
}
const QUERY: readonly PipelineRequest[] = [
  { type: 'execute', statement: { sql: 'SELECT 1', sqlId: null, args: [], namedArgs: [] } },
  { type: 'close' },
]
const results = (text: string): CallOutcome => ({ type: 'results', text, isClosed: true })

/** A worker that does what the test says. */
class FakeHost {
  readonly isBusy = true
  readonly pendingCalls = 2
  readonly currentCall = 1
  readonly answers: ((outcome: CallOutcome) => void)[] = []
  opened: OpenedDatabase | null = null

  open(database: OpenedDatabase): void {
    this.opened = database
  }

  pipeline(): { outcome: Promise<CallOutcome>; abandon(): void } {
    return { outcome: new Promise((resolve) => this.answers.push(resolve)), abandon() {} }
  }

  async end(): Promise<void> {}
}

function hostsOver(...fakes: FakeHost[]): DatabaseHosts {
  const left = fakes as unknown as EngineHost[]
  const take = (): EngineHost => left.shift() as EngineHost
  return new DatabaseHosts({
    id: 'd' as DatabaseId,
    path: '/d',
    settings: SETTINGS,
    role: 'plain',
    dialect: null,
    isKept: false,
    take,
  })
}

test('the answer of a reader is taken as long as there is the writer', async () => {
  const [writer, reader] = [new FakeHost(), new FakeHost()]
  const hosts = hostsOver(writer, reader)
  const outcome = hosts.pipeline(CALL, QUERY, { version: 3, isWhole: true })
  await expect.poll(() => reader.answers.length).toBe(1)
  reader.answers[0]?.(results('of the reader'))
  expect(await outcome).toEqual(results('of the reader'))
})

test('the answer of a reader is not taken once the writer is gone: the file may have changed under it', async () => {
  const [writer, reader] = [new FakeHost(), new FakeHost()]
  const hosts = hostsOver(writer, reader)
  const outcome = hosts.pipeline(CALL, QUERY, { version: 3, isWhole: true })
  await expect.poll(() => reader.answers.length).toBe(1)
  hosts.lost(writer as unknown as EngineHost)
  reader.answers[0]?.(results('of the reader'))
  // nor is the writer asked again, which may work for another database by now: the server asks the next one
  await expect(outcome).rejects.toThrow(NotBegunError)
  expect(() => hosts.pipeline(CALL, QUERY, { version: 3, isWhole: false })).toThrow(NotBegunError)
  expect(writer.answers).toHaveLength(1)
})

test('a reader that ends late, after the database got other workers, changes nothing for them', () => {
  const [writer, stranger] = [new FakeHost(), new FakeHost()]
  const hosts = hostsOver(writer)
  const board = new DatabaseBoard(writer.opened?.board)
  board.isLogMoved = true
  expect(hosts.lost(stranger as unknown as EngineHost)).toBe(false)
  expect(board.isLogMoved).toBe(true)
})
