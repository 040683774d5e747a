import { Pool } from 'undici'
import {
  CURSOR,
  IDS,
  INSERT,
  ROWS,
  SELECT,
  type Subject,
  TRANSACTION,
  toId,
  VECTORS,
} from '../../lib/subject.ts'

interface PipelineResponse {
  readonly baton: string | null
  readonly results: readonly {
    readonly response?: { readonly result: { readonly rows: readonly unknown[] } }
  }[]
}

const GUARD = '"condition":{"type":"not","cond":{"type":"is_autocommit"}}'
const conditionOk = (step: number): string => `"condition":{"type":"ok","step":${step}}`

/** Opens the baseline, which sends the same requests as core, written by hand, and only parses the responses. */
export function open(url: string, token = ''): Subject {
  const pool = new Pool(url, { connections: 64 })
  const headers = {
    'content-type': 'application/json',
    ...(token !== '' && { authorization: `Bearer ${token}` }),
  }
  const post = async (path: string, body: string): Promise<PipelineResponse> => {
    const response = await pool.request({ method: 'POST', path, headers, body })
    return JSON.parse(await response.body.text()) as PipelineResponse
  }
  const stmt = (sql: string, id: number, text?: string): string =>
    `{"sql":"${sql}","args":[{"type":"integer","value":"${id}"}${text === undefined ? '' : `,{"type":"text","value":"${text}"}`}]}`
  const runSingle = (statement: string): Promise<PipelineResponse> =>
    post('/v2/pipeline', `{"requests":[{"type":"execute","stmt":${statement}},{"type":"close"}]}`)
  const runSteps = (
    path: string,
    baton: string | null,
    stepTexts: readonly string[],
    close = false,
  ): Promise<PipelineResponse> =>
    post(
      path,
      `{${baton === null ? '' : `"baton":"${baton}",`}"requests":[{"type":"batch","batch":{"steps":[${stepTexts.join()}]}}${close ? ',{"type":"close"}' : ''}]}`,
    )
  const runOnStream = runSteps.bind(null, '/v3/pipeline')
  const countRows = async (sql: string): Promise<number> =>
    (await runSingle(`{"sql":"${sql}"}`)).results[0]?.response?.result.rows.length ?? 0
  const batch = (size: number) => (index: number) => {
    const inserts = Array.from(
      { length: size },
      (_, offset) => `{"stmt":${stmt(INSERT, ((index + offset) % IDS) + 1, 'text')},${conditionOk(offset)}}`,
    )
    const end = [
      `{"stmt":{"sql":"COMMIT"},${conditionOk(size)}}`,
      `{"stmt":{"sql":"ROLLBACK"},"condition":{"type":"not","cond":{"type":"ok","step":${size + 1}}}}`,
    ]
    return runSteps('/v2/pipeline', null, ['{"stmt":{"sql":"BEGIN IMMEDIATE"}}', ...inserts, ...end], true)
  }
  const beginWith = (first: string): string[] => [
    '{"stmt":{"sql":"BEGIN IMMEDIATE"}}',
    `{"stmt":${first},${conditionOk(0)}}`,
  ]
  const commitStep = `{"stmt":{"sql":"COMMIT"},${GUARD}}`
  return {
    operations: {
      select: (index) => runSingle(stmt(SELECT, toId(index))),
      insert: (index) => runSingle(stmt(INSERT, toId(index), 'text')),
      async transaction(index) {
        const id = toId(index)
        const [first, second, third] = TRANSACTION
        let { baton } = await runOnStream(null, beginWith(stmt(first, id)))
        baton = (await runOnStream(baton, [`{"stmt":${stmt(second, id)},${GUARD}}`])).baton
        baton = (await runOnStream(baton, [`{"stmt":${stmt(third, id)},${GUARD}}`])).baton
        await runOnStream(baton, [commitStep], true)
      },
      async transactionAtOnce(index) {
        const laterSteps = [1, 2, 3, 4].map(
          (offset) => `{"stmt":${stmt(SELECT, toId(index + offset))},${GUARD}}`,
        )
        const { baton } = await runOnStream(null, [...beginWith(stmt(SELECT, toId(index))), ...laterSteps])
        await runOnStream(baton, [commitStep], true)
      },
      batch10: batch(10),
      batch100: batch(100),
      batch10000: batch(10_000),
      rows: () => countRows(ROWS),
      vectors: () => countRows(VECTORS),
      async cursor() {
        const body = `{"batch":{"steps":[{"stmt":{"sql":"${CURSOR}"}}]}}`
        const response = await pool.request({ method: 'POST', path: '/v3/cursor', headers, body })
        let bytes = 0
        for await (const chunk of response.body) bytes += (chunk as Buffer).length
        if (bytes < 50_000_000) throw new Error(`received only ${bytes} bytes`)
      },
    },
    close: () => pool.close(),
  }
}
