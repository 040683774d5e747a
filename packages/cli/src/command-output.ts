import { type CommandContext, print } from './command-context.ts'

export interface CommandOutput {
  /** Printed with `--json`. */
  readonly json: unknown
  /** Printed without it: text, or a table whose first row is a header. */
  readonly text: string | readonly (readonly string[])[]
}

export async function printOutput(
  { json, text }: CommandOutput,
  asJson: boolean | undefined,
  context: CommandContext,
): Promise<void> {
  if (asJson === true) return await print(context, `${JSON.stringify(json)}\n`)
  for (const line of typeof text === 'string' ? [text] : alignColumns(text)) await print(context, `${line}\n`)
}

/** Returns the text of an object: a line for each field, with `none` for null, undefined and empty text. */
export function formatFields(fields: object): string {
  const width = Math.max(...Object.keys(fields).map((key) => key.length))
  const lines = Object.entries(fields).map(([key, value]) => {
    const text = String(value ?? '')
    return `${key.padEnd(width)}  ${text || 'none'}`
  })
  return lines.join('\n')
}

export const describeDeletion = (name: string): CommandOutput => ({
  json: { name, deleted: true },
  text: `deleted ${name}`,
})

/** Aligns a table with a header. A column is right-aligned if all its other cells are numbers. */
function alignColumns(rows: readonly (readonly string[])[]): string[] {
  const [, ...dataRows] = rows
  const isNumeric = (column: number): boolean => dataRows.every((cells) => /^\d+$/.test(cells[column] ?? ''))
  const columnWidth = (column: number): number => Math.max(...rows.map((cells) => cells[column]?.length ?? 0))
  const pad = (cell: string, column: number): string =>
    dataRows.length > 0 && isNumeric(column)
      ? cell.padStart(columnWidth(column))
      : cell.padEnd(columnWidth(column))
  return rows.map((cells) => cells.map(pad).join('  ').trimEnd())
}
