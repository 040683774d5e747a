import { TABLE_ACTIONS } from '@batonsql/server-common/hrana'
import * as v from 'valibot'

export const Integer = v.pipe(v.number(), v.integer())

/** An ISO 8601 timestamp with a time zone. */
export const Time = v.pipe(v.string(), v.isoTimestamp())

/** Permissions for tables, with the names of the platform API: `t`, the tables (all if there are none), and `a`, the actions. */
export const TablePermissions = v.array(
  v.object({ t: v.nullish(v.array(v.string())), a: v.array(v.picklist(TABLE_ACTIONS)) }),
)
