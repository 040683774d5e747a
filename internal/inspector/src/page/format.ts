import { realText } from '../csv-text.ts'
import type { Cell } from './database-client.ts'

/** Formats a time of day with milliseconds. @param at milliseconds since the Unix epoch */
export function formatClock(at: number): string {
  const date = new Date(at)
  const part = (value: number, digits = 2): string => String(value).padStart(digits, '0')
  return `${part(date.getHours())}:${part(date.getMinutes())}:${part(date.getSeconds())}.${part(date.getMilliseconds(), 3)}`
}

export function formatDuration(ms: number): string {
  if (ms >= 1_000) return `${(ms / 1_000).toFixed(2)} s`
  return ms >= 100 ? `${Math.round(ms)} ms` : `${ms.toFixed(1)} ms`
}

export function formatBytes(bytes: number): string {
  if (bytes < 1_024) return `${bytes} B`
  return bytes < 1_024 ** 2 ? `${(bytes / 1_024).toFixed(1)} KiB` : `${(bytes / 1_024 ** 2).toFixed(1)} MiB`
}

export const formatCount = (count: number, singular: string): string =>
  `${count} ${singular}${count === 1 ? '' : 's'}`

export const shorten = (text: string, length: number): string =>
  text.length > length ? `${text.slice(0, length - 1)}…` : text

export function valueText(cell: Exclude<Cell, { readonly type: 'blob' }>): string {
  if (cell.type === 'null') return 'NULL'
  return cell.type === 'float' ? realText(cell.value) : cell.value
}

export const toHex = (base64: string): string =>
  Array.from(atob(base64), (byte) => byte.charCodeAt(0).toString(16).padStart(2, '0')).join('')
