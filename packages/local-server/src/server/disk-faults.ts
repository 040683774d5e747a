import { createPartSearch, type ServiceResponse, watchBody } from '@batonsql/server-common/http'

/** Log messages for SQLite errors that the disk may have caused. */
export const DISK_FAULTS = {
  SQLITE_FULL: 'a statement failed because the disk is full, or a table has no rowid left (SQLITE_FULL)',
  SQLITE_IOERR: 'a statement failed because the disk could not be read or written (SQLITE_IOERR)',
} as const

/** The code of a disk error; its extended codes begin with it. */
export type DiskFault = keyof typeof DISK_FAULTS

/** Matches an error code in a response. In a value, the quotation marks would be escaped. */
const FAULT = /"code":"(SQLITE_FULL|SQLITE_IOERR)/g
/**
 * Part of every match. A search for text that begins with a quotation mark takes ten times as long, because JSON is full of them.
 */
const CODE_PREFIX = Buffer.from('SQLITE_')
/** Longer than any match. */
const MAX_MATCH_BYTES = 32

/** Reports disk errors in a response body, even while it is streamed; possibly the same one several times. */
export function watchDiskFaults(
  body: ServiceResponse['body'],
  report: (fault: DiskFault) => void,
): ServiceResponse['body'] {
  if (typeof body === 'string') {
    reportFault(body, report)
    return body
  }
  // few responses match, and searching bytes is much cheaper than decoding them
  const search = (part: Buffer): void => {
    if (part.includes(CODE_PREFIX)) reportFault(part.toString('latin1'), report)
  }
  if (Buffer.isBuffer(body)) {
    search(body)
    return body
  }
  return watchBody(body, [{ onPart: createPartSearch(search, MAX_MATCH_BYTES) }])
}

function reportFault(text: string, report: (fault: DiskFault) => void): void {
  for (const fault of new Set(Array.from(text.matchAll(FAULT), ([, code]) => code)))
    report(fault as DiskFault)
}
