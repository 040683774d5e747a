import { UsageError } from '../usage-error.ts'
import { type Affinity, affinityOf, BadValueError, TypeInference, toValue } from './column-types.ts'
import { type Cell, type CsvRecord, QuotedText } from './csv-records.ts'
import type { ImportSource } from './import-source.ts'
import type { ImportTarget } from './import-target.ts'

export interface FileColumn {
  readonly name: string
  /** Declared type in the table. */
  readonly type: string
  readonly affinity: Affinity
}

interface ScanOptions {
  readonly target: ImportTarget
  readonly types: ReadonlyMap<string, string>
  readonly columns: readonly string[] | null
  readonly signal: AbortSignal
}

/** Number of problems that an error lists. */
const MAX_LISTED = 20

/** What a first pass over a file has found. */
export interface Scan {
  readonly columns: readonly FileColumn[]
  readonly rowCount: number
  readonly hasHeader: boolean
  /** What may have been a mistake. */
  readonly notes: readonly string[]
  /** Number of rows that cannot be stored. */
  readonly badCount: number
  /** Problems of rows, each with its line; the first ones only. */
  readonly problems: readonly string[]
}

/** Rejects a file with rows that cannot be stored. @throws Error that lists the first of them */
export function rejectBadRows({ columns, badCount, problems }: Scan, isResumed: boolean): void {
  if (badCount === 0) return
  const hints = findDelimiterNotes(columns.map(({ name }) => name))
  const more = badCount - problems.length
  const list = [...problems, ...(more > 0 ? [`and ${more} more`] : [])]
  throw new Error(
    `${badCount === 1 ? 'a row' : `${badCount} rows`} cannot be stored, so nothing${isResumed ? ' more' : ''} was imported; --skip-bad-rows imports the others:\n  ${[...list, ...hints].join('\n  ')}`,
  )
}

/** Whether a row is an empty line, which a file with several columns may end with. */
export const isBlank = ({ cells }: CsvRecord, columnCount: number): boolean =>
  columnCount > 1 && cells.length === 1 && cells[0] === null

/** Returns what is wrong with a row; null if it can be stored. */
export function findProblem({ line, cells }: CsvRecord, columns: readonly FileColumn[]): string | null {
  if (cells.length !== columns.length)
    return `line ${line}: ${cells.length} ${cells.length === 1 ? 'cell' : 'cells'} instead of ${columns.length}`
  for (const [index, { name, affinity }] of columns.entries()) {
    try {
      toValue(cells[index] as Cell, affinity)
    } catch (error) {
      if (error instanceof BadValueError) return `line ${line}, column ${name}: ${error.message}`
      throw error
    }
  }
  return null
}

/** Reads a file once: its columns, with their types, and the rows that cannot be stored. */
export async function scanRows(source: ImportSource, options: ScanOptions): Promise<Scan> {
  const { target, types, columns: givenNames, signal } = options
  const problems: string[] = []
  let badCount = 0
  let rowCount = 0
  let names = givenNames
  let known = names && describeKnown(names, target, types)
  const inferences: TypeInference[] = []
  for await (const record of source.records()) {
    signal.throwIfAborted()
    if (names === null || known === null) {
      names = record.cells.map(textOf)
      known = describeKnown(names, target, types)
      continue
    }
    if (isBlank(record, names.length)) continue
    rowCount += 1
    const problem = findProblem(
      record,
      known.map((column) => column ?? ANYTHING),
    )
    if (problem !== null) {
      badCount += 1
      if (problems.length < MAX_LISTED) problems.push(problem)
      continue
    }
    for (const [index, cell] of record.cells.entries())
      if (known[index] === null) (inferences[index] ??= new TypeInference()).add(cell)
  }
  if (names === null || known === null)
    throw new Error('the file is empty: its first row must name the columns')
  const columns = known.map((column, index) => {
    const type = inferences[index]?.type ?? 'TEXT'
    return column ?? { name: names[index] as string, type, affinity: affinityOf(type) }
  })
  const textNotes = names.flatMap((name, index) => inferences[index]?.describeText(name) ?? [])
  const notes = [...findDelimiterNotes(names), ...textNotes]
  return { columns, rowCount, hasHeader: givenNames === null, notes, badCount, problems }
}

/** Characters that separate columns in some files, with the value of --delimiter. */
const DELIMITERS: readonly (readonly [string, string])[] = [
  [';', "';'"],
  ['\t', 'tab'],
  ['|', "'|'"],
  [',', "','"],
]

/** Returns a note about the name of the only column, if it seems to contain the names of several. */
function findDelimiterNotes(names: readonly string[]): readonly string[] {
  const [name = '', ...others] = names
  const match = DELIMITERS.find(([delimiter]) => name.includes(delimiter))
  if (match === undefined || others.length > 0) return []
  return [`the file has one column, ${JSON.stringify(name)}; --delimiter ${match[1]} splits it into several`]
}

/** A column whose type is not known yet: all of its values can be stored. */
const ANYTHING: FileColumn = { name: '', type: '', affinity: 'BLOB' }

export const textOf = (cell: Cell): string => (cell instanceof QuotedText ? cell.text : (cell ?? ''))

/** Returns the columns of the file whose types are given, or known from the table; null for those to be inferred. */
function describeKnown(
  names: readonly string[],
  target: ImportTarget,
  types: ReadonlyMap<string, string>,
): (FileColumn | null)[] {
  const seen = new Set<string>()
  for (const name of names) {
    if (name === '')
      throw new Error('a column has no name: name all columns in the first row, or with --columns')
    if (seen.has(name.toLowerCase())) throw new Error(`the file has two columns ${name}`)
    seen.add(name.toLowerCase())
  }
  const unknownType = [...types.keys()].find((name) => !names.includes(name))
  if (unknownType !== undefined)
    throw new UsageError(
      [
        `baton import: --type names the column ${unknownType}, but the file has ${names.join(', ')}`,
        ...findDelimiterNotes(names),
      ].join('\n'),
    )
  if (target.columns !== null && types.size > 0)
    throw new UsageError(`baton import: --type is for a new table, but ${target.table} exists`)
  return names.map((name) => {
    const type = types.get(name)
    if (type !== undefined) return { name, type, affinity: affinityOf(type) }
    const column = target.findColumn(name, findDelimiterNotes(names))
    return column && { name: column.name, type: column.type, affinity: affinityOf(column.type) }
  })
}
