import * as v from 'valibot'

export const Integer = v.pipe(v.number(), v.integer())

/** A time in ISO 8601 with its zone. */
export const Time = v.pipe(v.string(), v.isoTimestamp())
