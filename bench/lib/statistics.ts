/** Returns the median: the middle value, or the mean of the two middle ones. NaN if there are none. */
export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b)
  const valueAt = (index: number): number => sorted[index] ?? Number.NaN
  return (valueAt(Math.floor((sorted.length - 1) / 2)) + valueAt(Math.ceil((sorted.length - 1) / 2))) / 2
}
