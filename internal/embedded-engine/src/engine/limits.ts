/** Maximum size of a string, blob or row that a client sends or receives, in bytes, as in the service. */
export const MAX_VALUE_BYTES = 5_000_000
/** Larger than any string, blob or row that another program may have stored, in bytes: SQLite itself allows a billion. */
export const MAX_STORED_BYTES = 2 ** 30
