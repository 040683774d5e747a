/* Compiled in one piece with SQLite, whose connection it looks into. */

/* Makes a connection look as if nothing had been changed through it: what changes(), total_changes() and
** last_insert_rowid() answer. */
void baton_reset(sqlite3 *connection){
  connection->nChange = 0;
  connection->nTotalChange = 0;
  connection->lastRowid = 0;
}
