import { type ColumnState, type DatabaseState, type TableState, TYPES } from './measure-database.ts'

/** Data that the command has removed. */
export interface Loss {
  readonly table: string
  /** Null if rows are lost. */
  readonly column: string | null
  readonly text: string
}

/** What a command has changed in a database. */
export interface Comparison {
  readonly created: readonly string[]
  readonly changed: readonly string[]
  readonly dropped: readonly string[]
  /** Tables and columns with the same contents under another name. */
  readonly renamed: readonly string[]
  /** The number of rows of each table before and after; null for a table that does not exist. */
  readonly rows: readonly {
    readonly table: string
    readonly before: number | null
    readonly after: number | null
  }[]
  /** Columns whose values have other types, such as `pet.age: 12 text -> 12 integer`. */
  readonly types: readonly string[]
  /** Columns whose values have changed according to their sums, in tables with as many rows as before, such as `pet.name`. */
  readonly values: readonly string[]
  readonly losses: readonly Loss[]
  /** What is wrong afterwards and was not before. */
  readonly damage: readonly string[]
}

const countValues = ({ integer, real, text, blob }: ColumnState): number => integer + real + text + blob

const countEmpty = (column: ColumnState): number => column.null + column.empty

export function compareStates(before: DatabaseState, after: DatabaseState): Comparison {
  const created = [...after.schema.keys()].filter((name) => !before.schema.has(name))
  const dropped = [...before.schema.keys()].filter((name) => !after.schema.has(name))
  const changed = [...before.schema].filter(
    ([name, sql]) => after.schema.has(name) && after.schema.get(name) !== sql,
  )
  const renamedTables = findRenamed(before.tables, after.tables, sameTable)
  const found: FoundChanges = {
    renamed: [...renamedTables].map(([from, to]) => `table ${from} -> ${to}`),
    types: [],
    values: [],
    losses: [],
  }
  const addLoss = (table: string, text: string): void =>
    void found.losses.push({ table, column: null, text: `${table}: ${text}` })
  for (const [name, table] of before.tables) {
    const newName = renamedTables.get(name) ?? name
    const newTable = after.tables.get(newName)
    if (newTable === undefined) {
      if (table.rows > 0) addLoss(name, `dropped with ${count(table.rows, 'row')}`)
      continue
    }
    if (newTable.rows < table.rows) addLoss(name, `${table.rows} -> ${count(newTable.rows, 'row')}`)
    compareColumns(name, table, newTable, found)
  }
  const names = new Set([...before.tables.keys(), ...after.tables.keys()])
  return {
    created,
    changed: changed.map(([name]) => name),
    dropped,
    renamed: found.renamed,
    rows: [...names].sort().map((table) => ({
      table,
      before: before.tables.get(table)?.rows ?? null,
      after: after.tables.get(table)?.rows ?? null,
    })),
    types: found.types,
    values: found.values,
    losses: found.losses,
    damage: findDamage(before, after),
  }
}

/** Changes of tables and columns. */
interface FoundChanges {
  readonly renamed: string[]
  readonly types: string[]
  readonly values: string[]
  readonly losses: Loss[]
}

/** Compares the columns of a table. @param name its name before @param found receives the changes */
function compareColumns(name: string, table: TableState, newTable: TableState, found: FoundChanges): void {
  const renamed = findRenamed(table.columns, newTable.columns, sameColumn)
  for (const [column, counts] of table.columns) {
    const addLoss = (text: string): void =>
      void found.losses.push({ table: name, column, text: `${name}.${column}: ${text}` })
    const newCounts = newTable.columns.get(renamed.get(column) ?? column)
    if (newCounts === undefined) {
      if (countValues(counts) > 0) addLoss(`dropped with ${count(countValues(counts), 'value')}`)
      continue
    }
    // if the table has fewer rows, the loss of rows has been reported already
    const emptied = countEmpty(newCounts) - countEmpty(counts)
    const hasLost = newTable.rows - countEmpty(newCounts) < table.rows - countEmpty(counts)
    if (emptied > 0 && hasLost && newTable.rows >= table.rows) {
      const states = [newCounts.null > counts.null && 'NULL', newCounts.empty > counts.empty && 'empty']
      addLoss(`${count(emptied, 'value')} became ${states.filter(Boolean).join(' or ')}`)
    }
    if (newTable.rows !== table.rows) continue
    const oldTypes = describeTypes(counts)
    const newTypes = describeTypes(newCounts)
    if (oldTypes !== newTypes) found.types.push(`${name}.${column}: ${oldTypes} -> ${newTypes}`)
    if (newCounts.sums !== counts.sums) found.values.push(`${name}.${column}`)
  }
  found.renamed.push(...[...renamed].map(([from, to]) => `column ${name}.${from} -> ${to}`))
}

function findDamage(before: DatabaseState, after: DatabaseState): string[] {
  const damage = after.corruptions.filter((line) => !before.corruptions.includes(line))
  // if a number is unknown, so is the difference
  const broken = (after.brokenReferences ?? 0) - (before.brokenReferences ?? Infinity)
  return broken > 0 ? [`${broken} rows now refer to rows that do not exist`, ...damage] : damage
}

/**
 * Finds the new names of tables or columns that are missing afterwards: a name that differs only in case, which SQLite ignores, or one
 * with the same contents. Each new name is used once.
 */
function findRenamed<T>(
  before: ReadonlyMap<string, T>,
  after: ReadonlyMap<string, T>,
  isSame: (a: T, b: T) => boolean,
): Map<string, string> {
  const newNames = new Set([...after.keys()].filter((name) => !before.has(name)))
  const renamed = new Map<string, string>()
  for (const [name, value] of before) {
    if (after.has(name)) continue
    const match =
      [...newNames].find((candidate) => candidate.toLowerCase() === name.toLowerCase()) ??
      [...newNames].find((candidate) => isSame(value, after.get(candidate) as T))
    if (match === undefined) continue
    renamed.set(name, match)
    newNames.delete(match)
  }
  return renamed
}

/** Whether two columns have the same values, of which there is at least one. */
const sameColumn = (a: ColumnState, b: ColumnState): boolean => countValues(a) > 0 && hasSameValues(a, b)

const hasSameValues = (a: ColumnState, b: ColumnState): boolean =>
  a.sums === b.sums && TYPES.every((type) => a[type] === b[type])

/** Whether a table has the rows and values of another, in columns of any name. It may have more columns. */
const sameTable = (a: TableState, b: TableState): boolean =>
  a.rows === b.rows &&
  a.rows > 0 &&
  // of a virtual table, only the rows are known
  (a.columns.size === 0) === (b.columns.size === 0) &&
  [...a.columns.values()].every((column) =>
    [...b.columns.values()].some((other) => hasSameValues(column, other)),
  )

const describeTypes = (column: ColumnState): string =>
  TYPES.filter((type) => column[type] > 0)
    .map((type) => `${column[type]} ${type}`)
    .join(', ') || 'nothing'

const count = (number: number, noun: string): string =>
  `${number.toLocaleString('en')} ${noun}${number === 1 ? '' : 's'}`
