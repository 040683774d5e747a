import { findSqld } from '@batonsql/local-server/sqld'

/** Whether libsql-server can run on this machine. */
export const hasSqld = await findSqld().then(
  () => true,
  () => false,
)
