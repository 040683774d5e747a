import { clockText, counted, drawn, durationText } from './elements.js'
import { problemOf, WINDOW_MS } from './model.js'

/** @typedef {import('./model.js').WireModel} WireModel */
/** @typedef {import('./model.js').WireRequest} WireRequest */
/** @typedef {import('./model.js').Span} Span */
/** @typedef {{ database: string, from: number, to: number, span: Span | null, requests: WireRequest[] }} Bar */

const GUTTER = 132
const LANE = 26
const TOP = 26
const MAX_LANES = 30
const STEPS = [
  10, 50, 100, 250, 500, 1_000, 2_000, 5_000, 10_000, 30_000, 60_000, 300_000, 900_000, 3_600_000,
]

/**
 * Draws the traffic between two times: concurrent transactions in separate lanes, one database below another.
 * @param {WireModel} model
 * @param {{ from: number, to: number, now: number, width: number, onSelect: (request: WireRequest) => void,
 *   isShown: (request: WireRequest) => boolean }} view
 */
export function drawTimeline(model, view) {
  const lanes = lanesOf(barsOf(model, view), view)
  const height = TOP + Math.max(lanes.length, 1) * LANE + 8
  const x = (/** @type {number} */ at) =>
    GUTTER + ((at - view.from) / (view.to - view.from)) * (view.width - GUTTER - 12)
  const parts = [...axis(view, x, height)]
  const waiting = new Set([...model.holders.keys()].flatMap((database) => model.waiters(database)))
  let last = null
  for (const [index, { database, bars }] of lanes.entries()) {
    const y = TOP + index * LANE
    if (database !== last) {
      if (last !== null) parts.push(drawn('line', { x1: 0, x2: view.width, y1: y, y2: y, class: 'rule' }))
      parts.push(drawn('text', { x: 12, y: y + 17, class: 'lane-name' }, shortened(database, 16)))
      last = database
    }
    for (const bar of bars) parts.push(barParts(bar, y, x, { ...view, waiting }))
  }
  return {
    parts,
    height,
    spans: lanes.flatMap(({ bars }) => bars).filter(({ span }) => span !== null).length,
  }
}

/**
 * @param {WireModel} model
 * @param {{ from: number, to: number, now: number, isShown: (request: WireRequest) => boolean }} view
 * @returns {Bar[]}
 */
function barsOf(model, { from, to, now, isShown }) {
  /** @type {Map<Span, Bar>} */
  const bySpan = new Map()
  for (const span of model.spans)
    bySpan.set(span, {
      database: span.database,
      from: span.begin,
      to: span.end ?? now,
      span,
      requests: [],
    })
  const bars = []
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

/**
 * @param {Bar[]} bars
 * @param {{ from: number, to: number, width: number }} view
 */
function lanesOf(bars, { from, to, width }) {
  const gap = ((to - from) / width) * 5
  /** @type {Map<string, { database: string, bars: Bar[], until: number }[]>} */
  const byDatabase = new Map()
  for (const bar of bars) {
    const lanes = byDatabase.get(bar.database) ?? []
    byDatabase.set(bar.database, lanes)
    let lane = lanes.find(({ until }) => until + gap <= bar.from)
    if (lane === undefined) {
      lane = { database: bar.database, bars: [], until: 0 }
      lanes.push(lane)
    }
    lane.bars.push(bar)
    lane.until = bar.to
  }
  const names = [...byDatabase.keys()].sort()
  return names.flatMap((name) => byDatabase.get(name) ?? []).slice(0, MAX_LANES)
}

/**
 * @param {{ from: number, to: number, width: number }} view
 * @param {(at: number) => number} x
 * @param {number} height
 */
function axis({ from, to, width }, x, height) {
  const room = Math.max(2, Math.floor((width - GUTTER) / 110))
  const step = STEPS.find((candidate) => (to - from) / candidate <= room) ?? (to - from) / room
  const parts = []
  for (let at = Math.ceil(from / step) * step; at <= to; at += step) {
    const text = step < 1_000 ? clockText(at) : clockText(at).slice(0, 8)
    parts.push(drawn('line', { x1: x(at), x2: x(at), y1: TOP - 6, y2: height, class: 'tick' }))
    if (x(at) + 90 < width) parts.push(drawn('text', { x: x(at) + 4, y: 14, class: 'tick-text' }, text))
  }
  return parts
}

/**
 * @param {Bar} bar
 * @param {number} y
 * @param {(at: number) => number} x
 * @param {{ from: number, to: number, now: number, onSelect: (request: WireRequest) => void, waiting: ReadonlySet<WireRequest> }} view
 */
function barParts({ span, from, to, requests }, y, x, view) {
  const clip = (/** @type {number} */ at) => x(Math.min(Math.max(at, view.from), view.to))
  const box = (
    /** @type {number} */ start,
    /** @type {number} */ end,
    /** @type {string} */ kind,
    top = 3,
    bottom = 3,
  ) =>
    drawn('rect', {
      x: clip(start),
      y: y + top,
      width: Math.max(clip(end) - clip(start), 3),
      height: LANE - top - bottom,
      rx: 2,
      class: kind,
    })
  const group = drawn('g', { class: span === null ? 'bar' : 'bar span' })
  if (span !== null) {
    const title = `transaction of stream ${span.stream}: ${span.state}, ${durationText(to - from)}, ${counted(span.trips, 'round trip')}`
    group.append(drawn('title', {}, title), box(from, to, `transaction ${span.state.replaceAll(' ', '-')}`))
    const late = span.lockSince === null ? null : span.lockSince + WINDOW_MS
    if (span.lockSince !== null)
      group.append(box(span.lockSince, Math.min(to, late ?? to), 'locked', LANE - 7))
    if (late !== null && to > late) group.append(box(late, to, 'overdue'))
    if (late !== null && late > view.from && late < view.to && (span.end === null || to > late))
      group.append(drawn('line', { x1: x(late), x2: x(late), y1: y + 1, y2: y + LANE - 1, class: 'limit' }))
  }
  for (const request of requests) {
    if ((request.end ?? view.now) < view.from || request.at > view.to) continue
    const state = view.waiting.has(request) ? 'waiting' : stateOf(request)
    const bottom = span === null ? 7 : 8
    const since = request.waitedUntil ?? request.at
    if (since > request.at) group.append(box(request.at, since, 'request waiting', 7, bottom))
    const mark = box(since, request.end ?? view.now, `request ${state}`, 7, bottom)
    const text = request.statements[0]?.sql ?? request.path
    mark.append(
      drawn('title', {}, `${shortened(text, 200)}\n${durationText((request.end ?? view.now) - request.at)}`),
    )
    mark.addEventListener('click', () => view.onSelect(request))
    group.append(mark)
  }
  if (span !== null && clip(to) - clip(from) > 150 && requests.length < 40)
    group.append(
      drawn(
        'text',
        { x: clip(to) - 6, y: y + 15, class: 'span-text' },
        `${span.state} · ${durationText(to - from)}`,
      ),
    )
  return group
}

/** @param {WireRequest} request */
function stateOf(request) {
  if (problemOf(request) !== null) return 'failed'
  return request.end === null ? 'running' : 'done'
}

/**
 * @param {string} text
 * @param {number} length
 */
function shortened(text, length) {
  return text.length > length ? `${text.slice(0, length - 1)}…` : text
}
