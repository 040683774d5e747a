import { open, rename, rm } from 'node:fs/promises'
import { dump } from '@batonsql/core'
import { type CommandContext, print } from './command-context.ts'
import type { Given } from './command-table.ts'
import { openDatabase } from './database-address.ts'
import type { DUMP_OPTIONS } from './option-table.ts'
import { Progress } from './progress.ts'

/** Writes a dump to a file or to the output. */
export async function runDump({ values, operands, context }: Given<typeof DUMP_OPTIONS>): Promise<void> {
  const [target] = operands as [string]
  const { output: file } = values
  const db = openDatabase(target, values, context)
  try {
    const parts = dump(db, { signal: context.signal }).bytes()
    if (file !== undefined) await writeWhole(file, parts, context)
    else for await (const part of parts) await print(context, part)
  } finally {
    await db.close()
  }
}

/** Half a dump must not stand where a whole one is looked for, or replace one. */
async function writeWhole(
  file: string,
  parts: AsyncIterable<Uint8Array>,
  context: CommandContext,
): Promise<void> {
  const unfinished = `${file}.unfinished`
  const progress = new Progress(context.errors)
  let bytes = 0
  try {
    const handle = await open(unfinished, 'w')
    try {
      for await (const part of parts) {
        await handle.write(part)
        bytes += part.length
        progress.show(`${bytes.toLocaleString('en')} bytes`)
      }
      await handle.sync()
    } finally {
      await handle.close()
    }
    await rename(unfinished, file)
  } catch (error) {
    await rm(unfinished, { force: true })
    throw error
  } finally {
    progress.end()
  }
}
