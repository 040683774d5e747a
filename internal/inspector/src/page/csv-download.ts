import { csvText } from '../csv-text.ts'
import type { Cell, Result } from './database-client.ts'
import { toHex, valueText } from './format.ts'

/** Lets the user save a result as a CSV file. @param name of the file, without its ending */
export function saveAsCsv(name: string, { columns, rows }: Pick<Result, 'columns' | 'rows'>): void {
  const lines = [columns.map(csvText), ...rows.map((row) => row.map(formatCell))].map(
    (cells) => `${cells.join(',')}\n`,
  )
  const link = document.createElement('a')
  link.href = URL.createObjectURL(new Blob(lines, { type: 'text/csv' }))
  link.download = `${name}.csv`
  link.click()
  URL.revokeObjectURL(link.href)
}

function formatCell(cell: Cell): string {
  if (cell.type === 'null') return ''
  if (cell.type === 'text') return csvText(cell.value)
  return cell.type === 'blob' ? `x'${toHex(cell.base64)}'` : valueText(cell)
}
