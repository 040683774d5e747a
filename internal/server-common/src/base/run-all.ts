/** Runs all steps in order, even if some fail. @throws the error of the step that failed; an AggregateError if several did */
export async function runAll(steps: readonly (() => unknown)[]): Promise<void> {
  const failures: unknown[] = []
  for (const step of steps) {
    try {
      await step()
    } catch (error) {
      failures.push(error)
    }
  }
  if (failures.length === 1) throw failures[0]
  const reasons = failures.map((failure) => (failure instanceof Error ? failure.message : String(failure)))
  if (failures.length > 1) throw new AggregateError(failures, reasons.join('; '))
}
