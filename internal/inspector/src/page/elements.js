/**
 * Creates an element. Text children are inserted as text, never as HTML.
 * @param {string} tag
 * @param {Record<string, string | number | boolean | null>} [attributes] null and false omit an attribute
 * @param {...(Node | string)} children
 * @returns {HTMLElement}
 */
export function element(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children)
}

/**
 * Creates an SVG element.
 * @param {string} tag
 * @param {Record<string, string | number | boolean | null>} [attributes]
 * @param {...(Node | string)} children
 * @returns {SVGElement}
 */
export function drawn(tag, attributes = {}, ...children) {
  return fill(document.createElementNS('http://www.w3.org/2000/svg', tag), attributes, children)
}

/**
 * Returns the element with an id. It must exist.
 * @param {string} id
 * @returns {HTMLElement}
 */
export function byId(id) {
  const found = document.getElementById(id)
  if (found === null) throw new Error(`the page has no #${id}`)
  return found
}

/**
 * @template {Element} T
 * @param {T} made
 * @param {Record<string, string | number | boolean | null>} attributes
 * @param {(Node | string)[]} children
 * @returns {T}
 */
function fill(made, attributes, children) {
  for (const [name, value] of Object.entries(attributes))
    if (value !== null && value !== false) made.setAttribute(name, value === true ? '' : String(value))
  made.append(...children)
  return made
}

/**
 * Formats a time of day with milliseconds.
 * @param {number} at milliseconds since the Unix epoch
 */
export function clockText(at) {
  const date = new Date(at)
  const part = (/** @type {number} */ value, digits = 2) => String(value).padStart(digits, '0')
  return `${part(date.getHours())}:${part(date.getMinutes())}:${part(date.getSeconds())}.${part(date.getMilliseconds(), 3)}`
}

/** @param {number} ms */
export function durationText(ms) {
  if (ms >= 1_000) return `${(ms / 1_000).toFixed(2)} s`
  return ms >= 100 ? `${Math.round(ms)} ms` : `${ms.toFixed(1)} ms`
}

/** @param {number} bytes */
export function bytesText(bytes) {
  if (bytes < 1_024) return `${bytes} B`
  return bytes < 1_024 ** 2 ? `${(bytes / 1_024).toFixed(1)} KiB` : `${(bytes / 1_024 ** 2).toFixed(1)} MiB`
}

/**
 * @param {number} count
 * @param {string} one
 */
export function counted(count, one) {
  return `${count} ${one}${count === 1 ? '' : 's'}`
}
