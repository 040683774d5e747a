import type { Exchange } from './sequences.ts'
import { BROKEN } from './statements.ts'

/** Accepted differences of the embedded server's responses, each with its reason. */
const ACCEPTED: readonly { readonly reason: string; applies(exchange: Exchange): boolean }[] = [
  {
    reason: 'libsql-server reads `1e;` as a number where it reads `1e` at the end of a text as an error',
    applies: (exchange) => textOf(exchange).includes('SELECT 1e;'),
  },
  {
    reason:
      'libsql-server silently skips some statements that it cannot parse after the first one of a script; the embedded server rejects the script',
    applies: ({ body }) =>
      sequencesIn(body).some((sql) =>
        BROKEN.some((piece) => piece.trim() !== '' && sql.includes(`;${piece}`)),
      ),
  },
  {
    reason: 'the row id behind the largest possible one is chosen by chance',
    applies: (exchange) => /(?:INSERT|REPLACE|UPDATE)[^"]*9223372036854775807/i.test(textOf(exchange)),
  },
  {
    reason: 'describing the creation of a vector index creates parts of it on libsql-server',
    applies: (exchange) =>
      /"type":"describe","sql":"CREATE INDEX[^"]*libsql_vector_idx/.test(textOf(exchange)),
  },
  {
    reason: 'libsql-server breaks a cursor off that may not attach a database; here it is refused with 403',
    applies: (exchange) => exchange.route === '/v3/cursor' && textOf(exchange).includes('"ATTACH '),
  },
  {
    reason: 'describing a pragma that changes a setting is refused: compiling it has its effect already',
    applies: (exchange) => /"type":"describe","sql":"PRAGMA \w+ = /.test(textOf(exchange)),
  },
]

/** Whether a difference in an exchange is accepted. */
export function isAccepted(exchange: Exchange): boolean {
  return ACCEPTED.some(({ applies }) => applies(exchange))
}

/** The body with its keys in the generator's order. */
function textOf({ body }: Exchange): string {
  return JSON.stringify(body)
}

function sequencesIn(body: Exchange['body']): string[] {
  const { requests = [] } = body as { requests?: readonly { type: string; sql?: string }[] }
  return requests.flatMap(({ type, sql }) => (type === 'sequence' && sql !== undefined ? [sql] : []))
}
