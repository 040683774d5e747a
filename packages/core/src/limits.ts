/** Time a transaction may hold the write slot before a waiting writer takes it, in ms (specification, section 8). */
export const TRANSACTION_WINDOW_MS = 5_000

/** Time after which the server closes a stream without requests, in ms (specification, section 8). */
export const STREAM_IDLE_MS = 10_000

/** How long a buffered call may take in all, in ms. Behind a queue of writers the real server needs up to 27 s. */
export const REQUEST_TIMEOUT_MS = 30_000

/** HTTP connections one client opens to one server at most; a libsql-server serves 128 streams in all. */
export const CONNECTIONS = 64

/** Longest server text kept on an error, in characters. */
export const ERROR_TEXT_LENGTH = 4_096

/** How often one call is sent again at most. */
export const MAX_RETRIES = 2

/** How many times in a row the calls of one client may be sent again; each ten that go well earn one back. */
export const RETRY_BUDGET = 10

/** Wait before the first repetition, in ms. */
export const RETRY_DELAY_MS = 50
