import type { Exchange } from './sequences.ts'
import { INVALID_TEXTS } from './statements.ts'

/** Accepted differences between the embedded server and libsql-server, each with its reason. */
const ACCEPTED_DIFFERENCES: readonly { readonly reason: string; applies(exchange: Exchange): boolean }[] = [
  {
    reason: 'libsql-server accepts `1e;` as a number, but rejects `1e` at the end of the SQL',
    applies: (exchange) => getBodyText(exchange).includes('SELECT 1e;'),
  },
  {
    reason:
      'after the first statement of a script, libsql-server silently skips some statements that it cannot parse; the embedded server rejects the script',
    applies: ({ body }) =>
      listSequences(body).some((sql) =>
        INVALID_TEXTS.some((piece) => piece.trim() !== '' && sql.includes(`;${piece}`)),
      ),
  },
  {
    reason: 'the embedded server does not have functions that make libsql-server read unrelated memory',
    applies: (exchange) => /\breverse\(/.test(getBodyText(exchange)),
  },
  {
    reason: 'the row id after the largest possible one is chosen randomly',
    applies: (exchange) => /(?:INSERT|REPLACE|UPDATE)[^"]*9223372036854775807/i.test(getBodyText(exchange)),
  },
  {
    reason: 'describing the creation of a vector index creates parts of it on libsql-server',
    applies: (exchange) =>
      /"type":"describe","sql":"CREATE INDEX[^"]*libsql_vector_idx/.test(getBodyText(exchange)),
  },
  {
    reason:
      'libsql-server aborts a cursor that may not attach a database; the embedded server rejects it with 403',
    applies: (exchange) => exchange.route === '/v3/cursor' && getBodyText(exchange).includes('"ATTACH '),
  },
  {
    reason:
      'the embedded server rejects describing a pragma that changes a setting, because compiling it changes the setting',
    applies: (exchange) => /"type":"describe","sql":"PRAGMA \w+ = /.test(getBodyText(exchange)),
  },
]

/** Returns whether a difference in an exchange is accepted. */
export function isAccepted(exchange: Exchange): boolean {
  return ACCEPTED_DIFFERENCES.some(({ applies }) => applies(exchange))
}

/** Returns the body as text, with its keys in the generator's order. */
function getBodyText({ body }: Exchange): string {
  return JSON.stringify(body)
}

function listSequences(body: Exchange['body']): string[] {
  const { requests = [] } = body as { requests?: readonly { type: string; sql?: string }[] }
  return requests.flatMap(({ type, sql }) => (type === 'sequence' && sql !== undefined ? [sql] : []))
}
