import { Readable } from 'node:stream'
import { parse } from 'csv-parse'

/** A cell: null if it is empty, a string, or a string that was in quotes. */
export type Cell = null | string | QuotedText

/** A text that was in quotes, and is therefore not a number. */
export class QuotedText {
  readonly text: string

  constructor(text: string) {
    this.text = text
  }
}

/** A row of a file, and the line on which it begins, counted from 1. */
export interface CsvRecord {
  readonly line: number
  readonly cells: readonly Cell[]
}

const toCell = (value: string, { quoting }: { readonly quoting: boolean }): Cell => {
  if (quoting) return new QuotedText(value)
  return value === '' ? null : value
}

const PROBLEMS: Readonly<Record<string, string>> = {
  CSV_QUOTE_NOT_CLOSED: 'a quote is not closed',
  CSV_INVALID_CLOSING_QUOTE: 'a closing quote is followed by text: a quote inside of quotes must be doubled',
  INVALID_OPENING_QUOTE: 'a quote in a cell without quotes: put the cell in quotes, and double the quote',
}

/**
 * Reads the rows of a CSV file (RFC 4180): quotes, line breaks in cells, CRLF or LF.
 * @throws Error with the line of a row that has an invalid quote
 */
export async function* readCsv(
  text: AsyncIterable<string>,
  delimiter: string,
): AsyncGenerator<CsvRecord, void, undefined> {
  let line = 1
  // called while a row is parsed, so that the line of an error is known
  const toRecord = (cells: readonly Cell[]): CsvRecord => {
    const record = { line, cells }
    // the parser itself counts CRLF in a cell as two lines
    line += 1 + cells.reduce((count, cell) => count + countLineBreaks(cell), 0)
    return record
  }
  const parser = parse({
    delimiter,
    record_delimiter: ['\r\n', '\n', '\r'],
    cast: toCell,
    relax_column_count: true,
    // its type allows only rows of texts
    on_record: toRecord as never,
  })
  const source = Readable.from(text)
  source.on('error', (error) => parser.destroy(error))
  try {
    yield* source.pipe(parser) as AsyncIterable<CsvRecord>
  } catch (error) {
    const problem = PROBLEMS[(error as NodeJS.ErrnoException).code ?? '']
    throw problem === undefined ? error : new Error(`line ${line}: ${problem}`, { cause: error })
  } finally {
    source.destroy()
  }
}

function countLineBreaks(cell: Cell): number {
  return cell instanceof QuotedText && /[\r\n]/.test(cell.text) ? cell.text.split(/\r\n|\r|\n/).length - 1 : 0
}
