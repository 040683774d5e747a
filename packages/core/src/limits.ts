/** Time a transaction may hold the write slot before a waiting writer takes it (specification, section 8). */
export const TRANSACTION_WINDOW_MS = 5_000

/** Time after which the server closes a stream without requests (specification, section 8). */
export const STREAM_IDLE_MS = 10_000
