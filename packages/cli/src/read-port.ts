import { UsageError } from './usage-error.ts'

/** Reads a port. @param option its name, for the error @throws UsageError unless it is a number from 0 to 65535 */
export function readPort(option: string, text: string): number {
  if (!/^\d+$/.test(text) || Number(text) > 65_535)
    throw new UsageError(`baton: ${option} ${text} is not a port`)
  return Number(text)
}
