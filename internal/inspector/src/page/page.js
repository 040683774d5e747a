import { byId, clockText, counted, drawn, durationText, element } from './elements.js'
import { readEventLog } from './event-log.js'
import { problemOf, WINDOW_MS, WireModel } from './model.js'
import { RequestList } from './request-list.js'
import { drawTimeline } from './timeline.js'

/** @typedef {import('./model.js').WireRequest} WireRequest */

const FRAME_MS = 250

const filter = /** @type {HTMLInputElement} */ (byId('filter'))
const errorsOnly = /** @type {HTMLInputElement} */ (byId('errors-only'))
const range = /** @type {HTMLSelectElement} */ (byId('range'))
const position = /** @type {HTMLInputElement} */ (byId('position'))
const pauseButton = byId('pause')
const fileInput = /** @type {HTMLInputElement} */ (byId('file'))

let model = new WireModel()
/** Also updated while a file is shown. */
let live = model
/** Time of the pause, or null. */
let pausedAt = /** @type {number | null} */ (null)
let newWhilePaused = 0
let missed = 0
/** @type {Map<number, WireRequest>} changed requests since the last frame, by number */
const changed = new Map()

const list = new RequestList((text) => {
  navigator.clipboard.writeText(text).then(
    () => say('Copied'),
    () => say('Copying is not allowed by the browser'),
  )
})

/** @param {string} text */
function say(text) {
  byId('status').textContent = text
}

/** @param {WireRequest} request */
function isShown(request) {
  if (pausedAt !== null && request.at > pausedAt) return false
  if (errorsOnly.checked && problemOf(request) === null) return false
  const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean)
  if (words.length === 0) return true
  const texts = [
    request.database,
    request.path,
    problemOf(request) ?? '',
    ...request.statements.map(({ sql }) => sql),
  ]
  const text = texts.join('\n').toLowerCase()
  return words.every((word) => text.includes(word))
}

function showAll() {
  list.show([...model.requests.values()].filter(isShown))
  paint()
}

/** @param {any} event */
function take(event) {
  if (event.type === 'hello') {
    const wasFile = isFile()
    live = new WireModel()
    if (!wasFile) model = live
    byId('notices').replaceChildren()
    byId('version').textContent = String(event.version)
    return true
  }
  if (event.type === 'missed') {
    missed += Number(event.count)
    return false
  }
  if (event.type === 'notice') {
    showNotice(event)
    return false
  }
  const request = event.type === 'response' ? live.end(event) : begun(event)
  if (request && !isFile()) changed.set(request.n, request)
  return false
}

/** @param {{ at: number, database: string, text: string }} event event of the server of a database */
function showNotice({ at, database, text }) {
  byId('notices').append(element('li', {}, `${clockText(at)} ${database}: ${text}`))
  byId('notices-panel').hidden = false
}

/** @param {import('./model.js').RequestEvent} event */
function begun(event) {
  live.begin(event)
  if (pausedAt !== null) newWhilePaused += 1
  return live.requests.get(event.n)
}

/** Updates changed rows, or the whole list if that is cheaper. */
function showChanged() {
  const shown = [...changed.values()].filter(isShown)
  changed.clear()
  if (shown.length > 40) showAll()
  else for (const request of shown) list.update(request)
}

const isFile = () => model !== live

/** Returns the visible period: the last seconds, or the selection of the slider. */
function view() {
  const now = isFile() ? lastOf(model) : (pausedAt ?? Date.now())
  const first = model.requests.values().next().value?.at ?? now - 1_000
  const whole = Math.max(now - first, 1_000) * 1.02
  const length = range.value === 'all' ? whole : Number(range.value) * 1_000
  const isStill = isFile() || pausedAt !== null
  position.disabled = !isStill || length >= whole
  const back = position.disabled ? 0 : (1 - Number(position.value) / 1_000) * (whole - length)
  return { from: now - back - length, to: now - back, now }
}

/** @param {WireModel} model */
function lastOf({ requests, spans }) {
  let last = 0
  for (const { at, end } of requests.values()) last = Math.max(last, end ?? at)
  for (const { begin, end } of spans) last = Math.max(last, end ?? begin)
  return last
}

function paint() {
  const shown = view()
  const svg = byId('timeline')
  const width = Math.max(svg.parentElement?.clientWidth ?? 0, 320)
  const onSelect = (/** @type {WireRequest} */ request) => list.select(request)
  const { parts, height, spans } = drawTimeline(model, { ...shown, width, onSelect, isShown })
  svg.setAttribute('viewBox', `0 0 ${width} ${height}`)
  svg.setAttribute('height', String(height))
  svg.replaceChildren(drawn('title', {}, `${counted(spans, 'transaction')} on the time line`), ...parts)
  const count = byId('rows').childElementCount
  byId('empty').hidden = count > 0
  byId('count').textContent = `${counted(count, 'request')}${missed > 0 ? `, ${missed} events missed` : ''}`
  pauseButton.textContent =
    pausedAt === null ? 'Pause' : `Resume${newWhilePaused > 0 ? ` (${newWhilePaused} new)` : ''}`
  pauseButton.setAttribute('aria-pressed', String(pausedAt !== null))
  if (pausedAt === null) paintStreams(shown.now)
}

/** @param {number} now */
function paintStreams(now) {
  const streams = [...model.streams.values()]
  const open = streams.map((stream) => {
    const doing = stream.inFlight > 0 ? 'at work' : `idle ${durationText(Math.max(now - stream.lastAt, 0))}`
    const label = `${stream.database} #${stream.number}`
    return element(
      'li',
      {},
      element('b', {}, label),
      ` ${stream.span === null ? '' : 'in a transaction, '}${doing}`,
    )
  })
  byId('streams').replaceChildren(...(open.length > 0 ? open : [element('li', { class: 'quiet' }, 'none')]))
  byId('stream-count').textContent = String(open.length)
  const locks = [...model.holders.values()].map((span) => lockCard(span, now))
  byId('locks').replaceChildren(
    ...(locks.length > 0 ? locks : [element('p', { class: 'quiet' }, 'No stream holds a write lock.')]),
  )
}

/**
 * @param {import('./model.js').Span} span
 * @param {number} now
 */
function lockCard(span, now) {
  const held = now - (span.lockSince ?? span.begin)
  const waiters = model.waiters(span.database)
  const bar = element('progress', { max: WINDOW_MS, value: Math.min(held, WINDOW_MS) })
  bar.setAttribute('aria-label', `Time with the lock, of ${WINDOW_MS / 1_000} seconds`)
  const waiting = waiters.map((request) =>
    element(
      'li',
      {},
      element('b', {}, `#${request.stream}`),
      ` waits ${durationText(Math.max(now - request.at, 0))} `,
      element('code', {}, request.statements[0]?.sql.slice(0, 80) ?? ''),
    ),
  )
  return element(
    'div',
    { class: held > WINDOW_MS ? 'lock overdue' : 'lock' },
    element(
      'p',
      {},
      element('b', {}, `${span.database} #${span.stream}`),
      ` has the write lock for ${durationText(Math.max(held, 0))}`,
    ),
    bar,
    ...(waiting.length > 0
      ? [element('ul', { class: 'waiters' }, ...waiting)]
      : [element('p', { class: 'quiet' }, 'none waits')]),
  )
}

function togglePause() {
  pausedAt = pausedAt === null ? Date.now() : null
  newWhilePaused = 0
  position.value = '1000'
  showAll()
}

/** @param {File | undefined} file */
async function openFile(file) {
  if (file === undefined) return
  const { model: read, events, skipped } = await readEventLog(file)
  if (events === 0)
    return say(`${file.name} has no events with a time; see "The request inspector" in the documentation`)
  model = read
  pausedAt = null
  range.value = 'all'
  list.select(null)
  byId('source').textContent = file.name
  byId('back').hidden = false
  pauseButton.hidden = true
  say(
    `${counted(events, 'event')} of ${file.name}${skipped > 0 ? `, ${counted(skipped, 'line')} skipped` : ''}`,
  )
  paintStreams(lastOf(read))
  showAll()
}

function backToLive() {
  model = live
  range.value = '30'
  list.select(null)
  showSource()
  byId('back').hidden = true
  pauseButton.hidden = false
  fileInput.value = ''
  say('')
  showAll()
}

/** @param {KeyboardEvent} event */
function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return
  if (event.key === 'Escape') {
    if (event.target === filter) filter.blur()
    list.select(null)
    return
  }
  if (event.target instanceof HTMLInputElement || event.target instanceof HTMLSelectElement) return
  const action = {
    '/': () => filter.focus(),
    p: () => isFile() || togglePause(),
    c: () => list.copySelected(),
  }[event.key]
  if (action === undefined) return list.onKey(event)
  event.preventDefault()
  action()
}

filter.addEventListener('input', showAll)
errorsOnly.addEventListener('change', showAll)
range.addEventListener('change', paint)
position.addEventListener('input', paint)
pauseButton.addEventListener('click', togglePause)
byId('back').addEventListener('click', backToLive)
byId('open').addEventListener('click', () => fileInput.click())
fileInput.addEventListener('change', () => void openFile(fileInput.files?.[0]))
document.addEventListener('keydown', onKey)
document.addEventListener('dragover', (event) => event.preventDefault())
document.addEventListener('drop', (event) => {
  event.preventDefault()
  void openFile(event.dataTransfer?.files[0])
})

/** @param {'open' | 'lost'} connection */
function showConnection(connection) {
  document.body.dataset['connection'] = connection
  byId('connection').textContent = connection === 'open' ? 'connected' : 'not connected'
  if (!isFile()) showSource()
}

/** Shows whether requests are live. */
function showSource() {
  byId('source').textContent = document.body.dataset['connection'] === 'lost' ? 'not live' : 'live'
}

const events = new EventSource('/_baton/events')
events.addEventListener('open', () => showConnection('open'))
events.addEventListener('error', () => showConnection('lost'))
events.addEventListener('message', ({ data }) => {
  const isNew = JSON.parse(data).map(take).includes(true)
  if (isFile()) return
  if (isNew) changed.clear()
  if (isNew) showAll()
  else showChanged()
})
setInterval(() => {
  // also while the page is hidden, so that expired streams are removed
  live.settle(Date.now())
  if (!isFile() && pausedAt === null && !document.hidden) paint()
  else if (pausedAt !== null && newWhilePaused > 0) pauseButton.textContent = `Resume (${newWhilePaused} new)`
}, FRAME_MS)
addEventListener('resize', paint)
paint()
