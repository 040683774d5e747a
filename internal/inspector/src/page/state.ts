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

/** Changes a signal; lets an event handler be one expression. */
export function set<T>(target: Signal<T>, value: T): void {
  target.value = value
}

export const tab = signal<'requests' | 'data'>('requests')
export const connection = signal<'connecting' | 'connected' | 'not connected'>('connecting')
export const serverVersion = signal('')
export const status = signal('')
export const filter = signal('')
export const errorsOnly = signal(false)
/** Seconds on the timeline, or `all`. */
export const range = signal('30')
/** Position of the visible period while it is not live, from 0 (oldest) to 1,000 (latest). */
export const position = signal(1_000)
/** Time of the pause, in ms since the Unix epoch. */
export const pausedAt = signal<number | null>(null)
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
/** The content of an event log that is shown instead. */
let fileModel: WireModel | null = null

/** Returns the model that is shown: live requests, or an event log. A component that calls it is rendered again when events arrive. */
export function currentModel(): WireModel {
  // reading a signal subscribes the component to it
  void changes.value
  return fileModel ?? liveModel
}

const isNew = ({ at }: WireRequest): boolean => pausedAt.value !== null && at > pausedAt.value

/** Returns the number of requests that are not shown because they arrived after the pause. */
export function countNewRequests(): number {
  return [...currentModel().requests.values()].filter(isNew).length
}

export function isShown(request: WireRequest): boolean {
  if (isNew(request)) return false
  const problem = findProblem(request)
  if (errorsOnly.value && problem === null) return false
  if (filter.value === '') return true
  const { database, path, statements } = request
  const text = [database, path, problem, ...statements.map(({ sql }) => sql)].join('\n').toLowerCase()
  return filter.value
    .toLowerCase()
    .split(/\s+/)
    .every((word) => text.includes(word))
}

/** Returns the period on the timeline. */
export function visiblePeriod(): { readonly from: number; readonly to: number; readonly now: number } {
  const end = findEnd()
  const recordedMs = getRecordedMs(end)
  const length = range.value === 'all' ? recordedMs : Number(range.value) * 1_000
  const back = canMove() ? (1 - position.value / 1_000) * (recordedMs - length) : 0
  return { from: end - back - length, to: end - back, now: end }
}

/** Whether the timeline shows only part of a fixed period, and can be moved. */
export function canMove(): boolean {
  const isLive = fileName.value === null && pausedAt.value === null
  return !isLive && range.value !== 'all' && Number(range.value) * 1_000 < getRecordedMs(findEnd())
}

/** Returns the length of the period with requests, at least 1 s; 2 % longer, so that the first request is not at the edge. */
function getRecordedMs(end: number): number {
  const first = currentModel().requests.values().next().value?.at ?? end
  return Math.max(end - first, 1_000) * 1.02
}

/** Returns the end of the period that can be shown. */
function findEnd(): number {
  return fileName.value === null ? (pausedAt.value ?? now.value) : findLastTime(currentModel())
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
  const skippedText = skipped > 0 ? `, ${formatCount(skipped, 'line')} skipped` : ''
  showFile(model, file.name, 'all', `${formatCount(events, 'event')} from ${file.name}${skippedText}`)
}

export const returnToLive = (): void => showFile(null, null, '30', '')

function showFile(model: WireModel | null, name: string | null, newRange: string, newStatus: string): void {
  batch(() => {
    fileModel = model
    fileName.value = name
    pausedAt.value = null
    range.value = newRange
    position.value = 1_000
    selectedNumber.value = null
    changes.value += 1
    status.value = newStatus
  })
}

function applyEvent(event: FeedEvent): void {
  if (event.type === 'hello') {
    // the server repeats the events that it has kept; if it was restarted, its numbers begin at 1 again
    liveModel = new WireModel()
    if (fileModel === null) selectedNumber.value = null
    notices.value = []
    missedEvents.value = 0
    serverVersion.value = event.version
  } else if (event.type === 'missed') missedEvents.value += event.count
  else if (event.type === 'notice') notices.value = [...notices.value, event]
  else if (event.type === 'response') liveModel.end(event)
  else liveModel.begin(event)
}

/** Connects to the server, and updates the time. */
export function start(): void {
  const events = new EventSource('/_baton/events')
  events.addEventListener('open', () => set(connection, 'connected'))
  events.addEventListener('error', () => set(connection, 'not connected'))
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
