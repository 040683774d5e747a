/* Compiled in one file with SQLite, because it accesses the internals of a connection. */

static u64 flagsAtOpening = 0;

/* Must be called when a connection has been opened; all are opened in the same way. */
void baton_opened(sqlite3 *connection){ flagsAtOpening = connection->flags; }

/*
** Resets changes(), total_changes() and last_insert_rowid() to their values on a new connection. Returns 0 if the
** connection still differs from a new one: a setting was changed, a database was attached, or a temporary one was
** created.
*/
int baton_reset(sqlite3 *connection){
  connection->nChange = 0;
  connection->nTotalChange = 0;
  connection->lastRowid = 0;
  return connection->flags == flagsAtOpening && connection->nDb == 2 && connection->aDb[1].pBt == 0;
}
