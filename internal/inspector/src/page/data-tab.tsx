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

interface OpenPage {
  readonly table: Table
  readonly number: number
  readonly order: Order | null
  readonly rows: TablePage
}

const databases = signal<readonly string[]>([])
const database = signal('')
const tables = signal<readonly Table[]>([])
/** The page of a table that is open. */
const open = signal<OpenPage | null>(null)
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
        {result.value === null && open.value !== null && <Rows {...open.value} />}
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
  const current = newTables.find(({ name }) => name === open.value?.table.name)
  open.value = current && open.value ? { ...open.value, table: current } : null
  if (open.value !== null) return
  const first = newTables.find(({ type }) => type === 'table') ?? newTables[0]
  if (first !== undefined && result.value === null)
    await readTable({ table: first, number: 0, order: null }, actionSignal)
}

function chooseDatabase(name: string): void {
  batch(() => {
    database.value = name
    tables.value = []
    open.value = null
    result.value = null
    shownCell.value = null
  })
  void runAction(refreshTables)
}

type PageChoice = Omit<OpenPage, 'rows'>

const openPage = (choice: PageChoice): void =>
  void runAction((actionSignal) => readTable(choice, actionSignal))

async function readTable(choice: PageChoice, actionSignal: AbortSignal): Promise<void> {
  const rows = await readPage(database.value, choice.table, choice.number, choice.order)
  if (actionSignal.aborted) return
  batch(() => {
    open.value = { ...choice, rows }
    result.value = null
    shownCell.value = null
  })
}

/** Sorts by a column: ascending, then descending, then not at all. */
function sortBy({ table, order }: OpenPage, column: string): void {
  const previous = order?.column === column ? order : null
  const newOrder = previous?.isDescending === true ? null : { column, isDescending: previous !== null }
  openPage({ table, number: 0, order: newOrder })
}

/** Lets the user save all rows of a table, in the order of the list. */
function download({ table, order }: OpenPage): void {
  void runAction(async (actionSignal) => {
    const options = { mayWrite: false, maxRows: Infinity, signal: actionSignal }
    const all = await runStatement(database.value, selectAll(table, order), options)
    if (!actionSignal.aborted) saveAsCsv(table.name, all)
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
                aria-pressed={open.value?.table.name === entry.name && result.value === null}
                onClick={() => openPage({ table: entry, number: 0, order: null })}
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

function Rows(openedPage: OpenPage): JSX.Element {
  const { table, number, order, rows: currentPage } = openedPage
  const first = number * PAGE_ROWS
  const last = first + currentPage.rows.length
  const isLast = table.count === null ? currentPage.rows.length < PAGE_ROWS : last >= table.count
  return (
    <section class="panel" aria-labelledby="rows-title">
      <div class="panel-head">
        <h2 id="rows-title">{table.name}</h2>
        <p id="page" class="quiet">
          {currentPage.rows.length === 0 ? 'no rows' : `rows ${first + 1} to ${last}`}
          {table.count !== null && ` of ${table.count.toLocaleString('en')}`}
        </p>
        <button
          id="previous"
          type="button"
          disabled={number === 0}
          onClick={() => openPage({ table, number: number - 1, order })}
        >
          Previous
        </button>
        <button
          id="next"
          type="button"
          disabled={isLast}
          onClick={() => openPage({ table, number: number + 1, order })}
        >
          Next
        </button>
        <button id="download" type="button" onClick={() => download(openedPage)}>
          Download as CSV
        </button>
      </div>
      <Grid
        columns={currentPage.columns}
        order={order}
        onSort={(column) => sortBy(openedPage, column)}
        rows={currentPage.rows.map(({ cells }) => cells)}
        lengths={currentPage.rows.map(({ lengths }) => lengths)}
        onOpen={(row, column) => {
          const chosenRow = currentPage.rows[row]
          if (chosenRow) openCell(openedPage, chosenRow, column)
        }}
      />
    </section>
  )
}

function openCell({ table, order, rows }: OpenPage, row: TableRow, column: number): void {
  const name = rows.columns[column] ?? ''
  void runAction(async (actionSignal) => {
    const shownValue = row.cells[column] ?? null
    const cell =
      row.lengths[column] === null ? shownValue : await readCell(database.value, table, row, name, order)
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
