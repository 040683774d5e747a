import { signal } from '@preact/signals'
import type { JSX } from 'preact'
import { useEffect, useRef } from 'preact/hooks'
import { getUserStatements } from './client-guards.ts'
import { formatClock, formatCount, formatDuration, shorten } from './format.ts'
import { currentModel, isShown, selectedNumber, set, visiblePeriod } from './state.ts'
import { findProblem, LOCK_WINDOW_MS, type Span, type WireModel, type WireRequest } from './wire-model.ts'

/** A transaction with its requests, or a request outside a transaction. */
interface Bar {
  readonly database: string
  readonly from: number
  readonly to: number
  readonly span: Span | null
  readonly requests: WireRequest[]
}

interface Lane {
  readonly database: string
  readonly bars: Bar[]
  /** End of the last bar. */
  until: number
}

interface View {
  readonly from: number
  readonly to: number
  readonly now: number
  readonly width: number
}

// sizes in pixels
const GUTTER_WIDTH = 132
const LANE_HEIGHT = 26
const TOP_MARGIN = 26
const SIDE_MARGIN = 12
const MIN_WIDTH = 320
/** Minimum distance between two bars in a lane, and between two ticks. */
const BAR_GAP = 5
const TICK_GAP = 110
/** Space that the text of a tick needs, and the state of a transaction. */
const TICK_TEXT_WIDTH = 90
const SPAN_TEXT_WIDTH = 150
/** Distance of a transaction from the edges of its lane. */
const INSET = 3
/** Tops of a request and of the mark of a lock, which is below the requests of its transaction. */
const REQUEST_TOP = 7
const LOCK_TOP = LANE_HEIGHT - 7

/** A transaction with more requests has no room for its state. */
const MAX_REQUESTS_WITH_TEXT = 40
const TICK_STEPS_MS = [
  10, 50, 100, 250, 500, 1_000, 2_000, 5_000, 10_000, 30_000, 60_000, 300_000, 900_000, 3_600_000,
]

const width = signal(MIN_WIDTH)

/** Shows the traffic of a period, grouped by database, with concurrent transactions in separate lanes. */
export function Timeline(): JSX.Element {
  const svg = useRef<SVGSVGElement>(null)
  useEffect(() => {
    const parent = svg.current?.parentElement
    if (!parent) return undefined
    const observer = new ResizeObserver(() => {
      width.value = Math.max(parent.clientWidth, MIN_WIDTH)
    })
    observer.observe(parent)
    return () => observer.disconnect()
  }, [])
  const model = currentModel()
  const view: View = { ...visiblePeriod(), width: width.value }
  const lanes = createLanes(createBars(model, view), view)
  const height = TOP_MARGIN + Math.max(lanes.length, 1) * LANE_HEIGHT + 8
  const waiting = new Set([...model.holders.keys()].flatMap((database) => model.findWaiters(database)))
  const count = lanes.flatMap(({ bars }) => bars).filter(({ span }) => span !== null).length
  return (
    <svg
      ref={svg}
      id="timeline"
      role="img"
      viewBox={`0 0 ${view.width} ${height}`}
      width="100%"
      height={height}
    >
      <title>{`${formatCount(count, 'transaction')} on the timeline`}</title>
      <Axis view={view} height={height} />
      {lanes.map(({ database, bars }, index) => (
        <g key={index}>
          {lanes[index - 1]?.database !== database && (
            <>
              {index > 0 && (
                <line
                  x1={0}
                  x2={view.width}
                  y1={TOP_MARGIN + index * LANE_HEIGHT}
                  y2={TOP_MARGIN + index * LANE_HEIGHT}
                  class="rule"
                />
              )}
              <text x={SIDE_MARGIN} y={TOP_MARGIN + index * LANE_HEIGHT + 17} class="lane-name">
                {shorten(database, 16)}
              </text>
            </>
          )}
          {bars.map((bar) => (
            <BarMark
              key={bar.span?.id ?? `r${bar.requests[0]?.n}`}
              bar={bar}
              y={TOP_MARGIN + index * LANE_HEIGHT}
              view={view}
              waiting={waiting}
            />
          ))}
        </g>
      ))}
    </svg>
  )
}

const toX = (at: number, { from, to, width: totalWidth }: View): number =>
  GUTTER_WIDTH + ((at - from) / (to - from)) * (totalWidth - GUTTER_WIDTH - SIDE_MARGIN)

function createBars(model: WireModel, { from, to, now }: View): Bar[] {
  const bySpan = new Map<Span, Bar>()
  for (const span of model.spans) {
    const { database, begin, end } = span
    bySpan.set(span, { database, from: begin, to: end ?? now, span, requests: [] })
  }
  const bars: Bar[] = []
  for (const request of model.requests.values()) {
    if (!isShown(request)) continue
    const bar = request.span === null ? undefined : bySpan.get(request.span)
    const { database, at, end } = request
    if (bar === undefined) bars.push({ database, from: at, to: end ?? now, span: null, requests: [request] })
    else bar.requests.push(request)
  }
  for (const bar of bySpan.values()) if (bar.requests.length > 0) bars.push(bar)
  return bars.filter((bar) => bar.to >= from && bar.from <= to).sort((a, b) => a.from - b.from)
}

function createLanes(bars: readonly Bar[], { from, to, width: totalWidth }: View): readonly Lane[] {
  const gapMs = ((to - from) / totalWidth) * BAR_GAP
  const byDatabase = new Map<string, Lane[]>()
  for (const bar of bars) {
    const lanes = byDatabase.get(bar.database) ?? []
    byDatabase.set(bar.database, lanes)
    let lane = lanes.find(({ until }) => until + gapMs <= bar.from)
    if (lane === undefined) {
      lane = { database: bar.database, bars: [], until: 0 }
      lanes.push(lane)
    }
    lane.bars.push(bar)
    lane.until = bar.to
  }
  const names = [...byDatabase.keys()].sort()
  return names.flatMap((name) => byDatabase.get(name) ?? [])
}

function Axis({ view, height }: { view: View; height: number }): JSX.Element {
  const { from, to, width: totalWidth } = view
  const room = Math.max(2, Math.floor((totalWidth - GUTTER_WIDTH) / TICK_GAP))
  const step = TICK_STEPS_MS.find((candidate) => (to - from) / candidate <= room) ?? (to - from) / room
  const ticks: number[] = []
  for (let at = Math.ceil(from / step) * step; at <= to; at += step) ticks.push(at)
  return (
    <g>
      {ticks.map((at) => {
        const x = toX(at, view)
        const text = step < 1_000 ? formatClock(at) : formatClock(at).slice(0, 8)
        return (
          <g key={at}>
            <line x1={x} x2={x} y1={TOP_MARGIN - 6} y2={height} class="tick" />
            {x + TICK_TEXT_WIDTH < totalWidth && (
              <text x={x + 4} y={14} class="tick-text">
                {text}
              </text>
            )}
          </g>
        )
      })}
    </g>
  )
}

interface BarProps {
  readonly bar: Bar
  readonly y: number
  readonly view: View
  readonly waiting: ReadonlySet<WireRequest>
}

function BarMark({ bar, y, view, waiting }: BarProps): JSX.Element {
  const { span, from, to, requests } = bar
  const visibleRequests = requests.filter(({ at, end }) => (end ?? view.now) >= view.from && at <= view.to)
  const isWide = clip(to, view) - clip(from, view) > SPAN_TEXT_WIDTH
  return (
    <g class={span === null ? 'bar' : 'bar span'}>
      {span !== null && <SpanMark span={span} bar={bar} y={y} view={view} />}
      {visibleRequests.map((request) => (
        <RequestMark
          key={request.n}
          request={request}
          y={y}
          view={view}
          isWaiting={waiting.has(request)}
          bottom={span === null ? REQUEST_TOP : LANE_HEIGHT - LOCK_TOP + 1}
        />
      ))}
      {span !== null && isWide && requests.length < MAX_REQUESTS_WITH_TEXT && (
        <text x={clip(to, view) - 6} y={y + 15} class="span-text">
          {`${span.state} · ${formatDuration(to - from)}`}
        </text>
      )}
    </g>
  )
}

const clip = (at: number, view: View): number => toX(Math.min(Math.max(at, view.from), view.to), view)

interface BoxProps {
  readonly start: number
  readonly end: number
  readonly kind: string
  readonly y: number
  readonly view: View
  readonly top?: number
  readonly bottom?: number
}

function Box({ start, end, kind, y, view, top = INSET, bottom = INSET }: BoxProps): JSX.Element {
  return (
    <rect
      x={clip(start, view)}
      y={y + top}
      width={Math.max(clip(end, view) - clip(start, view), 3)}
      height={LANE_HEIGHT - top - bottom}
      rx={2}
      class={kind}
    />
  )
}

interface SpanProps {
  readonly span: Span
  readonly bar: Bar
  readonly y: number
  readonly view: View
}

/** Shows a transaction, and how long it has held the write lock. The limit is shown while it is open, or if it was exceeded. */
function SpanMark({ span, bar: { from, to }, y, view }: SpanProps): JSX.Element {
  const title = `transaction of stream ${span.stream}: ${span.state}, ${formatDuration(to - from)}, ${formatCount(span.roundTrips, 'round trip')}`
  const since = span.lockSince ?? Infinity
  const limit = since + LOCK_WINDOW_MS
  const isOverdue = to > limit
  const x = toX(limit, view)
  return (
    <>
      <title>{title}</title>
      <Box start={from} end={to} kind={`transaction ${span.state.replaceAll(' ', '-')}`} y={y} view={view} />
      {span.lockSince !== null && (
        <Box start={since} end={Math.min(to, limit)} kind="locked" y={y} view={view} top={LOCK_TOP} />
      )}
      {isOverdue && <Box start={limit} end={to} kind="overdue" y={y} view={view} />}
      {limit > view.from && limit < view.to && (span.end === null || isOverdue) && (
        <line x1={x} x2={x} y1={y + 1} y2={y + LANE_HEIGHT - 1} class="limit" />
      )}
    </>
  )
}

interface RequestProps {
  readonly request: WireRequest
  readonly y: number
  readonly view: View
  readonly isWaiting: boolean
  readonly bottom: number
}

function RequestMark({ request, y, view, isWaiting, bottom }: RequestProps): JSX.Element {
  const { at, waitedUntil } = request
  const end = request.end ?? view.now
  const since = waitedUntil ?? at
  const text = getUserStatements(request)[0]?.sql ?? request.path
  const state = isWaiting ? 'waiting' : getState(request)
  return (
    <g onClick={() => set(selectedNumber, request.n)}>
      <title>{`${shorten(text, 200)}\n${formatDuration(end - at)}`}</title>
      {since > at && (
        <Box
          start={at}
          end={since}
          kind="request waiting"
          y={y}
          view={view}
          top={REQUEST_TOP}
          bottom={bottom}
        />
      )}
      <Box
        start={since}
        end={end}
        kind={`request ${state}`}
        y={y}
        view={view}
        top={REQUEST_TOP}
        bottom={bottom}
      />
    </g>
  )
}

function getState(request: WireRequest): string {
  if (findProblem(request) !== null) return 'failed'
  return request.end === null ? 'running' : 'done'
}
