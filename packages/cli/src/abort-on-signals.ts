import { InterruptedError } from './command-context.ts'

/** Exit codes of a process that a signal has ended. */
const EXIT_CODES = { SIGINT: 130, SIGTERM: 143 } as const
type StopSignal = keyof typeof EXIT_CODES

/** Number of signals after which the process no longer waits for its command to clean up. */
const LIMIT = 3

/**
 * Aborts a command at the first SIGINT or SIGTERM. The second one changes nothing, because npm and other wrappers forward a signal
 * that their child has also received itself. The third one ends the process.
 * @param end ends the process; by default, by the signal
 */
export function abortOnSignals(
  controller: AbortController,
  end: (signal: StopSignal) => void = endBySignal,
): void {
  let count = 0
  const onSignal = (signal: StopSignal): void => {
    count += 1
    controller.abort(new InterruptedError(EXIT_CODES[signal]))
    if (count === LIMIT) end(signal)
  }
  for (const signal of Object.keys(EXIT_CODES)) process.on(signal as StopSignal, onSignal)
}

/** Ends the process after its `exit` listeners. `process.exit` alone would wait for the opening of a pipe that has no writer. */
function endBySignal(signal: StopSignal): void {
  process.once('exit', () => {
    process.removeAllListeners(signal)
    process.kill(process.pid, signal)
  })
  process.exit(EXIT_CODES[signal])
}
