/* Opens connections configured like those of libsql-server, and enforces the permissions of each statement. */
#include <stdlib.h>
#include <string.h>
#include "host.h"
#include "sqlite3.h"

#define INSTRUCTIONS_BETWEEN_CHECKS 4000

int RegisterExtensionFunctions(sqlite3*);
int sqlite3_regexp_init(sqlite3*, char**, const void*);
int sqlite3_series_init(sqlite3*, char**, const void*);
int sqlite3_shathree_init(sqlite3*, char**, const void*);
int sqlite3_uuid_init(sqlite3*, char**, const void*);
void baton_opened(sqlite3*);
int baton_is_allowed(const char*);
void baton_keep_allowed(sqlite3*);

/* Permissions of the statement that is being compiled or executed. */
static int mayWrite = 0;
static int mayAttach = 0;
static int mayConfigure = 0;
static int isRestricted = 0;
static int wasDenied = 0;

void baton_grant(int write, int attach, int configure, int restricted){
  mayWrite = write;
  mayAttach = attach;
  mayConfigure = configure;
  isRestricted = restricted;
  wasDenied = 0;
}

/* Returns whether any action of the last statement was denied. */
int baton_was_denied(void){ return wasDenied; }

static int isOneOf(const char *name, const char *const *names){
  for(; *names; names++) if( sqlite3_stricmp(*names, name) == 0 ) return 1;
  return 0;
}

/* Checked here because pragmas can also be called as tables, which a check of the SQL text would miss. */
static int isAllowedPragma(const char *name, const char *argument){
  static const char *const NEVER[] = {
    "optimize", "incremental_vacuum", "wal_checkpoint", "shrink_memory", "key", "rekey", "hexkey", "hexrekey",
    "textkey", "textrekey", 0 };
  static const char *const WITH_ARGUMENT[] = {
    "table_list", "table_info", "table_xinfo", "index_list", "index_info", "index_xinfo", "foreign_key_list",
    "foreign_key_check", "foreign_keys", "defer_foreign_keys", "integrity_check", "quick_check", "user_version",
    "legacy_file_format", "collation_list", "data_version", "freelist_count", "page_count", "stats", "encoding",
    "function_list", "module_list", "pragma_list", "compile_options", "database_list", 0 };
  if( mayConfigure ) return 1;
  if( isOneOf(name, NEVER) ) return 0;
  return !argument || isOneOf(name, WITH_ARGUMENT);
}

/* Extensions are not compiled in; this is the service's error. */
static void loadExtension(sqlite3_context *context, int count, sqlite3_value **values){
  (void)count; (void)values;
  sqlite3_result_error(context, "not authorized", -1);
}

static int authorize(void *data, int action, const char *a, const char *b, const char *c, const char *d){
  (void)data; (void)c; (void)d;
  if( isRestricted && !host_permits(action, a ? a : "", b ? b : "") ){
    wasDenied = 1;
    return SQLITE_DENY;
  }
  switch( action ){
    case SQLITE_SELECT: case SQLITE_READ: case SQLITE_RECURSIVE: case SQLITE_TRANSACTION: case SQLITE_SAVEPOINT:
      return SQLITE_OK;
    case SQLITE_PRAGMA:
      if( isAllowedPragma(a, b) ) return SQLITE_OK;
      break;
    case SQLITE_FUNCTION:
      if( b && baton_is_allowed(b) ) return SQLITE_OK;
      break;
    case SQLITE_DETACH:
      return SQLITE_OK;
    case SQLITE_ATTACH:
      if( mayAttach ) return SQLITE_OK;
      break;
    /* R-trees compile changes to their own tables even for reads; whether the user's statement changes anything is
    ** determined from the compiled statement */
    case SQLITE_INSERT: case SQLITE_UPDATE: case SQLITE_DELETE:
      /* writing raw pages could change any schema */
      if( sqlite3_stricmp(a, "sqlite_dbpage") != 0 ) return SQLITE_OK;
      break;
    default:
      if( mayWrite ) return SQLITE_OK;
  }
  wasDenied = 1;
  return SQLITE_DENY;
}

static int isInterrupted(void *data){ (void)data; return host_interrupted(); }

static void databaseName(sqlite3_context *context, int count, sqlite3_value **values){
  (void)count; (void)values;
  sqlite3_result_text(context, (const char*)sqlite3_user_data(context), -1, SQLITE_TRANSIENT);
}

/* Opens a connection to a file, or returns null. `name` is the result of libsql_server_database_name(). */
sqlite3 *baton_open(const char *path, const char *name, int readOnly){
  static int isPrepared = 0;
  sqlite3 *connection = 0;
  if( !isPrepared ){
    sqlite3_config(SQLITE_CONFIG_STMTJRNL_SPILL, -1); /* there are no temporary files */
    if( sqlite3_initialize() != SQLITE_OK ) return 0;
    isPrepared = 1;
  }
  int flags = readOnly ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE;
  if( sqlite3_open_v2(path, &connection, flags, "host") != SQLITE_OK ){
    sqlite3_close_v2(connection);
    return 0;
  }
  sqlite3_extended_result_codes(connection, 1);
  RegisterExtensionFunctions(connection);
  sqlite3_regexp_init(connection, 0, 0);
  sqlite3_series_init(connection, 0, 0);
  sqlite3_shathree_init(connection, 0, 0);
  sqlite3_uuid_init(connection, 0, 0);
  baton_keep_allowed(connection);
  sqlite3_create_function_v2(connection, "libsql_server_database_name", 0,
      SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_INNOCUOUS, strdup(name), databaseName, 0, 0, free);
  sqlite3_create_function_v2(connection, "load_extension", 1, SQLITE_UTF8, 0, loadExtension, 0, 0, 0);
  sqlite3_create_function_v2(connection, "load_extension", 2, SQLITE_UTF8, 0, loadExtension, 0, 0, 0);
  sqlite3_set_authorizer(connection, authorize, 0);
  sqlite3_progress_handler(connection, INSTRUCTIONS_BETWEEN_CHECKS, isInterrupted, 0);
  baton_opened(connection);
  return connection;
}

/* Binds text in memory from malloc, which the statement then owns, even if binding fails. */
int baton_bind_text(sqlite3_stmt *statement, int number, char *text, int length){
  return sqlite3_bind_text64(statement, number, text, length, free, SQLITE_UTF8);
}

int baton_bind_blob(sqlite3_stmt *statement, int number, void *bytes, int length){
  return sqlite3_bind_blob64(statement, number, bytes, length, free);
}
