/* Says what a connection changes, for those who listen. */
#include "host.h"
#include "sqlite3.h"

static void changed(void *connection, int action, const char *database, const char *table, sqlite3_int64 rowid){
  (void)database; (void)rowid;
  host_changed(connection, action, table);
}

static int committing(void *connection){
  host_committing(connection);
  return 0;
}

/* Has the host told of every row that is changed, and of every commit, or no longer. */
void baton_watch(sqlite3 *connection, int isWatched){
  sqlite3_update_hook(connection, isWatched ? changed : 0, connection);
  sqlite3_commit_hook(connection, isWatched ? committing : 0, connection);
}
