import * as v from 'valibot'

export const Integer = v.pipe(v.number(), v.integer())

/** An ISO 8601 timestamp with a time zone. */
export const Time = v.pipe(v.string(), v.isoTimestamp())
