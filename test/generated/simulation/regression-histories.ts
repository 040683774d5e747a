import type { CallPlan, ClientPlan, Fault, FaultKind, History, Mode, Sql, Step } from './history.ts'
import type { ServerPlan } from './model-server.ts'

interface Regression {
  readonly title: string
  readonly history: History
}

interface RegressionOptions {
  readonly client?: ClientPlan
  readonly server?: ServerPlan
  /** Faults by the number of the request, some with a value. */
  readonly faults?: Readonly<Record<number, FaultKind | readonly [FaultKind, number]>>
  readonly seed?: number
  /** When the programs start, in ms; by default 0. */
  readonly startsAt?: readonly number[]
}

/** Creates a regression: a history with one client, whose programs run concurrently. */
function regression(
  title: string,
  programs: readonly (readonly Step[])[],
  { client = {}, server = {}, faults = {}, seed = 0, startsAt = [] }: RegressionOptions = {},
): Regression {
  const tasks = programs.map((steps, index) => ({ client: 0, atMs: startsAt[index] ?? 0, steps }))
  const faultList = Object.entries(faults).map(([request, fault]): Fault => {
    const [kind, value] = [fault].flat() as [FaultKind, number?]
    return { request: Number(request), kind, ...(value !== undefined && { value }) }
  })
  return { title, history: { seed, server, clients: [client], tasks, faults: faultList } }
}

type Plan = CallPlan & { readonly on?: 'client'; readonly mode?: Mode }
const execute = (sql: Sql, plan: Plan = {}): Step => ({ do: 'execute', sql, ...plan })
const batch = (sql: readonly Sql[], plan: Plan = {}): Step => ({ do: 'batch', sql, ...plan })
const chain = (sql: readonly Sql[]): Step => ({ do: 'chain', sql })
const rows = (
  sql: Sql,
  plan: CallPlan & { readonly take?: number; readonly steps?: readonly Step[] } = {},
): Step => ({ do: 'rows', sql, ...plan })
const inTransaction = (...steps: Step[]): Step => ({ do: 'transaction', steps })
const inSavepoint = (...steps: Step[]): Step => ({ do: 'savepoint', steps })
const onStream = (...steps: Step[]): Step => ({ do: 'stream', steps })
const together = (...steps: Step[]): Step => ({ do: 'together', steps })
const sleep = (ms: number): Step => ({ do: 'sleep', ms })
const insert = execute('insert')
const select = execute('select')
const begin: Step = { do: 'begin' }
const commit: Step = { do: 'commit' }
const rollback: Step = { do: 'rollback' }
/** Awaits the calls that are made with `later`. */
const awaitCalls: Step = { do: 'await' }

interface Options {
  readonly mode?: Mode
  readonly retry?: number
  readonly throws?: boolean
}
const withOptions = (step: Step, options: CallPlan & Options): Step => ({ ...step, ...options })
const caught = (step: Step): Step => withOptions(step, { catches: true })
const later = (step: Step): Step => withOptions(step, { wait: 'later' })
const unawaited = (step: Step): Step => withOptions(step, { wait: 'never' })

const OTHER_WRITERS = Array.from({ length: 3 }, () => [inTransaction(insert)])

/** Histories that once revealed a bug. They run before the generated ones. */
export const REGRESSIONS: readonly Regression[] = [
  regression('a write and rows as the first calls of a transaction', [
    [inTransaction(later(insert), later(rows('select')), awaitCalls)],
  ]),
  regression('rows and a write as the first calls of a transaction, in one tick', [
    [inTransaction(together(rows('insert'), insert))],
  ]),
  regression('SAVEPOINT on a stream without a transaction', [
    [onStream(caught(execute('savepoint p')), insert)],
  ]),
  regression('a RELEASE that a deferred constraint rejects once', [
    [
      onStream(
        caught(execute('savepoint p')),
        caught(execute('child')),
        caught(execute('release p')),
        caught(execute('parent')),
        caught(execute('release p')),
      ),
    ],
  ]),
  regression('SAVEPOINT in a chain', [[onStream(caught(chain(['savepoint p'])), chain(['insert']))]]),
  regression(
    'a fetch that ignores its signal does not keep the write permit',
    [
      [caught(inTransaction(execute('insert', { abortMs: 5 })))],
      [caught(inTransaction(execute('insert', { abortMs: 5 })))],
      [sleep(2_000), inTransaction(insert)],
    ],
    { client: { ignoresAbort: true }, faults: { 0: 'no response', 1: 'no response' } },
  ),
  regression(
    'a fetch that ignores its signal does not keep the stream of a cursor',
    [[inTransaction(unawaited(rows('insert')))]],
    { client: { ignoresAbort: true }, faults: { 0: 'no response' } },
  ),
  regression(
    'a read that a transaction awaits does not share a request with a write of the same tick',
    [[inTransaction(insert, execute('select', { on: 'client' }))], [sleep(3), insert]],
    { client: { coalesce: true } },
  ),
  regression('a write on the client that a callback does not await', [
    [inTransaction(insert, execute('insert', { on: 'client', wait: 'never' }), sleep(500))],
  ]),
  regression('a read on the client in a callback, after a comment', [
    [inTransaction(batch(['pragma']), execute('commented select', { on: 'client' }))],
  ]),
  regression('an invalid first statement does not keep the write permit', [
    [inTransaction(caught(execute('unparsable')), sleep(4_000))],
    [inTransaction(caught(execute('unparsable')), sleep(4_000))],
    [sleep(100), inTransaction(insert)],
  ]),
  regression('coalesce without waiting', [[together(insert, insert, select)]], {
    client: { coalesce: true },
  }),
  regression('a savepoint whose name contains a keyword of BEGIN', [
    [onStream(withOptions(begin, { mode: 'deferred' }), { do: 'mark', name: 'immediate_report' }, select)],
  ]),
  ...[3, 4, 5, 6, 7, 8].map((value) =>
    regression(
      `a COMMIT with the response to another request: ${value}`,
      [[withOptions(inTransaction(insert), { retry: 2 })]],
      { faults: { 1: ['foreign response', value] } },
    ),
  ),
  regression('a statement that fails and keeps some of its rows', [
    [caught(execute('or fail'))],
    [inTransaction(caught(execute('or fail')), insert)],
    [onStream(begin, insert, caught(execute('or fail')), commit)],
  ]),
  regression(
    'a cursor aborted before its first row leaves no lock behind',
    [
      [inTransaction(insert, rows('select', { abortMs: 1 }))],
      [withOptions(inTransaction(insert, later(rows('insert')), insert), { throws: true })],
      ...OTHER_WRITERS,
    ],
    { seed: 878853453 },
  ),
  // found by the simulation
  regression('the end of a transaction with a short timeout', [[inTransaction(insert, rollback)], [insert]], {
    client: { requestTimeoutMs: 4 },
    seed: 65232109,
  }),
  regression(
    'a COMMIT on /v2 after an invalid first statement',
    [[inTransaction(later(execute('unparsable')))]],
    { server: { isOld: true } },
  ),
  regression('a cursor over an invalid statement in a transaction', [
    [inTransaction(caught(rows('unparsable')))],
  ]),
  regression(
    'a malformed response does not prove that the server has /v3',
    [[insert, inTransaction(insert)]],
    { server: { isOld: true }, faults: { 1: ['foreign response', 0] } },
  ),
  regression(
    'a server without cursors closes the stream of an aborted cursor',
    [[inTransaction(batch(['insert']), later(rows('insert')), rows('insert'))]],
    { server: { hasNoCursor: true } },
  ),
  regression('a savepoint that fails while its rows are read ends the cursor', [
    [
      inTransaction(
        caught(
          withOptions(inSavepoint(batch(['insert']), unawaited(rows('insert')), later(insert)), {
            throws: true,
          }),
        ),
        execute('select', { on: 'client' }),
        inSavepoint(),
      ),
    ],
  ]),
  regression('a savepoint that ends while its rows are about to be read', [
    [inTransaction(caught(inSavepoint(rows('insert'), later(rows('insert')), insert)), unawaited(insert))],
  ]),
  regression('rows of a stream that the server has closed', [
    [onStream(rows('insert'), sleep(11_000), caught(rows('select')))],
  ]),
  regression(
    'rows of a write on an open stream, whose request is duplicated in transit',
    [[onStream(insert, rows('insert'))]],
    { faults: { 1: 'repeated' } },
  ),
  regression('a call queued after a savepoint, and one that is made just after the savepoint has ended', [
    [
      inTransaction(
        together(
          insert,
          together(execute('pragma'), later(inSavepoint(select)), later(batch(['insert'])), awaitCalls),
        ),
        batch(['returning']),
      ),
    ],
  ]),
  regression('breaking out of a loop over the rows of a write after its signal was aborted', [
    [rows('returning', { take: 1, steps: [sleep(1)], abortMs: 6 })],
  ]),
  regression(
    'a stream that is closed while rows are read and other calls are queued',
    [[onStream(together(insert, rows('insert'), insert, execute('insert', { timeoutMs: 11 })))]],
    { seed: 80566580 },
  ),
  regression(
    'a coalesced call that times out before its request is sent',
    [[execute('insert', { timeoutMs: 1 })]],
    { client: { coalesce: true } },
  ),
  regression('a coalesced call that times out while its request waits for the token', [[insert]], {
    client: { coalesce: true, requestTimeoutMs: 1, token: { ms: 1 } },
  }),
  regression(
    'a coalesced call that times out while its shared request waits for the token',
    [[execute('insert', { wait: 'never', timeoutMs: 1 }), insert]],
    { client: { coalesce: true, token: { ms: 1 } } },
  ),
  regression(
    'a coalesced call that times out while its request waits for two requests with writes',
    [[together(select, insert)], [awaitCalls, caught(insert), insert]],
    { client: { coalesce: true, requestTimeoutMs: 1 }, seed: 1345070120, startsAt: [0, 1] },
  ),
  regression(
    'a ROLLBACK called in the same tick as the first statement of a transaction that waits for its write permit',
    [
      [rows('insert')],
      [together(inTransaction(insert), onStream(begin, together(insert, rollback)), inTransaction(insert))],
    ],
    { client: { requestTimeoutMs: 1 }, seed: 389967202 },
  ),
  regression('a ROLLBACK that is aborted while it is sent with the close of its stream', [
    [onStream(execute('begin'), batch(['pragma']), execute('rollback', { wait: 'never', abortTicks: 0 }))],
  ]),
  regression(
    'a response with invalid results does not prove that the server has /v3',
    [[insert], [onStream(insert)]],
    { server: { isOld: true }, faults: { 1: ['foreign response', 4] } },
  ),
  regression('a ROLLBACK statement that is aborted after a rollback in flight', [
    [onStream(begin, insert, later(rollback), execute('rollback', { abortTicks: 0 }))],
  ]),
  regression(
    'a rollback that times out while a COMMIT has no response',
    [[onStream(begin, insert, caught(later(commit)), caught(withOptions(rollback, { timeoutMs: 100 })))]],
    { faults: { 1: 'no response' } },
  ),
  regression(
    'a rollback that is aborted while it waits for a COMMIT, which is not sent',
    [
      [
        insert,
        onStream(
          begin,
          insert,
          caught(later(commit)),
          caught(withOptions(rollback, { abortMs: 0 })),
          sleep(1),
          commit,
        ),
      ],
    ],
    { client: { token: { ms: 1, fails: [2] } } },
  ),
  regression(
    'a transaction that is rolled back while it waits for the write lock lets the next one write, though its stream stays open',
    [
      [inTransaction(insert, sleep(50))],
      [inTransaction(insert, sleep(3_000))],
      [onStream(begin, caught(unawaited(insert)), sleep(5), rollback, sleep(3_000))],
      [inTransaction(insert)],
    ],
    { startsAt: [0, 0, 5, 20] },
  ),
  regression(
    'other clients can write once the server has closed two streams whose close requests got no response',
    [[inTransaction(rows('insert'))], [onStream(begin, insert, batch(['pragma']))]],
    { server: { isOld: true }, faults: { 5: 'lost silently', 6: 'refused after', 7: 'no response' } },
  ),
  regression(
    'a ROLLBACK statement after a COMMIT with an unknown outcome',
    [[onStream(begin, insert, caught(commit), execute('rollback'))]],
    { faults: { 1: 'foreign response' } },
  ),
  regression('a script whose last statement fails after a transaction', [
    [{ do: 'script', sql: ['insert', 'insert', 'missing table'], transactionRange: [1, 2], catches: true }],
  ]),
  regression('reads of a transaction that are too large for one response', [
    [inTransaction(together(execute('large'), execute('large')))],
  ]),
  regression('a batch on a stream that is too large for one response, and a write after it', [
    [onStream(caught(batch(['insert', 'large', 'large'])), caught(insert))],
  ]),
  regression(
    'a coalesced write that is rejected, and waits for its retry until its timeout',
    [[caught(insert)], [{ do: 'script', sql: ['pragma'] }], [caught(later(insert)), onStream(insert)]],
    {
      client: { coalesce: true },
      faults: { 1: ['refused as html', 429], 5: 'lost silently' },
      seed: 1017104379,
      startsAt: [0, 0, 1],
    },
  ),
  regression(
    'coalesced reads, one of which has a result that cannot be encoded',
    [[together(select, caught(execute('unreadable')), select)]],
    { client: { coalesce: true } },
  ),
  regression(
    'a script of one statement that was executed, but whose response is an error with an unknown code',
    [[{ do: 'script', sql: ['insert'] }]],
    { faults: { 0: ['foreign response', 6] } },
  ),
  regression(
    'without batches: a chain that fails before a transaction of the same stream',
    [[onStream(caught(chain(['insert', 'constraint'])), begin, caught(insert), sleep(5), commit)]],
    { server: { isExecuteOnly: true } },
  ),
  regression(
    'without batches: a chain that has no token for its second statement',
    [[onStream(caught(chain(['returning', 'select'])))]],
    { client: { token: { ms: 0, fails: [5] } }, server: { isExecuteOnly: true } },
  ),
  regression(
    'without batches: a batch that fails in the middle of a transaction',
    [[inTransaction(insert, caught(batch(['returning', 'constraint', 'insert'])), insert)]],
    { server: { isExecuteOnly: true } },
  ),
  regression(
    'without batches: a transaction that a statement ended, and a COMMIT',
    [[inTransaction(insert, caught(execute('or rollback')))]],
    { server: { isExecuteOnly: true } },
  ),
  regression(
    'without batches: a response without a baton while another call of its request is pending',
    [[inTransaction(insert, caught(together(insert, insert)))]],
    { server: { isExecuteOnly: true }, faults: { 5: ['foreign response', 0] } },
  ),
  regression(
    'a COMMIT whose second copy is rejected does not prove that the server has no batches',
    [[onStream(insert, begin, insert, caught(commit))]],
    { faults: { 2: 'repeated', 3: 'lost silently' } },
  ),
  regression(
    'a stream stays on /v2, even if another call gets 404 for it',
    [[caught(together(inTransaction(insert), rows('insert')))]],
    { server: { isExecuteOnly: true }, faults: { 3: ['refused as html', 404] }, seed: 223341562 },
  ),
  regression(
    'without batches: a response from another service to a chain does not identify the statement, which was executed',
    [[onStream(caught(chain(['returning'])))]],
    { server: { isExecuteOnly: true }, faults: { 4: ['foreign response', 6] } },
  ),
  regression(
    'a server that rejects writers: the writers of a client run one at a time, and the time limit of each starts when it runs',
    [...OTHER_WRITERS, [insert, batch(['insert', 'insert'])], [inTransaction(sleep(500), insert)]],
    { server: { isTursodb: true } },
  ),
  regression(
    'a server that rejects writers: an aborted call leaves neither a lock nor a stream behind',
    [[inTransaction(insert, sleep(300))], [execute('insert', { abortMs: 20, catches: true }), insert]],
    { server: { isTursodb: true } },
  ),
  regression(
    'a server that rejects writers: a proxy duplicates the request after the rejection',
    [[inTransaction(insert, insert, insert)], [onStream(insert)]],
    { server: { isTursodb: true }, faults: { 5: 'repeated' }, seed: 1692450075 },
  ),
  ...[true, false].map((ignoresAbort) =>
    regression(
      `a server that rejects writers: the response of an aborted cursor arrives late (${ignoresAbort ? 'the signal is ignored' : 'the request is aborted'})`,
      [[inTransaction(rows('insert'), rows('insert', { abortMs: 0 }))]],
      { server: { isTursodb: true }, client: { ignoresAbort }, faults: { 2: ['late', 15_000] } },
    ),
  ),
  regression(
    'a server that rejects writers: a transaction waits for its permit and for the lock within one time limit',
    [
      [
        withOptions(inTransaction(execute('insert', { timeoutMs: 2 })), { retry: 1, wait: 'never' }),
        later(insert),
        inTransaction(insert, insert),
      ],
    ],
    { client: { writeLockTimeoutMs: 72 }, server: { isTursodb: true }, seed: 1678972012 },
  ),
  regression(
    'a server that rejects writers: the stream of a rejected write expires while it waits to be sent again',
    [
      [onStream(batch(['pragma']))],
      [withOptions(inTransaction(rows('returning', { steps: [sleep(10_855)] })), { mode: 'readonly' })],
    ],
    { server: { isTursodb: true }, seed: 1487009526 },
  ),
  regression(
    'a server that rejects writers: there are no read-only transactions',
    [
      [withOptions(inTransaction(select, select), { mode: 'readonly' })],
      [batch(['select', 'select'], { mode: 'readonly' })],
    ],
    { server: { isTursodb: true } },
  ),
  regression(
    'a call queued after a COMMIT that a deferred constraint rejects does not run inside the transaction',
    [
      [
        onStream(
          execute('begin'),
          together(execute('child'), caught(commit), caught(insert)),
          caught(commit),
        ),
      ],
    ],
  ),
  regression(
    'calls that wait together for the write lock of a server that rejects writers have their whole time limits afterwards',
    [
      [
        onStream(
          withOptions(begin, { mode: 'readonly' }),
          execute('insert', { timeoutMs: 6 }),
          caught(commit),
        ),
        inTransaction(execute('insert', { wait: 'later', timeoutMs: 2 }), insert),
      ],
    ],
    { client: { requestTimeoutMs: 1, writeLockTimeoutMs: 2 }, server: { isTursodb: true } },
  ),
  regression(
    'a server that rejects writers: calls that share a request are rejected by the time limit of one in a nested savepoint',
    [
      [inTransaction(rows('insert'), insert, rows('insert'))],
      [insert],
      [
        inTransaction(insert),
        withOptions(
          inTransaction(
            inSavepoint(together(batch(['select']), inSavepoint(execute('insert', { timeoutMs: 42 })))),
          ),
          { retry: 1 },
        ),
      ],
    ],
    { server: { isTursodb: true }, seed: 1445798083, startsAt: [1] },
  ),
  regression(
    'a server that rejects writers: every attempt of a batch has the same steps',
    [[batch(['large'], { mode: 'immediate', timeoutMs: 5 })], [inTransaction(insert)]],
    { server: { isTursodb: true }, seed: 286685007, startsAt: [1] },
  ),
  regression(
    'a chain whose response is too large does not leave the transaction of the test on a server that ignores conditions',
    [[onStream(caught(chain(['large', 'large'])), insert)]],
    { server: { ignoresConditions: true } },
  ),
  regression(
    'a transaction that is idle after its rows were read expires',
    [[inTransaction(rows('returning'), sleep(500), select)]],
    { client: { transactionTimeoutMs: 100 } },
  ),
  ...[false, true].flatMap((hasNoCursor) =>
    [0, 1].map((request) =>
      regression(
        `an aborted transaction whose request for rows gets no response does not keep its write permit: ${hasNoCursor ? 'without cursors' : 'with cursors'}, request ${request}`,
        [[withOptions(inTransaction(rows('insert')), { abortMs: 20 })]],
        { client: { concurrency: 1 }, server: { hasNoCursor }, faults: { [request]: 'lost silently' } },
      ),
    ),
  ),
  regression(
    'calls after a COMMIT that was not sent because there was no token are rejected',
    [
      [onStream(begin, insert, unawaited(commit), later(rollback), unawaited(insert), awaitCalls)],
      [rows('insert')],
    ],
    { client: { token: { ms: 0, fails: [3] } }, seed: 1534676768 },
  ),
  regression('calls of one tick share a request, also if they had to wait for a savepoint', [
    [inTransaction(later(inSavepoint()), together(insert, insert, insert))],
  ]),
]
