import type { ClientPlan, Fault, History, Step } from './history.ts'
import type { ServerPlan } from './model-server.ts'

interface Regression {
  readonly title: string
  readonly history: History
}

/**
 * Creates a regression: a history with one client.
 * @param programs run concurrently
 * @param options `startsAt`: when they start, in ms (default 0)
 */
function regression(
  title: string,
  programs: readonly (readonly Step[])[],
  {
    client = {},
    server = {},
    faults = [],
    seed = 0,
    startsAt = [],
  }: {
    client?: ClientPlan
    server?: ServerPlan
    faults?: Fault[]
    seed?: number
    startsAt?: readonly number[]
  } = {},
): Regression {
  const tasks = programs.map((steps, index) => ({ client: 0, atMs: startsAt[index] ?? 0, steps }))
  return { title, history: { seed, server, clients: [client], tasks, faults } }
}

const insert: Step = { do: 'execute', sql: 'insert' }
const select: Step = { do: 'execute', sql: 'select' }
const inTransaction = (...steps: Step[]): Step => ({ do: 'transaction', steps })
const onStream = (...steps: Step[]): Step => ({ do: 'stream', steps })
const OTHER_WRITERS = Array.from({ length: 3 }, () => [inTransaction(insert)])

/** Histories that once revealed a bug. They run before the generated ones. */
export const REGRESSIONS: readonly Regression[] = [
  regression('a write and rows as the first calls of a transaction', [
    [
      inTransaction(
        { do: 'execute', sql: 'insert', wait: 'later' },
        { do: 'rows', sql: 'select', wait: 'later' },
        { do: 'await' },
      ),
    ],
  ]),
  regression('rows and a write as the first calls of a transaction, in one tick', [
    [inTransaction({ do: 'together', steps: [{ do: 'rows', sql: 'insert' }, insert] })],
  ]),
  regression('SAVEPOINT on a stream without a transaction', [
    [onStream({ do: 'execute', sql: 'savepoint p', catches: true }, insert)],
  ]),
  regression('a RELEASE that a deferred constraint rejects once', [
    [
      onStream(
        { do: 'execute', sql: 'savepoint p', catches: true },
        { do: 'execute', sql: 'child', catches: true },
        { do: 'execute', sql: 'release p', catches: true },
        { do: 'execute', sql: 'parent', catches: true },
        { do: 'execute', sql: 'release p', catches: true },
      ),
    ],
  ]),
  regression('SAVEPOINT in a chain', [
    [onStream({ do: 'chain', sql: ['savepoint p'], catches: true }, { do: 'chain', sql: ['insert'] })],
  ]),
  regression(
    'a fetch that ignores its signal does not keep the write permit',
    [
      [{ do: 'transaction', steps: [{ ...insert, abortMs: 5 }], catches: true }],
      [{ do: 'transaction', steps: [{ ...insert, abortMs: 5 }], catches: true }],
      [{ do: 'sleep', ms: 2_000 }, inTransaction(insert)],
    ],
    {
      client: { ignoresAbort: true },
      faults: [
        { request: 0, kind: 'no response' },
        { request: 1, kind: 'no response' },
      ],
    },
  ),
  regression(
    'a fetch that ignores its signal does not keep the stream of a cursor',
    [[inTransaction({ do: 'rows', sql: 'insert', wait: 'never' })]],
    { client: { ignoresAbort: true }, faults: [{ request: 0, kind: 'no response' }] },
  ),
  regression(
    'a read that a transaction awaits does not share a request with a write of the same tick',
    [
      [inTransaction(insert, { do: 'execute', sql: 'select', on: 'client' })],
      [{ do: 'sleep', ms: 3 }, insert],
    ],
    { client: { coalesce: true } },
  ),
  regression('a write on the client that a callback does not await', [
    [
      inTransaction(
        insert,
        { do: 'execute', sql: 'insert', on: 'client', wait: 'never' },
        { do: 'sleep', ms: 500 },
      ),
    ],
  ]),
  regression('a read on the client in a callback, after a comment', [
    [
      inTransaction(
        { do: 'batch', sql: ['pragma'] },
        { do: 'execute', sql: 'commented select', on: 'client' },
      ),
    ],
  ]),
  regression('an invalid first statement does not keep the write permit', [
    [inTransaction({ do: 'execute', sql: 'unparsable', catches: true }, { do: 'sleep', ms: 4_000 })],
    [inTransaction({ do: 'execute', sql: 'unparsable', catches: true }, { do: 'sleep', ms: 4_000 })],
    [{ do: 'sleep', ms: 100 }, inTransaction(insert)],
  ]),
  regression('coalesce without waiting', [[{ do: 'together', steps: [insert, insert, select] }]], {
    client: { coalesce: true },
  }),
  regression('a savepoint whose name contains a keyword of BEGIN', [
    [onStream({ do: 'begin', mode: 'deferred' }, { do: 'mark', name: 'immediate_report' }, select)],
  ]),
  ...[3, 4, 5, 6, 7, 8].map((value) =>
    regression(
      `a COMMIT with the response to another request: ${value}`,
      [[{ do: 'transaction', retry: 2, steps: [insert] }]],
      { faults: [{ request: 1, kind: 'foreign response', value }] },
    ),
  ),
  regression('a statement that fails and keeps some of its rows', [
    [{ do: 'execute', sql: 'or fail', catches: true }],
    [inTransaction({ do: 'execute', sql: 'or fail', catches: true }, insert)],
    [onStream({ do: 'begin' }, insert, { do: 'execute', sql: 'or fail', catches: true }, { do: 'commit' })],
  ]),
  regression(
    'a cursor aborted before its first row leaves no lock behind',
    [
      [inTransaction(insert, { do: 'rows', sql: 'select', abortMs: 1 })],
      [
        {
          do: 'transaction',
          steps: [insert, { do: 'rows', sql: 'insert', wait: 'later' }, insert],
          throws: true,
        },
      ],
      ...OTHER_WRITERS,
    ],
    { seed: 878853453 },
  ),
  // found by the simulation
  regression(
    'the end of a transaction with a short timeout',
    [[inTransaction(insert, { do: 'rollback' })], [insert]],
    { client: { requestTimeoutMs: 4 }, seed: 65232109 },
  ),
  regression(
    'a COMMIT on /v2 after an invalid first statement',
    [[inTransaction({ do: 'execute', sql: 'unparsable', wait: 'later' })]],
    { server: { isOld: true } },
  ),
  regression('a cursor over an invalid statement in a transaction', [
    [inTransaction({ do: 'rows', sql: 'unparsable', catches: true })],
  ]),
  regression(
    'a malformed response does not prove that the server has /v3',
    [[insert, inTransaction(insert)]],
    { server: { isOld: true }, faults: [{ request: 1, kind: 'foreign response', value: 0 }] },
  ),
  regression(
    'a server without cursors closes the stream of an aborted cursor',
    [
      [
        inTransaction(
          { do: 'batch', sql: ['insert'] },
          { do: 'rows', sql: 'insert', wait: 'later' },
          { do: 'rows', sql: 'insert' },
        ),
      ],
    ],
    { server: { hasNoCursor: true } },
  ),
  regression('a savepoint that fails while its rows are read ends the cursor', [
    [
      inTransaction(
        {
          do: 'savepoint',
          steps: [
            { do: 'batch', sql: ['insert'] },
            { do: 'rows', sql: 'insert', wait: 'never' },
            { do: 'execute', sql: 'insert', wait: 'later' },
          ],
          throws: true,
          catches: true,
        },
        { do: 'execute', sql: 'select', on: 'client' },
        { do: 'savepoint', steps: [] },
      ),
    ],
  ]),
  regression('a savepoint that ends while its rows are about to be read', [
    [
      inTransaction(
        {
          do: 'savepoint',
          steps: [{ do: 'rows', sql: 'insert' }, { do: 'rows', sql: 'insert', wait: 'later' }, insert],
          catches: true,
        },
        { do: 'execute', sql: 'insert', wait: 'never' },
      ),
    ],
  ]),
  regression('rows of a stream that the server has closed', [
    [
      onStream(
        { do: 'rows', sql: 'insert' },
        { do: 'sleep', ms: 11_000 },
        { do: 'rows', sql: 'select', catches: true },
      ),
    ],
  ]),
  regression(
    'rows of a write on an open stream, whose request is duplicated in transit',
    [[onStream(insert, { do: 'rows', sql: 'insert' })]],
    { faults: [{ request: 1, kind: 'repeated' }] },
  ),
  regression('a call queued after a savepoint, and one that is made just after the savepoint has ended', [
    [
      inTransaction(
        {
          do: 'together',
          steps: [
            insert,
            {
              do: 'together',
              steps: [
                { do: 'execute', sql: 'pragma' },
                { do: 'savepoint', steps: [select], wait: 'later' },
                { do: 'batch', sql: ['insert'], wait: 'later' },
                { do: 'await' },
              ],
            },
          ],
        },
        { do: 'batch', sql: ['returning'] },
      ),
    ],
  ]),
  regression('breaking out of a loop over the rows of a write after its signal was aborted', [
    [{ do: 'rows', sql: 'returning', take: 1, steps: [{ do: 'sleep', ms: 1 }], abortMs: 6 }],
  ]),
  regression(
    'a stream that is closed while rows are read and other calls are queued',
    [
      [
        onStream({
          do: 'together',
          steps: [
            insert,
            { do: 'rows', sql: 'insert' },
            insert,
            { do: 'execute', sql: 'insert', timeoutMs: 11 },
          ],
        }),
      ],
    ],
    { seed: 80566580 },
  ),
  regression(
    'a coalesced call that times out before its request is sent',
    [[{ do: 'execute', sql: 'insert', timeoutMs: 1 }]],
    { client: { coalesce: true } },
  ),
  regression('a coalesced call that times out while its request waits for the token', [[insert]], {
    client: { coalesce: true, requestTimeoutMs: 1, token: { ms: 1 } },
  }),
  regression(
    'a coalesced call that times out while its shared request waits for the token',
    [
      [
        { do: 'execute', sql: 'insert', wait: 'never', timeoutMs: 1 },
        { do: 'execute', sql: 'insert' },
      ],
    ],
    { client: { coalesce: true, token: { ms: 1 } } },
  ),
  regression(
    'a coalesced call that times out while its request waits for two requests with writes',
    [[{ do: 'together', steps: [select, insert] }], [{ do: 'await' }, { ...insert, catches: true }, insert]],
    { client: { coalesce: true, requestTimeoutMs: 1 }, seed: 1345070120, startsAt: [0, 1] },
  ),
  regression(
    'a ROLLBACK called in the same tick as the first statement of a transaction that waits for its write permit',
    [
      [{ do: 'rows', sql: 'insert' }],
      [
        {
          do: 'together',
          steps: [
            { do: 'transaction', steps: [insert] },
            onStream({ do: 'begin' }, { do: 'together', steps: [insert, { do: 'rollback' }] }),
            { do: 'transaction', steps: [insert] },
          ],
        },
      ],
    ],
    { client: { requestTimeoutMs: 1 }, seed: 389967202, startsAt: [0, 0] },
  ),
  regression('a ROLLBACK that is aborted while it is sent with the close of its stream', [
    [
      onStream(
        { do: 'execute', sql: 'begin' },
        { do: 'batch', sql: ['pragma'] },
        { do: 'execute', sql: 'rollback', wait: 'never', abortTicks: 0 },
      ),
    ],
  ]),
  regression(
    'a response with invalid results does not prove that the server has /v3',
    [[insert], [onStream(insert)]],
    { server: { isOld: true }, faults: [{ request: 1, kind: 'foreign response', value: 4 }] },
  ),
  regression('a ROLLBACK statement that is aborted after a rollback in flight', [
    [
      onStream(
        { do: 'begin' },
        insert,
        { do: 'rollback', wait: 'later' },
        { do: 'execute', sql: 'rollback', abortTicks: 0 },
      ),
    ],
  ]),
  regression(
    'a rollback that times out while a COMMIT has no response',
    [
      [
        onStream(
          { do: 'begin' },
          insert,
          { do: 'commit', wait: 'later', catches: true },
          { do: 'rollback', timeoutMs: 100, catches: true },
        ),
      ],
    ],
    { faults: [{ request: 1, kind: 'no response' }] },
  ),
  regression(
    'a rollback that is aborted while it waits for a COMMIT, which is not sent',
    [
      [
        insert,
        onStream(
          { do: 'begin' },
          insert,
          { do: 'commit', wait: 'later', catches: true },
          { do: 'rollback', abortMs: 0, catches: true },
          { do: 'sleep', ms: 1 },
          { do: 'commit' },
        ),
      ],
    ],
    { client: { token: { ms: 1, fails: [2] } } },
  ),
  regression(
    'a transaction that is rolled back while it waits for the write lock lets the next one write, though its stream stays open',
    [
      [inTransaction(insert, { do: 'sleep', ms: 50 })],
      [inTransaction(insert, { do: 'sleep', ms: 3_000 })],
      [
        onStream(
          { do: 'begin' },
          { ...insert, wait: 'never', catches: true },
          { do: 'sleep', ms: 5 },
          { do: 'rollback' },
          { do: 'sleep', ms: 3_000 },
        ),
      ],
      [inTransaction(insert)],
    ],
    { startsAt: [0, 0, 5, 20] },
  ),
  regression(
    'other clients can write once the server has closed two streams whose close requests got no response',
    [
      [inTransaction({ do: 'rows', sql: 'insert' })],
      [onStream({ do: 'begin' }, insert, { do: 'batch', sql: ['pragma'] })],
    ],
    {
      server: { isOld: true },
      faults: [
        { request: 5, kind: 'lost silently' },
        { request: 6, kind: 'refused after' },
        { request: 7, kind: 'no response' },
      ],
    },
  ),
  regression(
    'a ROLLBACK statement after a COMMIT with an unknown outcome',
    [
      [
        onStream(
          { do: 'begin' },
          insert,
          { do: 'commit', catches: true },
          { do: 'execute', sql: 'rollback' },
        ),
      ],
    ],
    { faults: [{ request: 1, kind: 'foreign response' }] },
  ),
  regression('a script whose last statement fails after a transaction', [
    [{ do: 'script', sql: ['insert', 'insert', 'missing table'], transactionRange: [1, 2], catches: true }],
  ]),
  regression('reads of a transaction that are too large for one response', [
    [
      inTransaction({
        do: 'together',
        steps: [
          { do: 'execute', sql: 'large' },
          { do: 'execute', sql: 'large' },
        ],
      }),
    ],
  ]),
  regression('a batch on a stream that is too large for one response, and a write after it', [
    [
      onStream(
        { do: 'batch', sql: ['insert', 'large', 'large'], catches: true },
        { do: 'execute', sql: 'insert', catches: true },
      ),
    ],
  ]),
  regression(
    'a coalesced write that is rejected, and waits for its retry until its timeout',
    [
      [{ do: 'execute', sql: 'insert', catches: true }],
      [{ do: 'script', sql: ['pragma'] }],
      [
        { do: 'execute', sql: 'insert', wait: 'later', catches: true },
        { do: 'stream', steps: [{ do: 'execute', sql: 'insert' }] },
      ],
    ],
    {
      seed: 1_017_104_379,
      client: { coalesce: true },
      startsAt: [0, 0, 1],
      faults: [
        { request: 1, kind: 'refused as html', value: 429 },
        { request: 5, kind: 'lost silently' },
      ],
    },
  ),
  regression(
    'coalesced reads, one of which has a result that cannot be encoded',
    [
      [
        {
          do: 'together',
          steps: [
            { do: 'execute', sql: 'select' },
            { do: 'execute', sql: 'unreadable', catches: true },
            { do: 'execute', sql: 'select' },
          ],
        },
      ],
    ],
    { client: { coalesce: true } },
  ),
  regression(
    'a script of one statement that was executed, but whose response is an error with an unknown code',
    [[{ do: 'script', sql: ['insert'] }]],
    { faults: [{ request: 0, kind: 'foreign response', value: 6 }] },
  ),
  regression(
    'without batches: a chain that fails before a transaction of the same stream',
    [
      [
        onStream(
          { do: 'chain', sql: ['insert', 'constraint'], catches: true },
          { do: 'begin' },
          { do: 'execute', sql: 'insert', catches: true },
          { do: 'sleep', ms: 5 },
          { do: 'commit' },
        ),
      ],
    ],
    { server: { isExecuteOnly: true } },
  ),
  regression(
    'without batches: a batch that fails in the middle of a transaction',
    [
      [
        inTransaction(
          insert,
          { do: 'batch', sql: ['returning', 'constraint', 'insert'], catches: true },
          insert,
        ),
      ],
    ],
    { server: { isExecuteOnly: true } },
  ),
  regression(
    'without batches: a transaction that a statement ended, and a COMMIT',
    [[inTransaction(insert, { do: 'execute', sql: 'or rollback', catches: true })]],
    { server: { isExecuteOnly: true } },
  ),
  regression(
    'without batches: a response without a baton while another call of its request is pending',
    [[inTransaction(insert, { do: 'together', steps: [insert, insert], catches: true })]],
    { server: { isExecuteOnly: true }, faults: [{ request: 5, kind: 'foreign response', value: 0 }] },
  ),
  regression(
    'a COMMIT whose second copy is rejected does not prove that the server has no batches',
    [[onStream(insert, { do: 'begin' }, insert, { do: 'commit', catches: true })]],
    {
      faults: [
        { request: 2, kind: 'repeated' },
        { request: 3, kind: 'lost silently' },
      ],
    },
  ),
  regression(
    'a stream stays on /v2, even if another call gets 404 for it',
    [[{ do: 'together', steps: [inTransaction(insert), { do: 'rows', sql: 'insert' }], catches: true }]],
    {
      seed: 223341562,
      server: { isExecuteOnly: true },
      faults: [{ request: 3, kind: 'refused as html', value: 404 }],
    },
  ),
  regression(
    'without batches: a response from another service to a chain does not identify the statement, which was executed',
    [[onStream({ do: 'chain', sql: ['returning'], catches: true })]],
    { server: { isExecuteOnly: true }, faults: [{ request: 4, kind: 'foreign response', value: 6 }] },
  ),
  regression(
    'a server that rejects writers: the writers of a client run one at a time, and the time limit of each starts when it runs',
    [
      ...OTHER_WRITERS,
      [insert, { do: 'batch', sql: ['insert', 'insert'] }],
      [inTransaction({ do: 'sleep', ms: 500 }, insert)],
    ],
    { server: { isTursodb: true } },
  ),
  regression(
    'a server that rejects writers: an aborted call leaves neither a lock nor a stream behind',
    [[inTransaction(insert, { do: 'sleep', ms: 300 })], [{ ...insert, abortMs: 20, catches: true }, insert]],
    { server: { isTursodb: true } },
  ),
  regression(
    'a server that rejects writers: a proxy duplicates the request after the rejection',
    [[inTransaction(insert, insert, insert)], [onStream(insert)]],
    { seed: 1692450075, server: { isTursodb: true }, faults: [{ request: 5, kind: 'repeated' }] },
  ),
  ...[true, false].map((ignoresAbort) =>
    regression(
      `a server that rejects writers: the response of an aborted cursor arrives late (${ignoresAbort ? 'the signal is ignored' : 'the request is aborted'})`,
      [[inTransaction({ do: 'rows', sql: 'insert' }, { do: 'rows', sql: 'insert', abortMs: 0 })]],
      {
        server: { isTursodb: true },
        client: { ignoresAbort },
        faults: [{ request: 2, kind: 'late', value: 15_000 }],
      },
    ),
  ),
  regression(
    'a server that rejects writers: a transaction waits for its permit and for the lock within one time limit',
    [
      [
        { do: 'transaction', retry: 1, steps: [{ ...insert, timeoutMs: 2 }], wait: 'never' },
        { ...insert, wait: 'later' },
        inTransaction(insert, insert),
      ],
    ],
    { seed: 1678972012, server: { isTursodb: true }, client: { writeLockTimeoutMs: 72 } },
  ),
  regression(
    'a server that rejects writers: the stream of a rejected write expires while it waits to be sent again',
    [
      [onStream({ do: 'batch', sql: ['pragma'] })],
      [
        {
          do: 'transaction',
          mode: 'readonly',
          steps: [{ do: 'rows', sql: 'returning', steps: [{ do: 'sleep', ms: 10_855 }] }],
        },
      ],
    ],
    { seed: 1487009526, server: { isTursodb: true } },
  ),
  regression(
    'a server that rejects writers: there are no read-only transactions',
    [
      [{ do: 'transaction', mode: 'readonly', steps: [select, select] }],
      [{ do: 'batch', sql: ['select', 'select'], mode: 'readonly' }],
    ],
    { server: { isTursodb: true } },
  ),
  regression(
    'a call queued after a COMMIT that a deferred constraint rejects does not run inside the transaction',
    [
      [
        onStream(
          { do: 'execute', sql: 'begin' },
          {
            do: 'together',
            steps: [
              { do: 'execute', sql: 'child' },
              { do: 'commit', catches: true },
              { do: 'execute', sql: 'insert', catches: true },
            ],
          },
          { do: 'commit', catches: true },
        ),
      ],
    ],
    {},
  ),
  regression(
    'calls that wait together for the write lock of a server that rejects writers have their whole time limits afterwards',
    [
      [
        onStream(
          { do: 'begin', mode: 'readonly' },
          { do: 'execute', sql: 'insert', timeoutMs: 6 },
          { do: 'commit', catches: true },
        ),
        inTransaction({ do: 'execute', sql: 'insert', wait: 'later', timeoutMs: 2 }, insert),
      ],
    ],
    { client: { requestTimeoutMs: 1, writeLockTimeoutMs: 2 }, server: { isTursodb: true } },
  ),
  regression(
    'a server that rejects writers: calls that share a request are rejected by the time limit of one in a nested savepoint',
    [
      [
        inTransaction(
          { do: 'rows', sql: 'insert' },
          { do: 'execute', sql: 'insert' },
          { do: 'rows', sql: 'insert' },
        ),
      ],
      [{ do: 'execute', sql: 'insert' }],
      [
        inTransaction(insert),
        {
          do: 'transaction',
          retry: 1,
          steps: [
            {
              do: 'savepoint',
              steps: [
                {
                  do: 'together',
                  steps: [
                    { do: 'batch', sql: ['select'] },
                    { do: 'savepoint', steps: [{ do: 'execute', sql: 'insert', timeoutMs: 42 }] },
                  ],
                },
              ],
            },
          ],
        },
      ],
    ],
    { seed: 1_445_798_083, startsAt: [1], server: { isTursodb: true } },
  ),
  regression(
    'a server that rejects writers: every attempt of a batch has the same steps',
    [[{ do: 'batch', sql: ['large'], mode: 'immediate', timeoutMs: 5 }], [inTransaction(insert)]],
    { seed: 286_685_007, startsAt: [1], server: { isTursodb: true } },
  ),
  regression(
    'a chain whose response is too large does not leave the transaction of the test on a server that ignores conditions',
    [[onStream({ do: 'chain', sql: ['large', 'large'], catches: true }, insert)]],
    { server: { ignoresConditions: true } },
  ),
  regression(
    'a transaction that is idle after its rows were read expires',
    [[inTransaction({ do: 'rows', sql: 'returning' }, { do: 'sleep', ms: 500 }, select)]],
    { client: { transactionTimeoutMs: 100 } },
  ),
  ...[false, true].flatMap((hasNoCursor) =>
    [0, 1].map((request) =>
      regression(
        `an aborted transaction whose request for rows gets no response does not keep its write permit: ${hasNoCursor ? 'without cursors' : 'with cursors'}, request ${request}`,
        [[{ do: 'transaction', steps: [{ do: 'rows', sql: 'insert' }], abortMs: 20 }]],
        { client: { concurrency: 1 }, server: { hasNoCursor }, faults: [{ request, kind: 'lost silently' }] },
      ),
    ),
  ),
  regression(
    'calls after a COMMIT that was not sent because there was no token are rejected',
    [
      [
        onStream(
          { do: 'begin' },
          insert,
          { do: 'commit', wait: 'never' },
          { do: 'rollback', wait: 'later' },
          { do: 'execute', sql: 'insert', wait: 'never' },
          { do: 'await' },
        ),
      ],
      [{ do: 'rows', sql: 'insert' }],
    ],
    { client: { token: { ms: 0, fails: [3] } }, seed: 1_534_676_768 },
  ),
  regression('calls of one tick share a request, also if they had to wait for a savepoint', [
    [
      {
        do: 'transaction',
        steps: [
          { do: 'savepoint', steps: [], wait: 'later' },
          { do: 'together', steps: [insert, insert, insert] },
        ],
      },
    ],
  ]),
]
