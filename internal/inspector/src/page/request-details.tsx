import type { JSX } from 'preact'
import { explainSkipped, isControl } from './client-guards.ts'
import { formatBytes, formatClock, formatCount, formatDuration } from './format.ts'
import { currentModel, selectedNumber, set, status } from './state.ts'
import { findProblem, type WireRequest } from './wire-model.ts'

/** Shows the selected request, with its statements and their outcomes. */
export function RequestDetails(): JSX.Element | null {
  const request = selectedRequest()
  if (request === null) return null
  const problem = findProblem(request)
  return (
    <aside id="details" class="panel" aria-label="Details of the selected request">
      <div class="details-head">
        <h2>Request</h2>
        <button type="button" aria-label="Close details" onClick={() => set(selectedNumber, null)}>
          ×
        </button>
      </div>
      {problem !== null && <p class="problem">{problem}</p>}
      {request.statements.map((statement, index) => (
        <div class={isControl(statement) ? 'statement control' : 'statement'} key={index}>
          <pre>
            <code>{statement.sql}</code>
          </pre>
          <button type="button" class="copy" onClick={() => copy(statement.sql)}>
            Copy
          </button>
          {request.outcomes[index] === 'skipped' && (
            <span class="quiet">{explainSkipped(statement, request)}</span>
          )}
        </div>
      ))}
      {request.more > 0 && <p class="quiet">and {formatCount(request.more, 'statement')} more</p>}
      <dl>
        {describeRequest(request).map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
      </dl>
    </aside>
  )
}

function selectedRequest(): WireRequest | null {
  return selectedNumber.value === null ? null : (currentModel().requests.get(selectedNumber.value) ?? null)
}

function describeRequest(request: WireRequest): readonly (readonly [string, string])[] {
  const { at, end, database, method, path, stream, bytes, responseBytes, status: code, span } = request
  const { waitedUntil, rows, rowsRead, rowsWritten } = request
  return [
    ['Database', database],
    ['Request', `${method} ${path}`.trim()],
    ['Stream', stream === null ? 'none' : `#${stream}`],
    ['Transaction', span === null ? 'none' : `${span.state}, ${formatCount(span.roundTrips, 'round trip')}`],
    ['Started', formatClock(at)],
    ['Duration', end === null ? 'running' : formatDuration(end - at)],
    ...(waitedUntil === null
      ? []
      : [['Write lock', `waited ${formatDuration(waitedUntil - at)} for it`] as const]),
    ['Status', String(code ?? (end === null ? '' : 'no response'))],
    ['Rows', `${rows} returned, ${rowsRead} read, ${rowsWritten} written`],
    ['Bytes', `${formatBytes(bytes)} sent, ${formatBytes(responseBytes)} received`],
  ]
}

export function copySelected(): void {
  const text = selectedRequest()
    ?.statements.map(({ sql }) => sql)
    .join(';\n')
  if (text) copy(text)
}

export function copy(text: string): void {
  navigator.clipboard.writeText(text).then(
    () => set(status, 'Copied'),
    () => set(status, 'The browser does not allow copying'),
  )
}
