/*
** Says what a connection changes, for those who listen. Compiled in one piece with SQLite, which calls `baton_savepoint`
** (`source-changes.mjs`).
*/
#include "host.h"

/* How many savepoints are open, that of the running statement among them. */
static int savepointsOf(const sqlite3 *connection){ return connection->nSavepoint + connection->nStatement; }

static void rowChanged(void *connection, int action, const char *database, const char *table, sqlite3_int64 rowid){
  (void)database; (void)rowid;
  host_changed(connection, action, table, savepointsOf(connection));
}

static int rowsCommitting(void *connection){
  host_committing(connection);
  return 0;
}

/* A savepoint of a client or of a statement ends, -1 for the whole transaction, or goes back to its begin. */
void baton_savepoint(sqlite3 *connection, int operation, int index){
  if( connection->xUpdateCallback ) host_savepoint(connection, index, operation == SAVEPOINT_ROLLBACK);
}

/* Has the host told of every row that is changed, of every savepoint that ends, and of every commit, or no longer. */
void baton_watch(sqlite3 *connection, int isWatched){
  sqlite3_update_hook(connection, isWatched ? rowChanged : 0, connection);
  sqlite3_commit_hook(connection, isWatched ? rowsCommitting : 0, connection);
}
