import { Pool } from 'undici'
import { ROWS, SELECT, type Subject, TRANSACTION } from './subject.ts'

interface Response {
  readonly baton: string | null
  readonly results: readonly {
    readonly response?: { readonly result: { readonly rows: readonly unknown[] } }
  }[]
}

const GUARD = '"condition":{"type":"not","cond":{"type":"is_autocommit"}}'

/** The floor: the requests that core sends, written by hand, the answers parsed and not looked at any further. */
export function open(url: string): Subject {
  const pool = new Pool(url, { connections: 64 })
  const headers = { 'content-type': 'application/json' }
  const post = async (path: string, body: string): Promise<Response> => {
    const response = await pool.request({ method: 'POST', path, headers, body })
    return JSON.parse(await response.body.text()) as Response
  }
  const stmt = (sql: string, id: number): string =>
    `{"sql":"${sql}","args":[{"type":"integer","value":"${id}"}]}`
  const batch = (baton: string | null, steps: string, close = false): Promise<Response> =>
    post(
      '/v3/pipeline',
      `{${baton === null ? '' : `"baton":"${baton}",`}"requests":[{"type":"batch","batch":{"steps":[${steps}]}}${close ? ',{"type":"close"}' : ''}]}`,
    )
  return {
    select: (id) =>
      post('/v2/pipeline', `{"requests":[{"type":"execute","stmt":${stmt(SELECT, id)}},{"type":"close"}]}`),
    async transaction(id) {
      const [first, second, third] = TRANSACTION
      let { baton } = await batch(
        null,
        `{"stmt":{"sql":"BEGIN IMMEDIATE"}},{"stmt":${stmt(first, id)},"condition":{"type":"ok","step":0}}`,
      )
      baton = (await batch(baton, `{"stmt":${stmt(second, id)},${GUARD}}`)).baton
      baton = (await batch(baton, `{"stmt":${stmt(third, id)},${GUARD}}`)).baton
      await batch(baton, `{"stmt":{"sql":"COMMIT"},${GUARD}}`, true)
    },
    async rows() {
      const { results } = await post(
        '/v2/pipeline',
        `{"requests":[{"type":"execute","stmt":{"sql":"${ROWS}"}},{"type":"close"}]}`,
      )
      return results[0]?.response?.result.rows.length ?? 0
    },
    close: () => pool.close(),
  }
}
