/** Maximum number of calls at a time. */
const MAX_CONCURRENT_CALLS = 16

/** Calls `work` for each item. Rejects with the first failure after all calls have finished. */
export async function forEachConcurrently<T>(
  items: readonly T[],
  work: (item: T) => Promise<void>,
): Promise<void> {
  const remaining = [...items].reverse()
  const failures: unknown[] = []
  const worker = async (): Promise<void> => {
    for (let item = remaining.pop(); item !== undefined; item = remaining.pop())
      await work(item).catch((error: unknown) => failures.push(error))
  }
  await Promise.all(Array.from({ length: MAX_CONCURRENT_CALLS }, worker))
  if (failures.length > 0) throw failures[0]
}
