/* Compiled in one piece with SQLite, whose connection it looks into. */

static u64 flagsAtOpening = 0;

/* To be called when a connection has been opened; all are opened in the same way. */
void baton_opened(sqlite3 *connection){ flagsAtOpening = connection->flags; }

/*
** Makes a connection look as if nothing had been changed through it: what changes(), total_changes() and
** last_insert_rowid() answer. Answers 0 when a later client could still notice an earlier one: a setting was changed,
** a database attached, a temporary one made.
*/
int baton_reset(sqlite3 *connection){
  connection->nChange = 0;
  connection->nTotalChange = 0;
  connection->lastRowid = 0;
  return connection->flags == flagsAtOpening && connection->nDb == 2 && connection->aDb[1].pBt == 0;
}
