/** How long a transaction may hold the write lock before a waiting writer takes it over, in ms. */
export const TRANSACTION_WINDOW_MS = 5_000

/** Time after which the server closes a stream without requests, in ms. */
export const STREAM_IDLE_MS = 10_000

/** Default time limit of a call, in ms. In a queue of writers, a call to libsql-server takes up to 27 s. */
export const REQUEST_TIMEOUT_MS = 30_000

/** Default number of concurrent reads, and of concurrent writes, of one client; a libsql-server serves 128 streams in all. */
export const DEFAULT_CONCURRENCY = 64

/** Default number of calls that may be queued. */
export const QUEUE_LIMIT = 10_000

/** How long a read waits for a replica before the client asks for its index, and how often it asks, in ms. */
export const REPLICA_WAIT_MS = 2_000

/** Fraction of a transaction's time limit after which the transaction is reported as expiring. */
export const EXPIRING_FRACTION = 0.8

/** Maximum length of the server's text that an error keeps, in characters. */
export const ERROR_TEXT_LENGTH = 4_096

/** Default number of retries of one call, and number of retries of a batch of a restore. */
export const MAX_RETRIES = 2

/** Maximum number of consecutive retries of the calls of one client; ten successful calls restore one. */
export const RETRY_BUDGET = 10

/** Delay before the first retry, in ms. */
export const RETRY_DELAY_MS = 50

/** Number of characters after which a script continues in another request. */
export const SCRIPT_REQUEST_LENGTH = 1_000_000

/** How long closing a client waits for requests that may hold the write lock and for its streams to close, in ms. */
export const CLOSE_TIMEOUT_MS = 2_000

/**
 * How long an aborted request may take to finish, in ms. Long enough for the response to a request that acquires the write
 * lock, and short enough that an endless statement does not keep the lock: the server ends it when the connection closes.
 */
export const ABORTED_REQUEST_MS = 1_000

/**
 * Maximum number of write transactions that one client sends to the server at a time: the running one and the next, to avoid a
 * pause between them.
 */
export const MAX_WRITE_TRANSACTIONS = 2

/** How long a transaction waits for a write permit of its client by default, in ms. */
export const WRITE_LOCK_TIMEOUT_MS = 60_000

/** How long an idle connection is kept open, in ms: shorter than the limits of servers and gateways. */
export const KEEP_ALIVE_MS = 4_000

/** Maximum number of statements in one coalesced request; the server runs them one after the other. */
export const MAX_COALESCED_STATEMENTS = 16

/** Maximum number of characters of JSON in one coalesced request; a longer statement is sent alone. */
export const MAX_COALESCED_CHARACTERS = 262_144

/** Maximum size of a text, a blob or a row, in bytes. */
export const MAX_VALUE_BYTES = 5_000_000
