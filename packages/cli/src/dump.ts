import { type FileHandle, open, realpath, rename, rm, stat } from 'node:fs/promises'
import { dump } from '@batonsql/core'
import { type CommandContext, type CommandInput, print } from './command-context.ts'
import { openDatabase, readTarget } from './database-address.ts'
import { textFor } from './escape-controls.ts'
import type { DUMP_OPTIONS } from './option-table.ts'
import { Progress } from './progress.ts'
import { unfinished } from './write-new-file.ts'

/** Writes a dump to a file or to standard output. */
export async function runDump({
  values,
  operands,
  context,
}: CommandInput<typeof DUMP_OPTIONS>): Promise<void> {
  const { target } = readTarget(operands, 0, context)
  const { output: file } = values
  const db = openDatabase(target, values, context)
  try {
    const parts = dump(db, { signal: context.signal }).bytes()
    if (file !== undefined) await writeAtomically(file, parts, context)
    else await printParts(parts, context)
  } finally {
    await db.close()
  }
}

async function printParts(parts: AsyncIterable<Uint8Array>, context: CommandContext): Promise<void> {
  const decoder = new TextDecoder()
  const { output } = context
  for await (const part of parts)
    await print(
      context,
      output.isTTY === true ? textFor(output, decoder.decode(part, { stream: true })) : part,
    )
}

/** Writes a file completely, or not at all, and never replaces it with an incomplete one. */
async function writeAtomically(
  file: string,
  parts: AsyncIterable<Uint8Array>,
  context: CommandContext,
): Promise<void> {
  const existing = await stat(file).catch(() => null)
  // writes to a pipe or a device, instead of replacing it with a file
  if (existing && !existing.isFile()) return await writeParts(await open(file, 'w'), parts, context)
  // preserves a link, and the permissions of the file
  const target = existing ? await realpath(file) : file
  const temporaryFile = unfinished(target)
  try {
    const handle = await open(temporaryFile, 'wx', existing ? existing.mode & 0o777 : 0o666)
    await writeParts(handle, parts, context)
    await rename(temporaryFile, target)
  } catch (error) {
    await rm(temporaryFile, { force: true })
    throw error
  }
}

/** Writes to a file, and closes it. */
async function writeParts(
  handle: FileHandle,
  parts: AsyncIterable<Uint8Array>,
  { stderr }: CommandContext,
): Promise<void> {
  const progress = new Progress(stderr)
  let bytes = 0
  try {
    for await (const part of parts) {
      // `write` would silently stop on a full disk
      await handle.writeFile(part)
      bytes += part.length
      progress.show(`${bytes.toLocaleString('en')} bytes`)
    }
    // a pipe cannot be synchronized
    if ((await handle.stat()).isFile()) await handle.sync()
  } finally {
    progress.end()
    await handle.close()
  }
}
