import { beforeEach, expect, test, vi } from 'vitest'

/** Loads a new page, connected to a server that sends the given events. */
async function openPage() {
  const listeners = new Map<string, (event: { data: string }) => void>()
  const addEventListener = (type: string, listener: (event: { data: string }) => void): void =>
    void listeners.set(type, listener)
  vi.stubGlobal(
    'EventSource',
    class {
      addEventListener = addEventListener
    },
  )
  vi.stubGlobal('document', { hidden: false })
  vi.resetModules()
  const page = await import('./state.ts')
  page.start()
  return {
    page,
    receive: (...events: object[]): void => listeners.get('message')?.({ data: JSON.stringify(events) }),
  }
}

const HELLO = { type: 'hello', version: '1' }
const request = (n: number, at: number): object => ({
  type: 'request',
  n,
  at,
  database: 'app',
  method: 'POST',
  path: '/v3/pipeline',
  stream: null,
  bytes: 1,
  statements: [],
  more: 0,
})

beforeEach(() => {
  vi.useFakeTimers()
})

test('a paused page counts the requests after the pause, also when the server repeats its events', async () => {
  const { page, receive } = await openPage()
  const start = Date.now()
  const old = [request(1, start - 2_000), request(2, start - 1_000)]
  receive(HELLO, ...old)
  page.togglePause()
  expect(page.countNewRequests()).toBe(0)
  receive(HELLO, ...old)
  expect(page.countNewRequests()).toBe(0)
  receive(request(3, start + 1_000))
  receive(HELLO, ...old, request(3, start + 1_000))
  expect(page.countNewRequests()).toBe(1)
  page.togglePause()
  expect(page.countNewRequests()).toBe(0)
})

test('a reconnect begins anew: no request of a server that counts from 1 again is selected, and no event is missed', async () => {
  const { page, receive } = await openPage()
  receive(HELLO, { type: 'missed', count: 3 }, request(1, Date.now()))
  page.selectedNumber.value = 1
  receive(HELLO, request(1, Date.now()))
  expect([page.selectedNumber.value, page.missedEvents.value]).toEqual([null, 0])
})

test('an event log, and the live requests after it, are shown from their latest request', async () => {
  const { page, receive } = await openPage()
  const start = Date.now() - 100_000
  receive(HELLO, request(1, start))
  page.togglePause()
  page.position.value = 300
  const lines = [0, 99_000].map((ms, id) =>
    JSON.stringify({ at: start + ms, type: 'query:start', id, sql: [] }),
  )
  await page.openFile(new File([lines.join('\n')], 'log.jsonl'))
  page.range.value = '30'
  page.selectedNumber.value = 1
  receive(HELLO, request(1, start))
  expect([page.currentModel().requests.size, page.selectedNumber.value]).toEqual([2, 1])
  expect([page.canMove(), page.visiblePeriod().to]).toEqual([true, start + 99_000])
  page.position.value = 0
  // 2 % more than the 99 s that the log lasts
  expect(page.visiblePeriod().from).toBeCloseTo(start - 1_980)
  page.returnToLive()
  expect([page.currentModel().requests.size, page.position.value, page.canMove()]).toEqual([1, 1_000, false])
})
