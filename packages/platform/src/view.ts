/** An object of a response, with its original form as a non-enumerable property. */
export interface Raw {
  /** The object as sent by the service. */
  readonly raw: Readonly<Record<string, unknown>>
}

type JsonObject = Readonly<Record<string, unknown>>

export const isObject = (value: unknown): value is JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** Adds `raw` to an object, in place of a field of this name. */
export const withRaw = <T>(view: object, raw: JsonObject): T =>
  Object.defineProperty(view, 'raw', { value: raw, enumerable: false }) as T

/**
 * Converts the keys of an object to camel case at all depths, and adds `raw` to each object. Unknown fields and values are kept.
 * @param opaque keys, in camel case, of user data that is not converted
 */
export function toView<T>(raw: JsonObject, opaque: readonly string[] = []): T {
  const names = new Set(Object.keys(raw))
  const entries: [string, unknown][] = []
  for (const [name, value] of Object.entries(raw)) {
    const key = camelCase(name)
    // if the object also has the camel-case key, this field is only in `raw`
    if (key !== name && names.has(key)) continue
    entries.push([key, opaque.includes(key) ? value : convert(value, opaque)])
  }
  return withRaw(Object.fromEntries(entries), raw)
}

function convert(value: unknown, opaque: readonly string[]): unknown {
  if (Array.isArray(value)) return value.map((item) => convert(item, opaque))
  return isObject(value) ? toView(value, opaque) : value
}

/** Converts names such as `DbId`, `block_reads`, `OrganizationID`, `ID` and `primaryRegion` to camel case. */
function camelCase(name: string): string {
  if (/^[A-Z]+$/.test(name)) return name.toLowerCase()
  return name
    .replace(/([a-z\d])ID$/, '$1Id')
    .replace(/(?<=[a-zA-Z\d])_+([a-zA-Z\d])/g, (_, letter: string) => letter.toUpperCase())
    .replace(/^[A-Z]/, (letter) => letter.toLowerCase())
}

/**
 * Converts keys of objects to snake case, also of nested ones that are not in arrays, and dates to ISO 8601. Undefined fields are omitted.
 * @throws TypeError for an invalid date
 */
export function toBody(input: object): Record<string, unknown> {
  const fields = Object.entries(input).filter(([, value]) => value !== undefined)
  return Object.fromEntries(fields.map(([name, value]) => [snakeCase(name), encode(value, name)]))
}

/** Like `toBody`, but returns undefined if the result is empty. */
export function toOptionalBody(input: object): Record<string, unknown> | undefined {
  const body = toBody(input)
  return Object.keys(body).length > 0 ? body : undefined
}

const snakeCase = (name: string): string => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)

function encode(value: unknown, name: string): unknown {
  if (value instanceof Date) {
    if (Number.isNaN(value.valueOf())) throw new TypeError(`${name} is an invalid date`)
    return value.toISOString()
  }
  return isObject(value) ? toBody(value) : value
}

/** Copies the JSON of an object that is sent later: until then, its owner may change it. */
export const copyJson = <T extends object>(value: T): T => JSON.parse(JSON.stringify(value)) as T
