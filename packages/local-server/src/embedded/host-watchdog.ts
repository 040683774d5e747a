/*
 * A thread beside the engine, which blocks its own thread for as long as a statement takes: tells the server which
 * call is being worked on for long, and ends the process when the server is gone. Must not load the engine.
 */
import { writeSync } from 'node:fs'
import { workerData } from 'node:worker_threads'
import { REPORT_FD } from './host-messages.ts'

const INTERVAL_MS = 200

const { busyWith } = workerData as { busyWith: Int32Array }
const never = new Int32Array(new SharedArrayBuffer(4))
const parent = process.ppid
let last = 0
for (;;) {
  Atomics.wait(never, 0, 0, INTERVAL_MS)
  if (process.ppid !== parent) process.kill(process.pid, 'SIGKILL')
  const call = Atomics.load(busyWith, 0)
  if (call !== 0 && call === last) report(call)
  last = call
}

function report(call: number): void {
  try {
    writeSync(REPORT_FD, `busy ${call}\n`)
  } catch {
    // nobody listens any more, or the pipe is full of older reports
  }
}
