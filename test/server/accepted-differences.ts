import { readTranscripts } from './transcript.ts'

/** Cases that cannot be replayed here, with the reasons. */
export const NOT_REPLAYED: Readonly<Record<number, string>> = {
  77: 'restarts the server; covered by crash.test.ts',
  104: 'every database has its own key here; test/platform/tokens.test.ts',
  108: "there are no /dev routes: they would bypass a token's permissions",
  113: "needs libsql-server's administration API; test/client/database-api.test.ts loads a dump",
  135: "needs libsql-server's administration API, which the platform API replaces",
  233: 'needs a server without a default database; here one always exists',
  234: 'basic authentication, a libsql-server flag, is not supported',
  237: "needs libsql-server's administration API; test/platform/tokens.test.ts rotates keys",
  238: "needs libsql-server's administration API; test/platform/databases.test.ts copies and deletes",
  240: 'the write lock can always be taken over after 5 s here',
  241: "needs libsql-server's administration API, which the platform API replaces",
  242: "sets limits with libsql-server flags; here they have libsql-server's defaults",
  249: 'there are no protobuf routes',
  254: 'HTTP/1.1 only',
  255: "needs libsql-server's administration API; no URL is loaded here",
  256: 'HTTP/1.1 only',
}

/** Cases in which the embedded server is known to respond differently, and why that is correct or acceptable. */
export const ACCEPTED_DIFFERENCES: Readonly<Record<number, string>> = {
  5: 'a different JSON parser describes the position of the error in truncated JSON',
  7: 'if a key is repeated, the last value is used; libsql-server rejects it',
  12: "a number written as text is accepted, as in the service's documentation",
  16: 'base64 with JSON escapes is accepted; libsql-server rejects it',
  71: 'the engine returns rows in chunks of a hundred: if a step fails, the last rows before the error are missing',
  101: 'compile options, functions and the file path are those of the embedded engine',
  107: "this machine's address selects the database `default`, however it is written",
  106: '`x-namespace` is read, as in newer versions of libsql-server',
  109: 'reports its own name and version',
  111: 'numbers in a dump keep their exact value when loaded: 1.0, 1e20, 9e999',
  114: 'numbers in a dump keep their exact value when loaded: 1.0, 1e20, 9e999',
  117: 'a child keeps the statements of a script without the semicolons between them; the error of a job that has not failed is null, not omitted',
  118: 'a failed migration has ended when its response is sent; in libsql-server it blocks the next one for a moment',
  126: 'a database whose reads are blocked cannot be dumped either',
  128: 'blocking closes open streams of clients with write permission and ends their transactions; in libsql-server these continue and commit',
  129: 'a stream cannot be continued once a database that it has attached may no longer be attached',
  132: 'pages of sites not on this machine are rejected; test/security/web-pages.test.ts',
  200: 'an integer with JSON escapes is accepted; libsql-server rejects it',
  211: 'steps that have not started when the client disconnects are skipped; libsql-server runs and commits them',
  226: 'a write waiting for the lock is canceled when its client disconnects; libsql-server applies it later',
  260: 'steps that have not started when the client disconnects are skipped; libsql-server runs and commits them',
  261: 'steps that have not started when the client disconnects are skipped; libsql-server runs and commits them',
  202: 'there are no routes of protocol version 1; test/security/tokens.test.ts',
  205: 'one syntax error is worded like all others',
  207: 'libsql_server_database_name() exists only in libsql-server',
  209: 'a response that is truncated by an error ends earlier',
  235: 'files have different names in PRAGMA database_list',
  236: 'a baton is not valid for another database: test/security/batons.test.ts',
  244: 'a different JSON parser describes the position of the error in malformed JSON',
  253: 'a dump with odd column names and U+0000 is complete and can be loaded',
  251: 'a malformed second statement is reported as such, not as one statement too many',
}

/** Returns the tables of docs/limits.md: the recorded cases that differ or are not replayed. */
export function caseTables(): string {
  const transcripts = readTranscripts()
  const formatCell = (text = ''): string => text.replaceAll('|', '\\|')
  const formatTable = (reasons: Readonly<Record<number, string>>): string => {
    const rows = Object.entries(reasons).map(([id, reason]) => {
      const title = transcripts.find((transcript) => transcript.id === Number(id))?.title
      return `| ${id} | ${formatCell(title)} | ${formatCell(reason)} |`
    })
    return ['| case | request | difference or reason |', '|---|---|---|', ...rows, ''].join('\n')
  }
  const total = transcripts.length
  const differing = Object.keys(ACCEPTED_DIFFERENCES).length
  const notReplayed = Object.keys(NOT_REPLAYED).length
  return [
    `Of ${total} recorded cases ${total - differing - notReplayed} get the same response, ${differing} differ, ${notReplayed} are not replayed.\n`,
    '### Cases that differ\n',
    formatTable(ACCEPTED_DIFFERENCES),
    '### Cases that are not replayed\n',
    formatTable(NOT_REPLAYED),
  ].join('\n')
}
