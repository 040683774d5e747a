import type { Exchange } from './sequences.ts'

/** What the embedded server answers differently on purpose, or cannot help; each with its reason. */
export const ACCEPTED: readonly { readonly reason: string; applies(exchange: Exchange): boolean }[] = [
  {
    reason: 'libsql-server reads `1e;` as a number where it reads `1e` at the end of a text as an error',
    applies: (exchange) => textOf(exchange).includes('SELECT 1e;'),
  },
]

/** Whether an exchange may be answered differently. */
export function isAccepted(exchange: Exchange): boolean {
  return ACCEPTED.some(({ applies }) => applies(exchange))
}

function textOf({ body }: Exchange): string {
  return JSON.stringify(body)
}
