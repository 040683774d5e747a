import { type RequestEvent, type ResponseEvent, WireModel } from '@batonsql/inspector/wire-model'
import { expect, test } from 'vitest'
import { listRecentRequests } from './recent-requests.ts'

const AT = Date.parse('2026-11-30T08:00:00.500Z')

/** Returns a model with one request for each statement, in database `app`, and one without statements. */
function newModel(statements: readonly string[]): WireModel {
  const model = new WireModel()
  const add = (n: number, about: Partial<RequestEvent>, result: Partial<ResponseEvent> = {}): void => {
    const common = { database: 'app', method: 'POST', path: '/v3/pipeline', stream: n, bytes: 1, more: 0 }
    model.begin({ type: 'request', n, at: AT, statements: [], ...common, ...about })
    const counts = { status: 200, bytes: 1, rows: 1, rowsRead: 1, rowsWritten: 0, outcomes: [], error: null }
    model.end({ type: 'response', n, at: AT + 5, ...counts, isOpen: false, isAutocommit: null, ...result })
  }
  for (const [index, sql] of statements.entries())
    add(index + 1, { statements: [{ sql, effects: ['other'] }] })
  add(98, { method: 'GET', path: '/dump', stream: null })
  add(99, { database: 'other' }, { status: 404, error: 'no such database' })
  return model
}

function list(model: WireModel, contains: string): readonly { readonly request: number }[] {
  const { requests } = listRecentRequests({ model, since: AT }, { limit: 10, contains }) as {
    requests: { request: number }[]
  }
  return requests
}

test('finds text in what a request did, and not in the names and times of the list', () => {
  const long = `select '${'x'.repeat(400)}', "end"\nfrom Late`
  const model = newModel(['select * from rows', 'insert into note values (1)', long])
  const find = (contains: string): number[] => list(model, contains).map(({ request }) => request)
  expect(find('')).toEqual([1, 2, 3, 98, 99])
  expect(find('from ROWS')).toEqual([1])
  // names of fields
  expect(find('rows')).toEqual([1])
  for (const name of ['tookMs', 'sql', '{', 'state', 'stream', '08:00', 'waitedForWriteLockMs'])
    expect([name, find(name)]).toEqual([name, []])
  expect(find('"end"\nfrom late')).toEqual([3])
  expect(find('/dump')).toEqual([98])
  expect(find('no such database')).toEqual([99])
  expect(find('other')).toEqual([99])
})

test('times have a date and a time zone', () => {
  const [request] = list(newModel(['select 1']), 'select')
  expect(request).toMatchObject({ at: '2026-11-30T08:00:00.500Z', tookMs: 5 })
})
