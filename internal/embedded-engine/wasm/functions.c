/* Compiled in one file with SQLite, because it accesses the internals of a connection. */
#include "allowed-functions.h"

static int compareName(const void *name, const void *entry){
  return sqlite3_stricmp(name, *(const char *const*)entry);
}

/* Whether SQL may call the function of this name. */
int baton_is_allowed(const char *name){
  return bsearch(name, ALLOWED, sizeof(ALLOWED) / sizeof(ALLOWED[0]), sizeof(ALLOWED[0]), compareName) != 0;
}

/*
** Removes all functions that are not allowed. The authorizer is not called for expressions that are already in a
** schema, such as those of CHECK or of an index; without the function, such an expression fails.
*/
void baton_keep_allowed(sqlite3 *connection){
  for(HashElem *entry = sqliteHashFirst(&connection->aFunc); entry; entry = sqliteHashNext(entry)){
    FuncDef *function = sqliteHashData(entry);
    if( baton_is_allowed(function->zName) ) continue;
    for(; function; function = function->pNext) function->xSFunc = 0;
  }
}
