import type { Readable } from 'node:stream'
import { readBytes } from './body.ts'
import { createJsonItemCounter } from './json-item-counter.ts'

const MEBIBYTE = 1_024 ** 2
/** Maximum size of a request body, in bytes. */
const MAX_BODY_BYTES = readSetting('BATON_MAX_BODY_MIB', 64) * MEBIBYTE
/** Memory that a byte of a body takes: its text is parsed, encoded again and copied to the engine. */
const BYTE_COST = 8
/** Memory that a value takes in addition, with its part of the response. */
const ITEM_COST = 1_000
/** Maximum memory of all requests, which suffices for one of the largest and many small ones. */
const MAX_TOTAL_BYTES = Math.max(1_024 * MEBIBYTE, 2 * BYTE_COST * MAX_BODY_BYTES)
/** Maximum number of values in a body: parsing them takes about half a second, during which no other request is handled. */
const MAX_ITEMS = 500_000

interface BodyLimits {
  readonly bodyBytes: number
  readonly totalBytes: number
  readonly items: number
}

const LIMITS: BodyLimits = { bodyBytes: MAX_BODY_BYTES, totalBytes: MAX_TOTAL_BYTES, items: MAX_ITEMS }

/** Thrown for a request body that is not received completely, because it is too large or because too many others are in memory. */
export class BodyError extends Error {
  override readonly name = 'BodyError'
  readonly status: 413 | 503

  constructor(status: 413 | 503, message: string) {
    super(message)
    this.status = status
  }
}

/** Estimated memory of the requests in progress. */
const heldBytes = new Map<Readable, number>()
let totalBytes = 0

/** Reads a request body completely. Its memory counts as used until it is released. @throws BodyError while reading */
export function readRequestBody(body: Readable, limits = LIMITS): Promise<Buffer> {
  const countItems = createJsonItemCounter()
  let size = 0
  // a rejected body is not destroyed, because the response uses the same connection
  return readBytes(body, (part) => {
    size += part.length
    const items = countItems(part)
    hold(body, size * BYTE_COST + items * ITEM_COST)
    return findBodyRejection(size, items, limits) ?? findRejection(limits)
  })
}

function hold(body: Readable, bytes: number): void {
  totalBytes += bytes - (heldBytes.get(body) ?? 0)
  heldBytes.set(body, bytes)
}

/** Counts more memory that a request takes until its body is released. @throws BodyError if others leave too little */
export function holdMoreMemory(body: Readable, bytes: number): void {
  hold(body, (heldBytes.get(body) ?? 0) + bytes)
  const rejection = findRejection(LIMITS)
  if (rejection !== null) throw rejection
}

/** Called when a request is complete. */
export function releaseBodyMemory(body: Readable): void {
  hold(body, 0)
  heldBytes.delete(body)
}

function findBodyRejection(size: number, items: number, limits: BodyLimits): BodyError | null {
  if (size > limits.bodyBytes)
    return new BodyError(
      413,
      `the request body is too large: the limit is ${limits.bodyBytes / MEBIBYTE} MiB, which BATON_MAX_BODY_MIB changes`,
    )
  if (items > limits.items)
    return new BodyError(
      413,
      `the request body has more than ${limits.items.toLocaleString('en')} values; send it in several requests`,
    )
  return null
}

function findRejection({ totalBytes: limit }: BodyLimits): BodyError | null {
  if (totalBytes <= limit) return null
  return new BodyError(
    503,
    'the server is receiving too many large requests at the same time; send it again later',
  )
}

function readSetting(name: string, standard: number): number {
  const value = process.env[name]
  if (value === undefined) return standard
  if (!/^[1-9]\d{0,3}$/.test(value)) throw new Error(`${name} must be a number of MiB from 1 to 9999`)
  return Number(value)
}
