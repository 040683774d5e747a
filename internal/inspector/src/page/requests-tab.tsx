import { Component, type JSX } from 'preact'
import { getUserStatements } from './client-guards.ts'
import { formatBytes, formatClock, formatCount, formatDuration } from './format.ts'
import { RequestDetails } from './request-details.tsx'
import {
  canMove,
  currentModel,
  isShown,
  missedEvents,
  notices,
  now,
  pausedAt,
  position,
  range,
  selectedNumber,
  set,
} from './state.ts'
import { Timeline } from './timeline.tsx'
import { findProblem, LOCK_WINDOW_MS, type Span, type WireRequest } from './wire-model.ts'

const MAX_ROWS = 500
const TIMELINE_RANGES = [
  ['5', '5 s'],
  ['10', '10 s'],
  ['30', '30 s'],
  ['60', '1 min'],
  ['300', '5 min'],
  ['all', 'all'],
] as const
const LEGEND = [
  ['transaction', 'transaction'],
  ['locked', 'holds the write lock'],
  ['overdue', 'can lose the lock (after 5 s)'],
  ['waiting', 'waiting for the lock'],
  ['request', 'request'],
  ['failed', 'error'],
] as const

/** Shows requests as they arrive: a timeline, write locks, streams, and a list with details. */
export function RequestsTab(): JSX.Element {
  return (
    <>
      {notices.value.length > 0 && (
        <section class="panel" aria-labelledby="notices-title">
          <div class="panel-head">
            <h2 id="notices-title">Server</h2>
          </div>
          <ul class="content" role="log">
            {notices.value.map(({ at, database, text }) => (
              <li key={`${at}${text}`}>
                {formatClock(at)} {database}: {text}
              </li>
            ))}
          </ul>
        </section>
      )}
      <section class="panel" aria-labelledby="timeline-title">
        <div class="panel-head">
          <h2 id="timeline-title">Timeline</h2>
          <p class="legend" aria-hidden="true">
            {LEGEND.map(([name, text]) => (
              <span key={name} class={`key ${name}`}>
                {text}
              </span>
            ))}
          </p>
          <TimelineRange />
        </div>
        <div class="timeline-scroll">
          <Timeline />
        </div>
      </section>
      <div class="columns">
        <WriteLocks />
        <OpenStreams />
      </div>
      <div class="requests">
        <RequestList />
        <RequestDetails />
      </div>
    </>
  )
}

function TimelineRange(): JSX.Element {
  return (
    <>
      <label>
        Shown{' '}
        <select id="range" value={range} onChange={(event) => set(range, event.currentTarget.value)}>
          {TIMELINE_RANGES.map(([value, text]) => (
            <option key={value} value={value}>
              {text}
            </option>
          ))}
        </select>
      </label>
      <label class="position">
        <span class="hidden">Position</span>{' '}
        <input
          type="range"
          min="0"
          max="1000"
          value={position}
          disabled={!canMove()}
          onInput={(event) => set(position, Number(event.currentTarget.value))}
        />
      </label>
    </>
  )
}

function WriteLocks(): JSX.Element {
  const holders = [...currentModel().holders.values()]
  return (
    <section class="panel" aria-labelledby="lock-title">
      <div class="panel-head">
        <h2 id="lock-title">Write lock</h2>
      </div>
      <div id="locks" class="content">
        {holders.length === 0 ? (
          <p class="quiet">No stream holds a write lock.</p>
        ) : (
          holders.map((span) => <LockCard key={span.id} span={span} />)
        )}
      </div>
    </section>
  )
}

function LockCard({ span }: { span: Span }): JSX.Element {
  const at = pausedAt.value ?? now.value
  const heldMs = Math.max(at - (span.lockSince ?? span.begin), 0)
  const waiters = currentModel().findWaiters(span.database)
  return (
    <div class={heldMs > LOCK_WINDOW_MS ? 'lock overdue' : 'lock'}>
      <p>
        <b>
          {span.database} #{span.stream}
        </b>{' '}
        has held the write lock for {formatDuration(heldMs)}
      </p>
      <progress
        max={LOCK_WINDOW_MS}
        value={Math.min(heldMs, LOCK_WINDOW_MS)}
        aria-label={`Time with the lock, out of ${LOCK_WINDOW_MS / 1_000} seconds`}
      />
      {waiters.length === 0 ? (
        <p class="quiet">no requests waiting</p>
      ) : (
        <ul class="waiters">
          {waiters.map((request) => (
            <li key={request.n}>
              <b>#{request.stream}</b> waiting for {formatDuration(Math.max(at - request.at, 0))}{' '}
              <code>{getUserStatements(request)[0]?.sql.slice(0, 80)}</code>
            </li>
          ))}
        </ul>
      )}
    </div>
  )
}

function OpenStreams(): JSX.Element {
  const at = pausedAt.value ?? now.value
  const streams = [...currentModel().streams.values()]
  return (
    <section class="panel" aria-labelledby="streams-title">
      <div class="panel-head">
        <h2 id="streams-title">
          Open streams <span class="badge">{streams.length}</span>
        </h2>
      </div>
      <ul id="streams" class="content">
        {streams.length === 0 && <li class="quiet">none</li>}
        {streams.map(({ database, number, span, inFlight, lastActiveAt }) => (
          <li key={number}>
            <b>
              {database} #{number}
            </b>{' '}
            {span !== null && 'in a transaction, '}
            {inFlight > 0 ? 'busy' : `idle ${formatDuration(Math.max(at - lastActiveAt, 0))}`}
          </li>
        ))}
      </ul>
    </section>
  )
}

function RequestList(): JSX.Element {
  const requests = [...currentModel().requests.values()].filter(isShown).slice(-MAX_ROWS).reverse()
  const visibleSelection = requests.some(({ n }) => n === selectedNumber.value) ? selectedNumber.value : null
  const tabStop = visibleSelection ?? requests[0]?.n
  return (
    <section class="panel list" aria-labelledby="requests-title">
      <div class="panel-head">
        <h2 id="requests-title">Requests</h2>
        <p class="quiet">
          {formatCount(requests.length, 'request')}
          {missedEvents.value > 0 && `, ${missedEvents.value} events missed`}
        </p>
        <p class="keys quiet">
          <kbd>↑</kbd>
          <kbd>↓</kbd> select <kbd>c</kbd> copy <kbd>p</kbd> pause <kbd>/</kbd> filter
        </p>
      </div>
      <div class="scroll">
        <table class="request-table" role="grid" aria-labelledby="requests-title">
          <thead>
            <tr>
              <th scope="col">Time</th>
              <th scope="col">Database</th>
              <th scope="col" class="number">
                Stream
              </th>
              <th scope="col">Statements</th>
              <th scope="col" class="number">
                Duration
              </th>
              <th scope="col" class="number">
                Rows
              </th>
              <th scope="col" class="number">
                Bytes
              </th>
            </tr>
          </thead>
          <tbody id="rows">
            {requests.map((request) => (
              <RequestRow
                key={request.n}
                request={request}
                end={request.end}
                isSelected={request.n === visibleSelection}
                isTabStop={request.n === tabStop}
              />
            ))}
          </tbody>
        </table>
        {requests.length === 0 && (
          <p id="empty" class="content quiet">
            No requests yet. Requests appear here live.
          </p>
        )}
      </div>
    </section>
  )
}

interface RowProps {
  readonly request: WireRequest
  /** End of the request; a separate property, because the request is changed in place. */
  readonly end: number | null
  readonly isSelected: boolean
  /** Whether the Tab key moves to this row. */
  readonly isTabStop: boolean
}

/** A row that is rendered again only if it has changed. */
class RequestRow extends Component<RowProps> {
  override shouldComponentUpdate({ end, isSelected, isTabStop }: RowProps): boolean {
    const { props } = this
    return end !== props.end || isSelected !== props.isSelected || isTabStop !== props.isTabStop
  }

  override render({ request, isSelected, isTabStop }: RowProps): JSX.Element {
    const { n, at, end, database, stream, bytes, responseBytes, rows, more } = request
    const problem = findProblem(request)
    const shownStatements = getUserStatements(request)
    const count = shownStatements.length + more
    return (
      <tr
        data-n={n}
        tabIndex={isTabStop ? 0 : -1}
        aria-selected={isSelected}
        class={problem === null ? undefined : 'failed'}
        onClick={() => set(selectedNumber, n)}
      >
        <td class="time">{formatClock(at)}</td>
        <td>{database}</td>
        <td class="number">{stream === null ? '' : `#${stream}`}</td>
        <td class="sql">
          {problem !== null && <span class="problem">{problem}</span>}
          {count > 1 && (
            <span class="more" title={formatCount(count, 'statement')}>
              {count}
            </span>
          )}
          <code>{summaryText(request)}</code>
        </td>
        <td class="number">{end === null ? 'running' : formatDuration(end - at)}</td>
        <td class="number">{end === null ? '' : rows}</td>
        <td class="number">{end === null ? '' : formatBytes(bytes + responseBytes)}</td>
      </tr>
    )
  }
}

/** Describes the statements of a request in one line. */
function summaryText(request: WireRequest): string {
  const { statements, path } = request
  if (statements.length === 0) return path.endsWith('/pipeline') ? 'end of the stream' : path
  const texts = getUserStatements(request).map(({ sql }) => sql.replaceAll(/\s+/g, ' ').trim())
  return texts.join('; ').slice(0, 400)
}

/** Selects another row. Arrow keys work anywhere on the page, other keys only in the list. */
export function moveSelection(event: KeyboardEvent): void {
  const body = document.getElementById('rows')
  const focused = document.activeElement
  const row = focused !== null && focused.parentElement === body ? focused : null
  const isArrow = event.key === 'ArrowDown' || event.key === 'ArrowUp'
  if (body === null || (row === null && !isArrow)) return
  const from = row ?? body.querySelector(`tr[aria-selected=true]`)
  const target = {
    ArrowDown: from ? from.nextElementSibling : body.firstElementChild,
    ArrowUp: from ? from.previousElementSibling : body.firstElementChild,
    Home: body.firstElementChild,
    End: body.lastElementChild,
    Enter: row,
  }[event.key]
  if (!(target instanceof HTMLElement)) return
  event.preventDefault()
  target.focus()
  target.click()
  target.scrollIntoView({ block: 'nearest' })
}
