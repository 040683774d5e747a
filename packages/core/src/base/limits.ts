/** Time a transaction may hold the write lock before a waiting writer takes it, in ms (specification, section 8). */
export const TRANSACTION_WINDOW_MS = 5_000

/** Time after which the server closes a stream without requests, in ms (specification, section 8). */
export const STREAM_IDLE_MS = 10_000

/** How long a buffered call may take in all, in ms. Behind a queue of writers the real server needs up to 27 s. */
export const REQUEST_TIMEOUT_MS = 30_000

/** Reads, and writes, of one client that are under way at once at most; a libsql-server serves 128 streams in all. */
export const CONCURRENCY = 64

/** Calls that may wait for their turn. */
export const QUEUE_LIMIT = 10_000

/** How long a replica gets to come to the state that the client has seen, in ms; it is some 25 ms behind at most. */
export const REPLICA_WAIT_MS = 2_000

/** Part of a transaction's time after which it is said to be expiring. */
export const EXPIRING_AT = 0.8

/** Longest server text kept on an error, in characters. */
export const ERROR_TEXT_LENGTH = 4_096

/** How often one call is sent again at most. */
export const MAX_RETRIES = 2

/** How many times in a row the calls of one client may be sent again; each ten that go well earn one back. */
export const RETRY_BUDGET = 10

/** Wait before the first repetition, in ms. */
export const RETRY_DELAY_MS = 50

/** How much of a script goes into one request, in characters. */
export const SCRIPT_REQUEST_LENGTH = 1_000_000

/** How long a closed client waits for requests that may hold the write lock, and for the end of its streams, in ms. */
export const CLOSE_TIMEOUT_MS = 2_000

/**
 * How long a request that was given up may take to finish, in ms. Long enough for the answer that brings a write lock, and not
 * so long that a statement without an end keeps it: the server ends that when the connection goes.
 */
export const GIVE_UP_LIMIT_MS = 1_000

/** Write transactions of one client that the server sees at once: one that runs, and the next, so that no time is lost. */
export const WRITE_TRANSACTIONS = 2

/** How long a transaction waits for its turn among those of its client, in ms. */
export const WRITE_LOCK_TIMEOUT_MS = 60_000

/** How long a connection stays open without a request, in ms: less than servers and gateways keep theirs. */
export const KEEP_ALIVE_MS = 4_000

/** Statements of one request that several calls share; they run one after the other there. */
export const COALESCED_STATEMENTS = 16

/** Characters of their JSON; a longer statement leaves by itself. */
export const COALESCED_CHARACTERS = 262_144
