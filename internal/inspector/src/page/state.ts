import { batch, type Signal, signal } from '@preact/signals'
import { readEventLog } from './event-log.ts'
import { formatCount } from './format.ts'
import {
  findProblem,
  type RequestEvent,
  type ResponseEvent,
  WireModel,
  type WireRequest,
} from './wire-model.ts'

/** A notice about a database's server. Times are in ms since the Unix epoch. */
export interface Notice {
  readonly at: number
  readonly database: string
  readonly text: string
}

type FeedEvent =
  | { readonly type: 'hello'; readonly version: string }
  | { readonly type: 'missed'; readonly count: number }
  | ({ readonly type: 'notice' } & Notice)
  | RequestEvent
  | ResponseEvent

const UPDATE_INTERVAL_MS = 250

/** Changes a signal, as the whole of an event handler. */
export function set<T>(target: Signal<T>, value: T): void {
  target.value = value
}

export const tab = signal<'requests' | 'data'>('requests')
export const connection = signal<'connecting' | 'open' | 'lost'>('connecting')
export const serverVersion = signal('')
export const status = signal('')
export const filter = signal('')
export const errorsOnly = signal(false)
/** Seconds on the timeline, or `all`. */
export const range = signal('30')
/** Position of the visible period while it is not live, from 0 to 1,000. */
export const position = signal(1_000)
/** Time of the pause, in ms since the Unix epoch. */
export const pausedAt = signal<number | null>(null)
export const requestsWhilePaused = signal(0)
/** Number of events that this page was too slow to receive. */
export const missedEvents = signal(0)
export const notices = signal<readonly Notice[]>([])
export const selectedNumber = signal<number | null>(null)
/** Name of the event log that is shown instead of live requests. */
export const fileName = signal<string | null>(null)
/** Incremented when events arrive, because the model itself is changed in place. */
const changes = signal(0)
/** The current time of the page, in ms since the Unix epoch. */
export const now = signal(Date.now())

/** Live requests; also updated while a file is shown. */
let liveModel = new WireModel()
let shownModel = liveModel

/** Returns the model that is shown: live requests, or an event log. A component that calls it is rendered again when events arrive. */
export function currentModel(): WireModel {
  // reading a signal subscribes the component to it
  void changes.value
  return shownModel
}

export function isShown(request: WireRequest): boolean {
  if (pausedAt.value !== null && request.at > pausedAt.value) return false
  if (errorsOnly.value && findProblem(request) === null) return false
  const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean)
  if (words.length === 0) return true
  const { database, path, statements } = request
  const text = [database, path, findProblem(request) ?? '', ...statements.map(({ sql }) => sql)]
    .join('\n')
    .toLowerCase()
  return words.every((word) => text.includes(word))
}

/** Returns the period on the timeline. */
export function visiblePeriod(): { readonly from: number; readonly to: number; readonly now: number } {
  const isFile = fileName.value !== null
  const end = isFile ? findLastTime(shownModel) : (pausedAt.value ?? now.value)
  const totalMs = getTotalMs(end)
  const length = range.value === 'all' ? totalMs : Number(range.value) * 1_000
  const back = canMove() ? (1 - position.value / 1_000) * (totalMs - length) : 0
  return { from: end - back - length, to: end - back, now: end }
}

/** Whether the timeline shows only part of a fixed period, and can be moved. */
export function canMove(): boolean {
  const isFile = fileName.value !== null
  if (range.value === 'all' || (!isFile && pausedAt.value === null)) return false
  return (
    Number(range.value) * 1_000 <
    getTotalMs(isFile ? findLastTime(shownModel) : (pausedAt.value ?? now.value))
  )
}

function getTotalMs(end: number): number {
  const first = shownModel.requests.values().next().value?.at ?? end - 1_000
  return Math.max(end - first, 1_000) * 1.02
}

function findLastTime({ requests, spans }: WireModel): number {
  let last = 0
  for (const { at, end } of requests.values()) last = Math.max(last, end ?? at)
  for (const { begin, end } of spans) last = Math.max(last, end ?? begin)
  return last
}

export function togglePause(): void {
  batch(() => {
    pausedAt.value = pausedAt.value === null ? Date.now() : null
    requestsWhilePaused.value = 0
    position.value = 1_000
  })
}

/** Shows an event log instead of live requests. */
export async function openFile(file: File | undefined): Promise<void> {
  if (file === undefined) return
  const { model, events, skipped } = await readEventLog(file)
  if (events === 0) {
    status.value = `${file.name} has no events with a timestamp; see "The request inspector" in the documentation`
    return
  }
  batch(() => {
    shownModel = model
    fileName.value = file.name
    pausedAt.value = null
    range.value = 'all'
    selectedNumber.value = null
    changes.value += 1
    const skippedText = skipped > 0 ? `, ${formatCount(skipped, 'line')} skipped` : ''
    status.value = `${formatCount(events, 'event')} from ${file.name}${skippedText}`
  })
}

export function returnToLive(): void {
  batch(() => {
    shownModel = liveModel
    fileName.value = null
    range.value = '30'
    selectedNumber.value = null
    changes.value += 1
    status.value = ''
  })
}

function applyEvent(event: FeedEvent): void {
  if (event.type === 'hello') {
    const wasLive = shownModel === liveModel
    liveModel = new WireModel()
    if (wasLive) shownModel = liveModel
    notices.value = []
    serverVersion.value = event.version
  } else if (event.type === 'missed') missedEvents.value += event.count
  else if (event.type === 'notice') notices.value = [...notices.value, event]
  else if (event.type === 'response') liveModel.end(event)
  else {
    liveModel.begin(event)
    if (pausedAt.value !== null) requestsWhilePaused.value += 1
  }
}

/** Connects to the server, and updates the time. */
export function start(): void {
  const events = new EventSource('/_baton/events')
  events.addEventListener('open', () => {
    connection.value = 'open'
  })
  events.addEventListener('error', () => {
    connection.value = 'lost'
  })
  events.addEventListener('message', ({ data }) => {
    batch(() => {
      for (const event of JSON.parse(String(data)) as FeedEvent[]) applyEvent(event)
      changes.value += 1
      // a request that began after the last update would be outside of the visible period
      updateTime()
    })
  })
  setInterval(() => {
    // even while the page is hidden, so that expired streams are removed
    liveModel.closeExpiredStreams(Date.now())
    updateTime()
  }, UPDATE_INTERVAL_MS)
}

function updateTime(): void {
  if (!document.hidden) now.value = Date.now()
}
