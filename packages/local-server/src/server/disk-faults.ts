import { type ServiceResponse, watchBody } from '@batonsql/server-common/http'

/** Log messages for SQLite errors that are caused by the disk. */
export const DISK_FAULTS = {
  SQLITE_FULL: 'a statement failed because the disk is full (SQLITE_FULL)',
  SQLITE_IOERR: 'a statement failed because the disk could not be read or written (SQLITE_IOERR)',
} as const

/** The code of a disk error; its extended codes begin with it. */
export type DiskFault = keyof typeof DISK_FAULTS

/** Matches an error code in a response. In a value, the quotation marks would be escaped. */
const FAULT = /"code":"(SQLITE_FULL|SQLITE_IOERR)/
/** The common prefix of the codes. */
const PREFIX = '"code":"SQLITE_'
/** Longer than any match, which may be split between two chunks. */
const OVERLAP = 32

/** Reports disk errors in a response body, even while it is streamed. */
export function watchDiskFaults(
  body: ServiceResponse['body'],
  report: (fault: DiskFault) => void,
): ServiceResponse['body'] {
  if (typeof body === 'string') {
    reportFault(body, report)
    return body
  }
  let tail: Buffer = Buffer.alloc(0)
  const onPart = (part: Buffer): void => {
    // few responses match, and searching bytes is much cheaper than decoding them
    if (part.includes(PREFIX)) reportFault(part.toString('latin1'), report)
    const overlap = Buffer.concat([tail, part.subarray(0, OVERLAP)])
    if (tail.length > 0 && overlap.includes(PREFIX)) reportFault(overlap.toString('latin1'), report)
    tail = Buffer.concat([tail, part.subarray(-OVERLAP)]).subarray(-OVERLAP)
  }
  return watchBody(body, [{ onPart }])
}

function reportFault(text: string, report: (fault: DiskFault) => void): void {
  const fault = FAULT.exec(text)?.[1]
  if (fault !== undefined) report(fault as DiskFault)
}
