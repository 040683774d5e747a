/*
** Reports the changes that a connection makes. Compiled in one file with SQLite, which calls `baton_savepoint` and
** `baton_checkpointing` (`source-changes.mjs`).
*/
#include "host.h"

/* Returns the number of open savepoints, including that of the running statement. */
static int savepointsOf(const sqlite3 *connection){ return connection->nSavepoint + connection->nStatement; }

static void rowChanged(void *connection, int action, const char *database, const char *table, sqlite3_int64 rowid){
  (void)database; (void)rowid;
  host_changed(connection, action, table, savepointsOf(connection));
}

static int rowsCommitting(void *connection){
  host_committing(connection);
  return 0;
}

/* Called when a savepoint of a client or of a statement is released or rolled back; index -1 is the whole transaction. */
void baton_savepoint(sqlite3 *connection, int operation, int index){
  if( connection->xUpdateCallback ) host_savepoint(connection, index, operation == SAVEPOINT_ROLLBACK);
}

/* Called by a checkpoint when it has read the header of the log. */
void baton_checkpointing(void){ host_checkpointing(); }

/* Starts or stops reporting every changed row, every savepoint that ends, and every commit to the host. */
void baton_watch(sqlite3 *connection, int isWatched){
  sqlite3_update_hook(connection, isWatched ? rowChanged : 0, connection);
  sqlite3_commit_hook(connection, isWatched ? rowsCommitting : 0, connection);
}
