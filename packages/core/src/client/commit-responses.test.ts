import { describe, expect, test } from 'vitest'
import { batchResponse, type ScriptedStep } from '../../test-support/scripted-batch.ts'
import { respond, row, scripted } from '../../test-support/scripted-server.ts'
import type { Client } from './client.ts'
import { openStream } from './stream.ts'

// JSON responses with HTTP 200 that do not prove the outcome of a COMMIT, from a server that has run it.

interface Body {
  readonly requests: readonly {
    readonly type: string
    readonly batch?: { readonly steps: readonly ScriptedStep[] }
  }[]
}

/** The first result of the response to a request with a COMMIT, created from the number of its steps. */
const RESPONSES: Record<string, (steps: number) => unknown> = {
  'no result': () => undefined,
  null: () => null,
  'a result of another type': () => ({ type: 'strange' }),
  'a response to something else': () => ({ type: 'ok', response: { type: 'execute', result: row } }),
  'no response': () => ({ type: 'ok' }),
  'no step results': () => ok({ step_errors: [] }),
  'no steps at all': () => ok({ step_results: [], step_errors: [] }),
  'too few steps': (steps) => ok(everyStep(steps - 1, row)),
  'too many steps': (steps) => ok(everyStep(steps + 1, row)),
  'every step skipped': (steps) => ok(everyStep(steps, null)),
  'every step executed, including mutually exclusive ones': (steps) => ok(everyStep(steps, row)),
  'invalid results': (steps) => ok(everyStep(steps, {})),
  'errors without a message': (steps) => ok(everyStepFailed(steps, {})),
  'unknown errors': (steps) => ok(everyStepFailed(steps, { message: 'strange', code: 'STRANGE' })),
  'both results and errors': (steps) =>
    ok({
      ...everyStepFailed(steps, { message: 'busy', code: 'SQLITE_BUSY' }),
      step_results: Array(steps).fill(row),
    }),
  'an unknown error of the whole request': () => ({
    type: 'error',
    error: { message: 'strange', code: 'STRANGE' },
  }),
}
const ok = (result: unknown) => ({ type: 'ok', response: { type: 'batch', result } })
const everyStep = (steps: number, result: unknown) => ({
  step_results: Array(steps).fill(result),
  step_errors: Array(steps).fill(null),
})

const everyStepFailed = (steps: number, error: object) => ({
  ...everyStep(steps, null),
  step_errors: Array(steps).fill(error),
})

let runs = 0
const CALLS: Record<string, (db: Client) => Promise<unknown>> = {
  'a transaction': (db) => db.transaction((tx) => tx.execute('insert into t values (1)')),
  'a transaction with retry': (db) =>
    db.transaction(
      (tx) => {
        runs += 1
        return tx.execute('insert into t values (1)')
      },
      { maxRetries: 3 },
    ),
  'a batch': (db) => db.batch(['insert into t values (1)']),
  'a stream': async (db) => {
    await using stream = openStream(db)
    stream.begin()
    await stream.execute('insert into t values (1)')
    await stream.commit()
  },
}

describe.each(Object.entries(CALLS))('%s', (name, call) => {
  test.each(Object.entries(RESPONSES))(
    '%s: the outcome is unknown, and nothing is retried',
    async (responseName, respondWith) => {
      let commits = 0
      const { db } = await scripted(({ body }, response, count) => {
        const { requests } = JSON.parse(body) as Body
        const steps = requests[0]?.batch?.steps ?? []
        const isCommit = steps.some(({ stmt }) => stmt.sql === 'COMMIT')
        commits += isCommit ? 1 : 0
        const result = isCommit ? respondWith(steps.length) : ok(batchResponse(steps, row))
        const baton = requests.at(-1)?.type === 'close' ? null : `b${count}`
        respond(response, { baton, base_url: null, results: result === undefined ? [] : [result] })
      })
      runs = 0
      const error: unknown = await call(db).catch((reason: unknown) => reason)
      // an error of the whole request that does not end a transaction comes from a statement
      const isStatementError = name === 'a batch' && responseName.startsWith('an unknown error of the whole')
      expect(error).toMatchObject({ outcome: 'unknown', code: isStatementError ? 'STRANGE' : 'PROTOCOL' })
      expect(commits).toBe(1)
      expect(runs).toBe(name === 'a transaction with retry' ? 1 : 0)
    },
  )
})

describe('a response proves', () => {
  const getCommitError = async (result: (steps: readonly ScriptedStep[]) => unknown): Promise<unknown> => {
    const { db } = await scripted(({ body }, response, count) => {
      const { requests } = JSON.parse(body) as Body
      const steps = requests[0]?.batch?.steps ?? []
      const isCommit = steps.some(({ stmt }) => stmt.sql === 'COMMIT')
      const results = [isCommit ? ok(result(steps)) : ok(batchResponse(steps, row))]
      respond(response, { baton: isCommit ? null : `b${count}`, base_url: null, results })
    })
    return await db
      .transaction((tx) => tx.execute('insert into t values (1)'))
      .catch((reason: unknown) => reason)
  }

  test('that the COMMIT was rejected', async () => {
    const rejected = { message: 'FOREIGN KEY constraint failed', code: 'SQLITE_CONSTRAINT' }
    const error = await getCommitError((steps) =>
      batchResponse(steps, row, (sql) => (sql === 'COMMIT' ? rejected : null)),
    )
    expect(error).toMatchObject({ code: 'SQLITE_CONSTRAINT', outcome: 'not_applied' })
  })

  test('that the transaction was lost, if the COMMIT was skipped and the statement that shows why was not', async () => {
    const error = await getCommitError(() => ({
      step_results: [null, null, row],
      step_errors: [null, null, null],
    }))
    expect(error).toMatchObject({ code: 'TRANSACTION_LOST', outcome: 'not_applied' })
  })

  test("nothing if a replica lost the primary's response", async () => {
    const lost = { message: 'error executing a request on the primary: transport error', code: 'PROXY_ERROR' }
    const error = await getCommitError((steps) =>
      batchResponse(steps, row, (sql) => (sql === 'COMMIT' ? lost : null)),
    )
    expect(error).toMatchObject({ code: 'PROTOCOL', outcome: 'unknown', cause: { code: 'PROXY_ERROR' } })
  })
})
