import { isDiskFull } from './is-disk-full.ts'

/** Records a removal in the registry. On a full disk, removes the data first, because the registry cannot record anything until then. */
export async function recordRemoval(record: () => void, removeData: () => Promise<void>): Promise<void> {
  try {
    record()
  } catch (error) {
    if (!isDiskFull(error)) throw error
    await removeData()
    record()
  }
}
