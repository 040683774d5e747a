import { batch, signal } from '@preact/signals'
import type { JSX } from 'preact'
import { useEffect } from 'preact/hooks'
import { CellView, cellText } from './cell-view.tsx'
import { Checkbox } from './checkbox.tsx'
import { type Cell, databaseNames, type Result, runStatement } from './database-client.ts'
import { counted, durationText } from './format.ts'
import {
  listTables,
  PAGE_ROWS,
  readCell,
  readPage,
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
const rows = signal<TablePage | null>(null)
const problem = signal<string | null>(null)
const sql = signal('')
const mayWrite = signal(false)
const result = signal<{ readonly result: Result; readonly tookMs: number } | null>(null)
/** The value that is shown in full, with the name of its column. */
const shownCell = signal<{ readonly name: string; readonly cell: Cell } | null>(null)
/** Whether a statement of the user is running. */
const isRunning = signal(false)
/** Aborts the latest action; every new action aborts the previous one. */
let latest = new AbortController()

/** Shows the tables and rows of a database, and an SQL editor. */
export function DataTab(): JSX.Element {
  useEffect(() => void act(refreshDatabases), [])
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
            onClose={() => {
              shownCell.value = null
            }}
          />
        )}
      </div>
    </div>
  )
}

/** Aborts the previous action, runs a new one, and shows its error. */
async function act(action: (signal: AbortSignal) => Promise<void>): Promise<void> {
  latest.abort()
  latest = new AbortController()
  const { signal: own } = latest
  problem.value = null
  isRunning.value = false
  try {
    await action(own)
  } catch (error) {
    if (!own.aborted) problem.value = error instanceof Error ? error.message : String(error)
  }
}

async function refreshDatabases(own: AbortSignal): Promise<void> {
  const names = await databaseNames()
  if (own.aborted) return
  databases.value = names
  if (!names.includes(database.value)) database.value = names[0] ?? ''
  await refreshTables(own)
}

async function refreshTables(own: AbortSignal): Promise<void> {
  if (database.value === '') return
  const listed = await listTables(database.value)
  // another database may have been chosen
  if (own.aborted) return
  tables.value = listed
  const current = tables.value.find(({ name }) => name === table.value?.name) ?? null
  table.value = current
  if (current === null) rows.value = null
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
  void act(refreshTables)
}

function openPage(chosen: Table, number: number): void {
  void act(async (own) => {
    const read = await readPage(database.value, chosen, number)
    if (own.aborted) return
    batch(() => {
      table.value = chosen
      page.value = number
      rows.value = read
      result.value = null
      shownCell.value = null
    })
  })
}

function run(statement: string): void {
  void act(async (own) => {
    isRunning.value = true
    const started = performance.now()
    const options = { mayWrite: mayWrite.value, maxRows: MAX_RESULT_ROWS, signal: own }
    try {
      const found = await runStatement(database.value, statement, options)
      if (own.aborted) return
      batch(() => {
        result.value = { result: found, tookMs: performance.now() - started }
        shownCell.value = null
      })
    } finally {
      if (!own.aborted) isRunning.value = false
    }
    if (options.mayWrite) await refreshTables(own)
  })
}

function stop(): void {
  latest.abort()
  isRunning.value = false
}

function TableList(): JSX.Element {
  return (
    <section class="panel tables" aria-labelledby="tables-title">
      <div class="panel-head">
        <h2 id="tables-title">Tables</h2>
        <button type="button" onClick={() => void act(refreshDatabases)}>
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
          {tables.value.map((each) => (
            <li key={each.name}>
              <button
                type="button"
                aria-pressed={table.value?.name === each.name && result.value === null}
                onClick={() => openPage(each, 0)}
              >
                <span class="name">{each.name}</span>
                <span class="quiet">
                  {each.type !== 'table' && `${each.type} `}
                  {each.count?.toLocaleString('en')}
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
          onInput={(event) => {
            sql.value = event.currentTarget.value
          }}
          onKeyDown={(event) => {
            if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) submit(event)
          }}
        />
      </label>
      <div class="panel-head">
        {/* two elements: one that turns into a submit button while it is clicked submits the form */}
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
  const { columns, rows: found, rowsAffected, isTruncated } = result.value.result
  const count = isTruncated ? `the first ${counted(found.length, 'row')}` : counted(found.length, 'row')
  const changed = rowsAffected > 0 ? `, ${counted(rowsAffected, 'row')} changed` : ''
  return (
    <section class="panel" aria-labelledby="result-title">
      <div class="panel-head">
        <h2 id="result-title">Result</h2>
        <p id="result-count" class="quiet">
          {count}
          {changed}, {durationText(result.value.tookMs)}
        </p>
      </div>
      <Grid
        columns={columns}
        rows={found}
        onOpen={(row, column) => {
          const cell = found[row]?.[column]
          if (cell) shownCell.value = { name: columns[column] ?? '', cell }
        }}
      />
    </section>
  )
}

function Rows(): JSX.Element | null {
  const [shown, of] = [rows.value, table.value]
  if (shown === null || of === null) return null
  const first = page.value * PAGE_ROWS
  const last = first + shown.rows.length
  const isLast = of.count === null ? shown.rows.length < PAGE_ROWS : last >= of.count
  return (
    <section class="panel" aria-labelledby="rows-title">
      <div class="panel-head">
        <h2 id="rows-title">{of.name}</h2>
        <p id="page" class="quiet">
          {shown.rows.length === 0 ? 'no rows' : `rows ${first + 1} to ${last}`}
          {of.count !== null && ` of ${of.count.toLocaleString('en')}`}
        </p>
        <button
          id="previous"
          type="button"
          disabled={page.value === 0}
          onClick={() => openPage(of, page.value - 1)}
        >
          Previous
        </button>
        <button id="next" type="button" disabled={isLast} onClick={() => openPage(of, page.value + 1)}>
          Next
        </button>
      </div>
      <Grid
        columns={shown.columns}
        rows={shown.rows.map(({ cells }) => cells)}
        lengths={shown.rows.map(({ lengths }) => lengths)}
        onOpen={(row, column) => {
          const chosen = shown.rows[row]
          if (chosen) openCell(of, chosen, shown.columns[column] ?? '', column)
        }}
      />
    </section>
  )
}

function openCell(of: Table, row: TableRow, name: string, column: number): void {
  void act(async (own) => {
    const listed = row.cells[column] ?? null
    const cell = row.lengths[column] === null ? listed : await readCell(database.value, of, row, name)
    if (cell === null) throw new Error('This row no longer exists.')
    if (!own.aborted) shownCell.value = { name, cell }
  })
}

interface GridProps {
  readonly columns: readonly string[]
  readonly rows: readonly (readonly Cell[])[]
  /** Full lengths of truncated values. */
  readonly lengths?: readonly (readonly (number | null)[])[]
  readonly onOpen: (row: number, column: number) => void
}

/** Shows a table of values, which can be opened individually. */
function Grid({ columns, rows: shown, lengths, onOpen }: GridProps): JSX.Element {
  return (
    <div class="scroll">
      <table class="grid">
        <thead>
          <tr>
            {columns.map((name, at) => (
              <th key={at} scope="col">
                {name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {shown.map((cells, row) => (
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
