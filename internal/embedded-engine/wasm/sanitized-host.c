/*
** Runs statements in the engine with the checks of a sanitizer. Reads one statement per line from standard input. It has
** no files.
*/
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "host.h"
#include "sqlite3.h"

#define MAX_LINE_BYTES 65536
#define MAX_ROWS 1000
/* Number of checks after which a statement is interrupted. */
#define MAX_CHECKS 20000

sqlite3 *baton_open(const char*, const char*, int);
void baton_grant(int, int, int, int);
int baton_rows(sqlite3_stmt*, int, int, int);

static int checks = 0;

int host_open(const char *path, int create){ (void)path; (void)create; return -1; }
void host_close(int descriptor){ (void)descriptor; }
int host_read(int descriptor, void *into, int count, double offset){
  (void)descriptor; (void)into; (void)count; (void)offset; return -1;
}
int host_write(int descriptor, const void *from, int count, double offset){
  (void)descriptor; (void)from; (void)count; (void)offset; return 1;
}
int host_truncate(int descriptor, double size){ (void)descriptor; (void)size; return 1; }
int host_sync(int descriptor){ (void)descriptor; return 1; }
double host_size(int descriptor){ (void)descriptor; return -1; }
int host_delete(const char *path){ (void)path; return 1; }
int host_exists(const char *path){ (void)path; return 0; }
void host_random(void *into, int count){ for(int i = 0; i < count; i++) ((char*)into)[i] = (char)rand(); }
double host_time(void){ return (double)time(0) * 1000; }
int host_float(double value, char *into){ return snprintf(into, 32, "%.17g", value); }
int host_interrupted(void){ return ++checks > MAX_CHECKS; }
int host_permits(int action, const char *first, const char *second){
  (void)action; (void)first; (void)second; return 1;
}
void host_checkpointing(void){}
void host_changed(const void *connection, int action, const char *table, int savepoints){
  (void)connection; (void)action; (void)table; (void)savepoints;
}
void host_savepoint(const void *connection, int index, int isUndone){
  (void)connection; (void)index; (void)isUndone;
}
void host_committing(const void *connection){ (void)connection; }

static int run(sqlite3 *connection, const char *sql){
  sqlite3_stmt *statement = 0;
  checks = 0;
  baton_grant(1, 0, 0, 0);
  int outcome = sqlite3_prepare_v3(connection, sql, -1, 0, &statement, 0);
  for(int row = 0; outcome == SQLITE_OK && row < MAX_ROWS; row++){
    outcome = sqlite3_step(statement) == SQLITE_ROW ? SQLITE_OK : SQLITE_DONE;
    if( outcome != SQLITE_OK ) break;
    for(int i = 0; i < sqlite3_column_count(statement); i++){
      const unsigned char *bytes = sqlite3_column_blob(statement, i);
      int length = sqlite3_column_bytes(statement, i);
      /* reads the value, so that a length beyond its memory is detected */
      if( length > 0 && bytes[0] + bytes[length - 1] < 0 ) return 1;
    }
  }
  return sqlite3_finalize(statement) != SQLITE_OK || statement == 0;
}

int main(void){
  static char line[MAX_LINE_BYTES];
  sqlite3 *connection = baton_open(":memory:", "fuzzed", 0);
  int statements = 0, failed = 0;
  if( !connection ) return 1;
  sqlite3_limit(connection, SQLITE_LIMIT_LENGTH, 5000000);
  while( fgets(line, sizeof(line), stdin) ){
    line[strcspn(line, "\n")] = 0;
    fprintf(stderr, "\n%s\n", line);
    statements++;
    failed += run(connection, line);
  }
  sqlite3_close_v2(connection);
  printf("%d statements, %d of them rejected\n", statements, failed);
  return 0;
}
