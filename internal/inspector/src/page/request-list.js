import { byId, bytesText, clockText, counted, durationText, element } from './elements.js'
import { problemOf } from './model.js'

/** @typedef {import('./model.js').WireRequest} WireRequest */

const MAX_ROWS = 500

/**
 * Describes the statements of a request in one line.
 * @param {WireRequest} request
 */
function lineOf({ statements, path }) {
  if (statements.length === 0) return path.endsWith('/pipeline') ? 'end of the stream' : path
  return statements
    .map(({ sql }) => sql.replaceAll(/\s+/g, ' ').trim())
    .join('; ')
    .slice(0, 400)
}

/** A table of requests, newest first, with details of the selected one. */
export class RequestList {
  #body = byId('rows')
  #details = byId('details')
  /** @type {Map<number, HTMLElement>} */
  #rows = new Map()
  /** @type {WireRequest | null} */
  #selected = null
  #copy

  /** @param {(text: string) => void} copy */
  constructor(copy) {
    this.#copy = copy
  }

  get selected() {
    return this.#selected
  }

  /**
   * Shows requests, given oldest first.
   * @param {readonly WireRequest[]} requests
   */
  show(requests) {
    this.#rows.clear()
    const rows = requests.slice(-MAX_ROWS).map((request) => this.#row(request))
    this.#body.replaceChildren(...rows.reverse())
    this.#mark()
    this.#showDetails()
  }

  /**
   * Shows a new or changed request.
   * @param {WireRequest} request
   */
  update(request) {
    const old = this.#rows.get(request.n)
    const hasFocus = old !== undefined && old === document.activeElement
    const row = this.#row(request)
    if (old === undefined) this.#body.prepend(row)
    else old.replaceWith(row)
    if (hasFocus) row.focus()
    while (this.#body.childElementCount > MAX_ROWS) {
      const last = this.#body.lastElementChild
      this.#rows.delete(Number(last?.getAttribute('data-n')))
      last?.remove()
    }
    this.#mark()
    if (request === this.#selected) this.#showDetails()
  }

  /** @param {WireRequest | null} request */
  select(request) {
    this.#selected = request
    this.#mark()
    this.#showDetails()
    if (request !== null) this.#rows.get(request.n)?.scrollIntoView({ block: 'nearest' })
  }

  copySelected() {
    const text = this.#selected?.statements.map(({ sql }) => sql).join(';\n')
    if (text) this.#copy(text)
  }

  #mark() {
    const chosen = this.#selected === null ? undefined : this.#rows.get(this.#selected.n)
    const stop = chosen ?? this.#body.firstElementChild
    for (const row of this.#rows.values()) {
      row.setAttribute('aria-selected', String(row === chosen))
      row.tabIndex = row === stop ? 0 : -1
    }
  }

  /**
   * Selects another row. Arrow keys work anywhere on the page, other keys only in the list.
   * @param {KeyboardEvent} event
   */
  onKey(event) {
    const focused = document.activeElement
    const row = focused instanceof HTMLElement && focused.parentElement === this.#body ? focused : null
    const isArrow = event.key === 'ArrowDown' || event.key === 'ArrowUp'
    if (row === null && !isArrow) return
    const chosen = this.#selected === null ? undefined : this.#rows.get(this.#selected.n)
    const from = row ?? chosen
    const target = {
      ArrowDown: from ? from.nextElementSibling : this.#body.firstElementChild,
      ArrowUp: from ? from.previousElementSibling : this.#body.firstElementChild,
      Home: this.#body.firstElementChild,
      End: this.#body.lastElementChild,
      Enter: row,
    }[event.key]
    if (!(target instanceof HTMLElement)) return
    event.preventDefault()
    target.focus()
    target.click()
  }

  /**
   * @param {WireRequest} request
   * @returns {HTMLElement}
   */
  #row(request) {
    const { n, at, end, database, stream, bytes, responseBytes, rows } = request
    const problem = problemOf(request)
    const count = request.statements.length + request.more
    const text = element('td', { class: 'sql' })
    if (problem !== null) text.append(element('span', { class: 'problem' }, problem))
    if (count > 1)
      text.append(element('span', { class: 'more', title: counted(count, 'statement') }, String(count)))
    text.append(element('code', {}, lineOf(request)))
    const row = element(
      'tr',
      { 'data-n': n, 'aria-selected': 'false', class: problem === null ? null : 'failed' },
      element('td', { class: 'time' }, clockText(at)),
      element('td', {}, database),
      element('td', { class: 'number' }, stream === null ? '' : `#${stream}`),
      text,
      element('td', { class: 'number' }, end === null ? 'running' : durationText(end - at)),
      element('td', { class: 'number' }, end === null ? '' : String(rows)),
      element('td', { class: 'number' }, end === null ? '' : bytesText(bytes + responseBytes)),
    )
    row.addEventListener('click', () => this.select(request))
    this.#rows.set(n, row)
    return row
  }

  #showDetails() {
    const request = this.#selected
    this.#details.hidden = request === null
    if (request === null) return
    const { at, end, database, method, path, stream, bytes, responseBytes, status, span, more } = request
    const facts = [
      ['Database', database],
      ['Request', `${method} ${path}`.trim()],
      ['Stream', stream === null ? 'none' : `#${stream}`],
      ['Transaction', span === null ? 'none' : `${span.state}, ${counted(span.trips, 'round trip')}`],
      ['Started', clockText(at)],
      ['Duration', end === null ? 'running' : durationText(end - at)],
      ['Status', String(status ?? (end === null ? '' : 'no response'))],
      ['Rows', `${request.rows} returned, ${request.rowsRead} read, ${request.rowsWritten} written`],
      ['Bytes', `${bytesText(bytes)} sent, ${bytesText(responseBytes)} received`],
    ]
    const list = element('dl')
    for (const [name = '', value = ''] of facts)
      list.append(element('dt', {}, name), element('dd', {}, value))
    const problem = problemOf(request)
    const close = element('button', { type: 'button', 'aria-label': 'Close details' }, '×')
    close.addEventListener('click', () => this.select(null))
    this.#details.replaceChildren(
      element('div', { class: 'details-head' }, element('h2', {}, 'Request'), close),
      ...(problem === null ? [] : [element('p', { class: 'problem' }, problem)]),
      ...request.statements.map((statement, index) =>
        this.#statement(statement.sql, request.outcomes[index]),
      ),
      ...(more > 0 ? [element('p', { class: 'quiet' }, `and ${counted(more, 'statement')} more`)] : []),
      list,
    )
  }

  /**
   * @param {string} sql
   * @param {import('./model.js').Outcome | undefined} outcome
   */
  #statement(sql, outcome) {
    const copy = element('button', { type: 'button', class: 'copy' }, 'Copy')
    copy.addEventListener('click', () => this.#copy(sql))
    const figure = element('div', { class: 'statement' }, element('pre', {}, element('code', {}, sql)), copy)
    if (outcome === 'skipped') figure.append(element('span', { class: 'quiet' }, 'skipped'))
    return figure
  }
}
