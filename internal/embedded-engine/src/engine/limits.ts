/** Maximum size of a string, blob or row in bytes, as in the service. */
export const MAX_VALUE_BYTES = 5_000_000
