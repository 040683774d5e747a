/** Largest text, blob or row, in bytes, as the service has it. */
export const MAX_VALUE_BYTES = 5_000_000
