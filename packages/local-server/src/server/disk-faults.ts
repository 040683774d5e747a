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
/** What each of them begins with. */
const PREFIX = '"code":"SQLITE_'
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

async function* watched(body: Readable, report: (fault: DiskFault) => void): AsyncGenerator<Buffer> {
  let end: Buffer = Buffer.alloc(0)
  for await (const given of body as AsyncIterable<Buffer | string>) {
    const chunk = typeof given === 'string' ? Buffer.from(given) : given
    const seam = Buffer.concat([end, chunk.subarray(0, OVERLAP)])
    // few responses have one: searching bytes costs a fraction of decoding them
    for (const part of [seam, chunk]) if (part.includes(PREFIX)) reportFault(part.toString('latin1'), report)
    end = Buffer.concat([end, chunk.subarray(-OVERLAP)]).subarray(-OVERLAP)
    yield chunk
  }
}

function reportFault(text: string, report: (fault: DiskFault) => void): void {
  const fault = FAULT.exec(text)?.[1]
  if (fault !== undefined) report(fault as DiskFault)
}
