/* Writes the rows of a table as INSERT statements that recreate the same values. */
#include <float.h>
#include <stdio.h>
#include <string.h>
#include "output.h"
#include "sqlite3.h"

#define MARK_BYTES 32

static void putHex(const unsigned char *bytes, size_t length){
  static const char HEX[] = "0123456789abcdef";
  PUT("X'");
  for(size_t i = 0; i < length; i++){
    output[outputLength++] = HEX[bytes[i] >> 4];
    output[outputLength++] = HEX[bytes[i] & 15];
  }
  PUT("'");
}

static int contains(const unsigned char *text, size_t length, const char *piece){
  size_t size = strlen(piece);
  for(size_t i = 0; i + size <= length; i++) if( memcmp(text + i, piece, size) == 0 ) return 1;
  return 0;
}

/*
** Returns the smallest number n for which the text does not contain `(<first>n)`, or -1 if out of memory. Reads the
** text only once.
*/
static int freeNumber(const unsigned char *text, size_t length, const char *first){
  size_t size = strlen(first), most = length / (size + 3) + 1;
  unsigned char *isTaken = sqlite3_malloc64(most + 1);
  int number = 0;
  if( !isTaken ) return -1;
  memset(isTaken, 0, most + 1);
  for(size_t i = 0; i + size + 3 <= length; i++){
    if( text[i] != '(' || memcmp(text + i + 1, first, size) ) continue;
    size_t begin = i + 1 + size, end = begin, value = 0;
    for(; end < length && end < begin + 9 && text[end] >= '0' && text[end] <= '9'; end++){
      value = value * 10 + (text[end] - '0');
    }
    int isNumber = end > begin && end < length && text[end] == ')' && (text[begin] != '0' || end == begin + 1);
    if( isNumber && value <= most ) isTaken[value] = 1;
  }
  while( isTaken[number] ) number++;
  sqlite3_free(isTaken);
  return number;
}

/* Chooses a placeholder for a line break that does not occur in the text. Returns 0 if out of memory. */
static int chooseMark(const unsigned char *text, size_t length, const char *first, const char *second, char *mark){
  snprintf(mark, MARK_BYTES, "%s", first);
  if( !contains(text, length, mark) ) return 1;
  snprintf(mark, MARK_BYTES, "%s", second);
  if( !contains(text, length, mark) ) return 1;
  int number = freeNumber(text, length, first);
  snprintf(mark, MARK_BYTES, "(%s%d)", first, number);
  return number >= 0;
}

/* Whether the text can be written in a statement: it has no U+0000 and no malformed UTF-8. */
static int isPlain(const unsigned char *text, size_t length){
  for(size_t i = 0; i < length; ){
    if( text[i] == 0 ) return 0;
    int size = text[i] < 0x80 ? 1 : sequenceLength(text + i, length - i);
    if( size <= 0 ) return 0;
    i += size;
  }
  return 1;
}

static int putText(const unsigned char *text, size_t length){
  if( !isPlain(text, length) ){
    if( !reserve(2 * length + 64) ) return SQLITE_NOMEM;
    PUT("CAST(");
    putHex(text, length);
    PUT(" AS TEXT)");
    return SQLITE_OK;
  }
  char feed[MARK_BYTES] = "", ret[MARK_BYTES] = "";
  if( memchr(text, '\n', length) && !chooseMark(text, length, "\\n", "\\012", feed) ) return SQLITE_NOMEM;
  if( memchr(text, '\r', length) && !chooseMark(text, length, "\\r", "\\015", ret) ) return SQLITE_NOMEM;
  size_t size = 128;
  for(size_t i = 0; i < length; i++){
    size += text[i] == '\n' ? strlen(feed) : text[i] == '\r' ? strlen(ret) : text[i] == '\'' ? 2 : 1;
  }
  if( !reserve(size) ) return SQLITE_NOMEM;
  if( *feed ) PUT("replace(");
  if( *ret ) PUT("replace(");
  PUT("'");
  for(size_t i = 0; i < length; i++){
    if( text[i] == '\n' ) put(feed, strlen(feed));
    else if( text[i] == '\r' ) put(ret, strlen(ret));
    else{
      if( text[i] == '\'' ) output[outputLength++] = '\'';
      output[outputLength++] = text[i];
    }
  }
  PUT("'");
  if( *ret ){ PUT(",'"); put(ret, strlen(ret)); PUT("',char(13))"); }
  if( *feed ){ PUT(",'"); put(feed, strlen(feed)); PUT("',char(10))"); }
  return SQLITE_OK;
}

/*
** Writes a finite number with at most 20 digits, as sqlite3 does in dumps: libsql-server rounds the shortest digits of some numbers
** differently. The largest number has 17 digits: with more, libsql-server reads it as infinite.
*/
static void putExactFloat(double value){
  char digits[64];
  snprintf(digits, sizeof(digits), "%.*g", value == DBL_MAX || value == -DBL_MAX ? 17 : 20, value);
  put(digits, strlen(digits));
  if( !strpbrk(digits, ".e") ) PUT(".0");
}

static int putLiteral(sqlite3_stmt *statement, int column){
  if( !reserve(128) ) return SQLITE_NOMEM;
  switch( sqlite3_column_type(statement, column) ){
    case SQLITE_NULL: PUT("NULL"); return SQLITE_OK;
    case SQLITE_INTEGER: putInteger(sqlite3_column_int64(statement, column)); return SQLITE_OK;
    case SQLITE_FLOAT: {
      double value = sqlite3_column_double(statement, column);
      if( value - value != 0 ){
        if( value > 0 ) PUT("9e999");
        else PUT("-9e999");
      }else putExactFloat(value);
      return SQLITE_OK;
    }
    case SQLITE_TEXT: {
      const unsigned char *text = sqlite3_column_text(statement, column);
      int length = sqlite3_column_bytes(statement, column);
      return text || !length ? putText(text, length) : SQLITE_NOMEM;
    }
    default: {
      const unsigned char *bytes = sqlite3_column_blob(statement, column);
      int length = sqlite3_column_bytes(statement, column);
      if( (!bytes && length) || !reserve(128 + 2 * (size_t)length) ) return SQLITE_NOMEM;
      putHex(bytes, length);
      return SQLITE_OK;
    }
  }
}

/*
** Steps until the statement is done or the output has more than `limit` bytes. Each row becomes a line: `prefix`, the
** values in parentheses, a semicolon.
*/
int baton_dump_rows(sqlite3_stmt *statement, const char *prefix, int limit){
  size_t prefixLength = strlen(prefix);
  outputLength = 0;
  for(;;){
    int result = sqlite3_step(statement);
    if( result != SQLITE_ROW ) return result;
    if( !reserve(prefixLength + 64) ) return SQLITE_NOMEM;
    put(prefix, prefixLength);
    PUT("(");
    for(int i = 0; i < sqlite3_column_count(statement); i++){
      if( i > 0 ) output[outputLength++] = ',';
      result = putLiteral(statement, i);
      if( result != SQLITE_OK ) return result;
    }
    if( !reserve(8) ) return SQLITE_NOMEM;
    PUT(");\n");
    if( (int)outputLength > limit ) return SQLITE_ROW;
  }
}
