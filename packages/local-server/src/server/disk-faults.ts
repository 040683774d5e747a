import { Readable } from 'node:stream'
import type { ServiceResponse } from '../http/service-request.ts'

/** What is logged of an error of SQLite that the disk is the cause of. */
export const DISK_FAULTS = {
  SQLITE_FULL: 'a statement failed as the disk is full (SQLITE_FULL)',
  SQLITE_IOERR: 'a statement failed as the disk could not be read or written (SQLITE_IOERR)',
} as const

/** The code of such an error; the detailed codes begin with it. */
export type DiskFault = keyof typeof DISK_FAULTS

/** In an answer; where it stands in a value, its quotation marks are escaped. */
const FAULT = /"code":"(SQLITE_FULL|SQLITE_IOERR)/
/** Longer than what is looked for, of which a chunk may have the beginning only. */
const OVERLAP = 32

/** Reports a fault of the disk that an answer has, also one that is still to come. */
export function watchDiskFaults(
  body: ServiceResponse['body'],
  report: (fault: DiskFault) => void,
): ServiceResponse['body'] {
  if (typeof body !== 'string') {
    const passedOn = Readable.from(watched(body, report), { objectMode: false })
    // a generator that has not begun does not end what it would have read
    passedOn.once('close', () => body.destroy())
    return passedOn
  }
  reportFault(body, report)
  return body
}

async function* watched(body: Readable, report: (fault: DiskFault) => void): AsyncGenerator<Buffer | string> {
  let before = ''
  for await (const chunk of body as AsyncIterable<Buffer | string>) {
    const text = before + (typeof chunk === 'string' ? chunk : chunk.toString('latin1'))
    reportFault(text, report)
    before = text.slice(-OVERLAP)
    yield chunk
  }
}

function reportFault(text: string, report: (fault: DiskFault) => void): void {
  const fault = FAULT.exec(text)?.[1]
  if (fault !== undefined) report(fault as DiskFault)
}
