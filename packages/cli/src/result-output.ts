import type { ArrayRow, ResultSet, Value } from '@batonsql/core'
import { type CommandContext, print } from './command-context.ts'
import { textFor } from './escape-controls.ts'
import { formatCsvRow, formatJson, formatLines, formatMarkdownRow, formatTable } from './result-text.ts'

export const MODES = ['table', 'line', 'csv', 'json', 'markdown'] as const
export type Mode = (typeof MODES)[number]

/** Formats rows one at a time, so that a result can be printed while it arrives. */
interface RowFormat {
  readonly header: (columns: readonly string[]) => string
  readonly row: (cells: readonly Value[], columns: readonly string[]) => string
}

const ROW_FORMATS: Partial<Record<Mode, RowFormat>> = {
  csv: { header: formatCsvRow, row: formatCsvRow },
  json: { header: () => '', row: formatJson },
  markdown: {
    header: (columns) => formatMarkdownRow(columns) + formatMarkdownRow(columns.map(() => '---')),
    row: formatMarkdownRow,
  },
}

/** Prints results in one of several forms. */
export class ResultOutput {
  readonly #context: CommandContext
  mode: Mode
  showsHeaders = true

  constructor(context: CommandContext, mode: Mode) {
    this.#context = context
    this.mode = mode
  }

  /** How to print a result while it arrives; null if its form needs all rows at once. */
  get rowFormat(): RowFormat | null {
    const format = ROW_FORMATS[this.mode] ?? null
    const { output } = this.#context
    return (
      format && {
        header: (columns) => (this.showsHeaders ? textFor(output, format.header(columns)) : ''),
        row: (cells, columns) => textFor(output, format.row(cells, columns)),
      }
    )
  }

  async print({ columns, rows }: Pick<ResultSet<ArrayRow>, 'columns' | 'rows'>): Promise<void> {
    if (columns.length === 0) return
    const { rowFormat } = this
    if (rowFormat === null) return await print(this.#context, this.#format({ columns, rows }))
    await print(this.#context, rowFormat.header(columns))
    for (const row of rows) await print(this.#context, rowFormat.row(row, columns))
  }

  #format(result: Pick<ResultSet<ArrayRow>, 'columns' | 'rows'>): string {
    if (this.mode === 'line') return formatLines(result)
    return formatTable(result, this.#context.output, this.showsHeaders)
  }
}
