import { batch, signal } from '@preact/signals'
import type { JSX } from 'preact'
import { useEffect } from 'preact/hooks'
import { CellView, cellText } from './cell-view.tsx'
import { Checkbox } from './checkbox.tsx'
import { saveAsCsv } from './csv-download.ts'
import { type Cell, fetchDatabaseNames, type Result, runStatement } from './database-client.ts'
import { formatCount, formatDuration } from './format.ts'
import { set } from './state.ts'
import {
  listTables,
  type Order,
  PAGE_ROWS,
  readCell,
  readPage,
  selectAll,
  type Table,
  type TablePage,
  type TableRow,
} from './table-pages.ts'

const MAX_RESULT_ROWS = 1_000

const databases = signal<readonly string[]>([])
const database = signal('')
const tables = signal<readonly Table[]>([])
const table = signal<Table | null>(null)
const page = signal(0)
const order = signal<Order | null>(null)
const rows = signal<TablePage | null>(null)
const problem = signal<string | null>(null)
const sql = signal('')
const mayWrite = signal(false)
const result = signal<{ readonly result: Result; readonly tookMs: number } | null>(null)
/** The value that is shown in full, with the name of its column. */
const shownCell = signal<{ readonly name: string; readonly cell: Cell } | null>(null)
/** Whether a statement of the user is running. */
const isRunning = signal(false)
/** Aborts the current action; every new action aborts the previous one. */
let actionAbort = new AbortController()

/** Shows the tables and rows of a database, and an SQL editor. */
export function DataTab(): JSX.Element {
  useEffect(() => void runAction(refreshDatabases), [])
  return (
    <div class="data">
      <TableList />
      <div class="data-main">
        <Editor />
        {problem.value !== null && (
          <p class="panel content problem" role="alert">
            {problem}
          </p>
        )}
        {result.value !== null && <QueryResult />}
        {result.value === null && table.value !== null && rows.value !== null && <Rows />}
        {shownCell.value !== null && (
          <CellView
            name={shownCell.value.name}
            cell={shownCell.value.cell}
            onClose={() => set(shownCell, null)}
          />
        )}
      </div>
    </div>
  )
}

/** Aborts the previous action, runs a new one, and shows its error. */
async function runAction(action: (signal: AbortSignal) => Promise<void>): Promise<void> {
  actionAbort.abort()
  actionAbort = new AbortController()
  const { signal: actionSignal } = actionAbort
  problem.value = null
  isRunning.value = false
  try {
    await action(actionSignal)
  } catch (error) {
    if (!actionSignal.aborted) problem.value = error instanceof Error ? error.message : String(error)
  }
}

async function refreshDatabases(actionSignal: AbortSignal): Promise<void> {
  const names = await fetchDatabaseNames()
  if (actionSignal.aborted) return
  databases.value = names
  if (!names.includes(database.value))
    database.value = names.includes('default') ? 'default' : (names[0] ?? '')
  await refreshTables(actionSignal)
}

async function refreshTables(actionSignal: AbortSignal): Promise<void> {
  if (database.value === '') return
  const newTables = await listTables(database.value)
  // the user may have chosen another database
  if (actionSignal.aborted) return
  tables.value = newTables
  const current = tables.value.find(({ name }) => name === table.value?.name) ?? null
  table.value = current
  if (current !== null) return
  rows.value = null
  const first = newTables.find(({ type }) => type === 'table') ?? newTables[0]
  if (first !== undefined && result.value === null) await readTable(first, 0, null, actionSignal)
}

function chooseDatabase(name: string): void {
  batch(() => {
    database.value = name
    tables.value = []
    table.value = null
    rows.value = null
    result.value = null
    shownCell.value = null
  })
  void runAction(refreshTables)
}

function openPage(newTable: Table, number: number, newOrder: Order | null): void {
  void runAction((actionSignal) => readTable(newTable, number, newOrder, actionSignal))
}

// oxlint-disable-next-line max-params
async function readTable(
  newTable: Table,
  number: number,
  newOrder: Order | null,
  actionSignal: AbortSignal,
): Promise<void> {
  const newRows = await readPage(database.value, newTable, number, newOrder)
  if (actionSignal.aborted) return
  batch(() => {
    table.value = newTable
    page.value = number
    order.value = newOrder
    rows.value = newRows
    result.value = null
    shownCell.value = null
  })
}

/** Sorts by a column: ascending, then descending, then not at all. */
function sortBy(sortedTable: Table, column: string): void {
  const previous = order.value?.column === column ? order.value : null
  openPage(
    sortedTable,
    0,
    previous?.isDescending === true ? null : { column, isDescending: previous !== null },
  )
}

/** Lets the user save all rows of a table, in the order of the list. */
function download(savedTable: Table): void {
  void runAction(async (actionSignal) => {
    const options = { mayWrite: false, maxRows: Infinity, signal: actionSignal }
    const all = await runStatement(database.value, selectAll(savedTable, order.value), options)
    if (!actionSignal.aborted) saveAsCsv(savedTable.name, all)
  })
}

function run(statement: string): void {
  void runAction(async (actionSignal) => {
    isRunning.value = true
    const started = performance.now()
    const options = { mayWrite: mayWrite.value, maxRows: MAX_RESULT_ROWS, signal: actionSignal }
    try {
      const newResult = await runStatement(database.value, statement, options)
      if (actionSignal.aborted) return
      batch(() => {
        result.value = { result: newResult, tookMs: performance.now() - started }
        shownCell.value = null
      })
    } catch (error) {
      // otherwise, the previous result would look like the result of this statement
      if (!actionSignal.aborted) result.value = shownCell.value = null
      throw error
    } finally {
      if (!actionSignal.aborted) isRunning.value = false
    }
    if (options.mayWrite) await refreshTables(actionSignal)
  })
}

function stop(): void {
  actionAbort.abort()
  isRunning.value = false
}

function TableList(): JSX.Element {
  return (
    <section class="panel tables" aria-labelledby="tables-title">
      <div class="panel-head">
        <h2 id="tables-title">Tables</h2>
        <button type="button" onClick={() => void runAction(refreshDatabases)}>
          Refresh
        </button>
      </div>
      <div class="content">
        <label>
          <span class="hidden">Database</span>
          <select
            id="database"
            value={database}
            onChange={(event) => chooseDatabase(event.currentTarget.value)}
          >
            {databases.value.map((name) => (
              <option key={name} value={name}>
                {name}
              </option>
            ))}
          </select>
        </label>
        {tables.value.length === 0 && <p class="quiet">No tables.</p>}
        <ul id="tables">
          {tables.value.map((entry) => (
            <li key={entry.name}>
              <button
                type="button"
                aria-pressed={table.value?.name === entry.name && result.value === null}
                onClick={() => openPage(entry, 0, null)}
              >
                <span class="name">{entry.name}</span>
                <span class="quiet">
                  {entry.type !== 'table' && `${entry.type} `}
                  {entry.count?.toLocaleString('en')}
                </span>
              </button>
            </li>
          ))}
        </ul>
      </div>
    </section>
  )
}

function Editor(): JSX.Element {
  const submit = (event: Event): void => {
    event.preventDefault()
    if (sql.value.trim() !== '') run(sql.value)
  }
  return (
    <form class="panel editor" onSubmit={submit}>
      <label>
        <span class="hidden">SQL</span>
        <textarea
          id="sql"
          rows={3}
          spellcheck={false}
          autocomplete="off"
          placeholder="select …"
          aria-keyshortcuts="Control+Enter"
          value={sql}
          onInput={(event) => set(sql, event.currentTarget.value)}
          onKeyDown={(event) => {
            if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) submit(event)
          }}
        />
      </label>
      <div class="panel-head">
        {/* two elements, because a button that becomes a submit button while it is clicked submits the form */}
        {isRunning.value ? (
          <button key="stop" id="stop" type="button" onClick={stop}>
            Stop
          </button>
        ) : (
          <button key="run" id="run" type="submit">
            Run
          </button>
        )}
        <button
          id="explain"
          type="button"
          onClick={() => sql.value.trim() !== '' && run(`explain query plan ${sql.value}`)}
        >
          Query plan
        </button>
        <Checkbox id="may-write" label="Allow changes" checked={mayWrite} />
        <span class="keys quiet">
          <kbd>Ctrl</kbd>
          <kbd>Enter</kbd> run
        </span>
      </div>
    </form>
  )
}

function QueryResult(): JSX.Element | null {
  if (result.value === null) return null
  const { columns, rows: resultRows, rowsAffected, isTruncated } = result.value.result
  const count = isTruncated
    ? `the first ${formatCount(resultRows.length, 'row')}`
    : formatCount(resultRows.length, 'row')
  const changed = rowsAffected > 0 ? `, ${formatCount(rowsAffected, 'row')} changed` : ''
  return (
    <section class="panel" aria-labelledby="result-title">
      <div class="panel-head">
        <h2 id="result-title">Result</h2>
        <p id="result-count" class="quiet">
          {count}
          {changed}, {formatDuration(result.value.tookMs)}
        </p>
        {columns.length > 0 && (
          <button
            id="download"
            type="button"
            onClick={() => saveAsCsv('result', { columns, rows: resultRows })}
          >
            Download as CSV
          </button>
        )}
      </div>
      <Grid
        columns={columns}
        rows={resultRows}
        onOpen={(row, column) => {
          const cell = resultRows[row]?.[column]
          if (cell) shownCell.value = { name: columns[column] ?? '', cell }
        }}
      />
    </section>
  )
}

function Rows(): JSX.Element | null {
  const currentPage = rows.value
  const currentTable = table.value
  if (currentPage === null || currentTable === null) return null
  const first = page.value * PAGE_ROWS
  const last = first + currentPage.rows.length
  const isLast =
    currentTable.count === null ? currentPage.rows.length < PAGE_ROWS : last >= currentTable.count
  return (
    <section class="panel" aria-labelledby="rows-title">
      <div class="panel-head">
        <h2 id="rows-title">{currentTable.name}</h2>
        <p id="page" class="quiet">
          {currentPage.rows.length === 0 ? 'no rows' : `rows ${first + 1} to ${last}`}
          {currentTable.count !== null && ` of ${currentTable.count.toLocaleString('en')}`}
        </p>
        <button
          id="previous"
          type="button"
          disabled={page.value === 0}
          onClick={() => openPage(currentTable, page.value - 1, order.value)}
        >
          Previous
        </button>
        <button
          id="next"
          type="button"
          disabled={isLast}
          onClick={() => openPage(currentTable, page.value + 1, order.value)}
        >
          Next
        </button>
        <button id="download" type="button" onClick={() => download(currentTable)}>
          Download as CSV
        </button>
      </div>
      <Grid
        columns={currentPage.columns}
        order={order.value}
        onSort={(column) => sortBy(currentTable, column)}
        rows={currentPage.rows.map(({ cells }) => cells)}
        lengths={currentPage.rows.map(({ lengths }) => lengths)}
        onOpen={(row, column) => {
          const chosenRow = currentPage.rows[row]
          if (chosenRow) openCell(currentTable, chosenRow, currentPage.columns[column] ?? '', column)
        }}
      />
    </section>
  )
}

function openCell(rowTable: Table, row: TableRow, name: string, column: number): void {
  void runAction(async (actionSignal) => {
    const shownValue = row.cells[column] ?? null
    const cell =
      row.lengths[column] === null
        ? shownValue
        : await readCell(database.value, rowTable, row, name, order.value)
    if (cell === null) throw new Error('This row no longer exists.')
    if (!actionSignal.aborted) shownCell.value = { name, cell }
  })
}

interface GridProps {
  readonly columns: readonly string[]
  readonly rows: readonly (readonly Cell[])[]
  /** Full lengths of truncated values. */
  readonly lengths?: readonly (readonly (number | null)[])[]
  readonly order?: Order | null
  /** Makes the headers buttons that sort the rows. */
  readonly onSort?: (column: string) => void
  readonly onOpen: (row: number, column: number) => void
}

/** Shows a table of values, which can be opened individually. */
function Grid({
  columns,
  rows: gridRows,
  lengths,
  order: shownOrder,
  onSort,
  onOpen,
}: GridProps): JSX.Element {
  const directionOf = (name: string): 'ascending' | 'descending' | undefined => {
    if (shownOrder?.column !== name) return undefined
    return shownOrder.isDescending ? 'descending' : 'ascending'
  }
  return (
    <div class="scroll">
      <table class="grid">
        <thead>
          <tr>
            {columns.map((name, index) => (
              <th key={index} scope="col" aria-sort={directionOf(name)}>
                {onSort === undefined ? (
                  name
                ) : (
                  <button type="button" onClick={() => onSort(name)}>
                    {name}
                  </button>
                )}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {gridRows.map((cells, row) => (
            <tr key={row}>
              {cells.map((cell, column) => (
                <td key={column} class={`value ${cell.type}`}>
                  <button type="button" onClick={() => onOpen(row, column)}>
                    {cellText(cell, lengths?.[row]?.[column] ?? null)}
                  </button>
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}
