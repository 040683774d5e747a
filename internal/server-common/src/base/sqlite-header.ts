/** The beginning of every SQLite database file. */
export const SQLITE_HEADER = Buffer.from('SQLite format 3\0')
/** The beginning of a database file that the embedded server has open. Other programs do not recognize such a file as a database. */
export const IN_USE_MARK = Buffer.from('in use by Baton\0')
