import { realpath, stat, writeFile } from 'node:fs/promises'
import { dump } from '@batonsql/core'
import { type CommandContext, type CommandInput, print } from './command-context.ts'
import { openDatabase, readTarget } from './database-address.ts'
import { textFor } from './escape-controls.ts'
import type { DUMP_OPTIONS } from './option-table.ts'
import { Progress } from './progress.ts'
import { tap } from './tap.ts'
import { writeAtomically } from './write-atomically.ts'

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
    if (file !== undefined) await writeDump(file, parts, context)
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

/** Writes to a file, which is replaced when the dump is complete. */
async function writeDump(
  file: string,
  parts: AsyncIterable<Uint8Array>,
  { stderr }: CommandContext,
): Promise<void> {
  const progress = new Progress(stderr)
  let bytes = 0
  const counted = tap(parts, (part) => {
    bytes += part.length
    progress.show(`${bytes.toLocaleString('en')} bytes`)
  })
  try {
    const existing = await stat(file).catch(() => null)
    // writes to a pipe or a device, instead of replacing it with a file
    if (existing && !existing.isFile()) return await writeFile(file, counted)
    // preserves a link, and the permissions of the file
    await writeAtomically(
      existing ? await realpath(file) : file,
      counted,
      existing ? existing.mode & 0o777 : 0o666,
    )
  } finally {
    progress.end()
  }
}
