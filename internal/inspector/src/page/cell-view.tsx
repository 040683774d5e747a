import type { JSX } from 'preact'
import type { Cell } from './database-client.ts'
import { formatBytes, toHex, valueText } from './format.ts'
import { copy } from './request-details.tsx'

const MAX_LIST_CHARACTERS = 200
/** Maximum number of bytes of a blob that are shown. */
const MAX_HEX_BYTES = 64 * 1_024

/** Formats a value as one line of a list. @param length its full length if it is truncated */
export function cellText(cell: Cell, length: number | null = null): string {
  if (cell.type === 'blob') return `blob, ${formatBytes(length ?? byteLength(cell.base64))}`
  if (cell.type !== 'text') return valueText(cell)
  const isTruncated = length !== null || cell.value.length > MAX_LIST_CHARACTERS
  return isTruncated ? `${cell.value.slice(0, MAX_LIST_CHARACTERS)}…` : cell.value
}

const byteLength = (base64: string): number => Math.floor((base64.replace(/=+$/, '').length * 3) / 4)

interface CellViewProps {
  readonly name: string
  readonly cell: Cell
  readonly onClose: () => void
}

/** Shows a value in full, except a blob of more than `MAX_HEX_BYTES`. */
export function CellView({ name, cell, onClose }: CellViewProps): JSX.Element {
  const text = fullText(cell)
  return (
    <section id="cell" class="panel" aria-label={`Value of ${name}`}>
      <div class="panel-head">
        <h2>{name}</h2>
        <p class="quiet">{kindText(cell)}</p>
        <button type="button" onClick={() => copy(text)}>
          Copy
        </button>
        <button type="button" aria-label="Close value" onClick={onClose}>
          ×
        </button>
      </div>
      <pre class="content">{text}</pre>
    </section>
  )
}

function kindText(cell: Cell): string {
  if (cell.type === 'text') return `text, ${cell.value.length.toLocaleString('en')} characters`
  if (cell.type !== 'blob') return cell.type
  const bytes = byteLength(cell.base64)
  return `blob, ${formatBytes(bytes)}${bytes > MAX_HEX_BYTES ? `, showing the first ${formatBytes(MAX_HEX_BYTES)}` : ''}`
}

const fullText = (cell: Cell): string => (cell.type === 'blob' ? formatHex(cell.base64) : valueText(cell))

/** Formats bytes as hexadecimal digits, 32 bytes per line. */
const formatHex = (base64: string): string =>
  toHex(base64.slice(0, Math.ceil(MAX_HEX_BYTES / 3) * 4))
    .slice(0, MAX_HEX_BYTES * 2)
    .replaceAll(/(..)(?=.)/g, '$1 ')
    .replaceAll(/(.{95}) /g, '$1\n')
