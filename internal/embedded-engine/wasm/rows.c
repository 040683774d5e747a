/* Runs a statement and writes its rows as JSON in the wire format, many at a time; most results need only one call. */
#include <float.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include "output.h"
#include "sqlite3.h"
#ifdef __wasm_simd128__
#include <wasm_simd128.h>
#endif

/* Return codes of baton_rows in addition to SQLite's own. */
#define ROWS_VALUE_TOO_BIG 1001
#define ROWS_TEXT_NOT_UTF8 1002

static int rowCount = 0;
/* Size of the last result as libsql-server counts it: columns and values as JSON, with raw blobs and unescaped text. */
static size_t resultSize = 0;
static int badTextIndex = 0;
static int badTextLength = 0;

/* Returns the number of rows in the output of the last call. */
int baton_row_count(void){ return rowCount; }
/* Returns the size of the last result that counts towards the limit of a response. */
int baton_result_size(void){ return resultSize > INT_MAX ? INT_MAX : (int)resultSize; }
/* Position and length of the malformed bytes in the last text that was not UTF-8; length 0 if it is incomplete. */
int baton_bad_text_index(void){ return badTextIndex; }
int baton_bad_text_length(void){ return badTextLength; }

int sequenceLength(const unsigned char *at, size_t left){
  unsigned char first = at[0];
  int length = first >= 0xc2 && first <= 0xdf ? 2 : first >= 0xe0 && first <= 0xef ? 3
      : first >= 0xf0 && first <= 0xf4 ? 4 : 0;
  if( length == 0 ) return -1;
  unsigned char low = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
  unsigned char high = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
  for(int i = 1; i < length; i++){
    if( (size_t)i >= left ) return 0;
    if( at[i] < low || at[i] > high ) return -i;
    low = 0x80;
    high = 0xbf;
  }
  return length;
}

#ifdef __wasm_simd128__
/* Returns the number of bytes before the first one that is not copied unchanged. */
static int plainBytes(v128_t bytes){
  v128_t isOther = wasm_v128_or(
      wasm_i8x16_lt(bytes, wasm_i8x16_splat(0x20)), /* also those from 0x80 on, which are negative */
      wasm_v128_or(wasm_i8x16_eq(bytes, wasm_i8x16_splat('"')), wasm_i8x16_eq(bytes, wasm_i8x16_splat('\\'))));
  return __builtin_ctz(wasm_i8x16_bitmask(isOther) | 1 << 16);
}

/* Returns the Base64 digits of the first twelve bytes. */
static v128_t base64Digits(v128_t bytes){
  /* each group of three bytes becomes four lanes of six bits */
  v128_t in = wasm_i8x16_shuffle(bytes, bytes, 1, 0, 2, 1, 4, 3, 5, 4, 7, 6, 8, 7, 10, 9, 11, 10);
  v128_t sixBits = wasm_v128_or(
      wasm_v128_or(wasm_v128_and(wasm_u32x4_shr(in, 10), wasm_i32x4_splat(0x0000003f)),
                   wasm_v128_and(wasm_i32x4_shl(in, 4), wasm_i32x4_splat(0x00003f00))),
      wasm_v128_or(wasm_v128_and(wasm_u32x4_shr(in, 6), wasm_i32x4_splat(0x003f0000)),
                   wasm_v128_and(wasm_i32x4_shl(in, 8), wasm_i32x4_splat(0x3f000000))));
  /* the offset to the digit: 0 for a to z, 1 to 10 for 0 to 9, 11 for +, 12 for /, 13 for A to Z */
  const v128_t OFFSETS = wasm_i8x16_const('a' - 26, -4, -4, -4, -4, -4, -4, -4, -4, -4, -4, '+' - 62, '/' - 63, 'A', 0, 0);
  v128_t isUpper = wasm_i8x16_lt(sixBits, wasm_i8x16_splat(26));
  v128_t kind = wasm_v128_or(wasm_u8x16_sub_sat(sixBits, wasm_i8x16_splat(51)), wasm_v128_and(isUpper, wasm_i8x16_splat(13)));
  return wasm_i8x16_add(sixBits, wasm_i8x16_swizzle(OFFSETS, kind));
}
#endif

/* Writes quoted text; returns 0 if it is not UTF-8. Six bytes are reserved for each byte of the text. */
static int putText(const unsigned char *text, size_t length){
  static const char HEX[] = "0123456789abcdef";
  unsigned char *to = output + outputLength;
  *to++ = '"';
  for(size_t i = 0; i < length; ){
#ifdef __wasm_simd128__
    if( length - i >= 16 ){
      v128_t bytes = wasm_v128_load(text + i);
      size_t plain = plainBytes(bytes);
      wasm_v128_store(to, bytes);
      to += plain;
      i += plain;
      if( plain == 16 ) continue;
    }
#endif
    unsigned char c = text[i];
    if( c >= 0x80 ){
      int sequence = sequenceLength(text + i, length - i);
      if( sequence <= 0 ){
        badTextIndex = (int)i;
        badTextLength = -sequence;
        return 0;
      }
      while( sequence-- > 0 ) *to++ = text[i++];
      continue;
    }
    i++;
    if( c >= 0x20 && c != '"' && c != '\\' ){ *to++ = c; continue; }
    *to++ = '\\';
    switch( c ){
      case '"': case '\\': *to++ = c; break;
      case '\b': *to++ = 'b'; break;
      case '\f': *to++ = 'f'; break;
      case '\n': *to++ = 'n'; break;
      case '\r': *to++ = 'r'; break;
      case '\t': *to++ = 't'; break;
      default:
        memcpy(to, "u00", 3);
        to[3] = HEX[c >> 4];
        to[4] = HEX[c & 15];
        to += 5;
    }
  }
  *to++ = '"';
  outputLength = to - output;
  return 1;
}

static void putBase64(const unsigned char *bytes, size_t length){
  static const char DIGITS[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  unsigned char *to = output + outputLength;
  size_t i = 0;
#ifdef __wasm_simd128__
  for(; i + 16 <= length; i += 12, to += 16) wasm_v128_store(to, base64Digits(wasm_v128_load(bytes + i)));
#endif
  for(; i + 2 < length; i += 3){
    unsigned group = bytes[i] << 16 | bytes[i + 1] << 8 | bytes[i + 2];
    *to++ = DIGITS[group >> 18];
    *to++ = DIGITS[group >> 12 & 63];
    *to++ = DIGITS[group >> 6 & 63];
    *to++ = DIGITS[group & 63];
  }
  if( i < length ){
    unsigned group = bytes[i] << 16 | (i + 1 < length ? bytes[i + 1] << 8 : 0);
    *to++ = DIGITS[group >> 18];
    *to++ = DIGITS[group >> 12 & 63];
    if( i + 1 < length ) *to++ = DIGITS[group >> 6 & 63];
  }
  outputLength = to - output;
}

/* Length of a number without an exponent, as libsql-server counts it: 1e20 has 21 digits, 1.0 has one. */
static size_t plainLength(const char *text, int length){
  int sign = text[0] == '-', digits = 0, point = -1, zeros = 0, exponent = 0, i = sign;
  if( text[0] == 'n' ) return 3; /* null, which libsql-server writes as "inf" */
  for(; i < length && text[i] != 'e'; i++){
    if( text[i] == '.' ){ point = digits; continue; }
    zeros = text[i] == '0' ? zeros + 1 : 0;
    digits++;
  }
  if( point < 0 ) point = digits;
  if( i < length ) for(int j = i + 1 + (text[i + 1] == '-'); j < length; j++) exponent = exponent * 10 + text[j] - '0';
  if( i < length && text[i + 1] == '-' ) exponent = -exponent;
  digits -= zeros;
  if( text[sign] == '0' && digits > 0 ){
    /* 0.05: leading zeros do not count as digits */
    for(i = sign; text[i] == '0' || text[i] == '.'; i++) if( text[i] == '0' ){ digits--; point--; }
  }
  if( digits <= 0 ) return sign + 1;
  point += exponent;
  return sign + (point >= digits ? point : point > 0 ? digits + 1 : 2 - point + digits);
}

/* Returns the size of a column's name and declared type in JSON. */
static size_t columnSize(sqlite3_stmt *statement, int column){
  const char *name = sqlite3_column_name(statement, column);
  const char *type = sqlite3_column_decltype(statement, column);
  return strlen("{'name':'','decltype':''}") + (name ? strlen(name) : 0) + strlen(type ? type : "null");
}

static int putValue(sqlite3_stmt *statement, int column, int maxBytes){
  int length;
  size_t begin = outputLength;
  if( !reserve(128) ) return SQLITE_NOMEM;
  switch( sqlite3_column_type(statement, column) ){
    case SQLITE_NULL:
      PUT("{\"type\":\"null\"}");
      resultSize += outputLength - begin;
      return SQLITE_OK;
    case SQLITE_INTEGER:
      PUT("{\"type\":\"integer\",\"value\":\"");
      putInteger(sqlite3_column_int64(statement, column));
      PUT("\"}");
      resultSize += outputLength - begin;
      return SQLITE_OK;
    case SQLITE_FLOAT: {
      double value = sqlite3_column_double(statement, column);
      PUT("{\"type\":\"float\",\"value\":");
      length = putFloat(value);
      resultSize += strlen("{'type':'real','value':''}") + plainLength((char*)output + outputLength - length, length);
      if( value < -DBL_MAX ) resultSize++; /* -inf */
      PUT("}");
      return SQLITE_OK;
    }
    case SQLITE_TEXT: {
      const unsigned char *text = sqlite3_column_text(statement, column);
      length = sqlite3_column_bytes(statement, column);
      if( length > maxBytes ) return ROWS_VALUE_TOO_BIG;
      if( (!text && length) || !reserve(128 + 6 * (size_t)length) ) return SQLITE_NOMEM;
      PUT("{\"type\":\"text\",\"value\":");
      if( !putText(text, length) ) return ROWS_TEXT_NOT_UTF8;
      resultSize += strlen("{'type':'text','value':''}") + length;
      PUT("}");
      return SQLITE_OK;
    }
    default: {
      const unsigned char *bytes = sqlite3_column_blob(statement, column);
      length = sqlite3_column_bytes(statement, column);
      if( length > maxBytes ) return ROWS_VALUE_TOO_BIG;
      if( (!bytes && length) || !reserve(128 + 2 * (size_t)length) ) return SQLITE_NOMEM;
      PUT("{\"type\":\"blob\",\"base64\":\"");
      putBase64(bytes, length);
      resultSize += length;
      PUT("\"}");
      return SQLITE_OK;
    }
  }
}

/*
** Steps until the statement is done or the limit is exceeded. Returns SQLITE_DONE, SQLITE_ROW if there may be more rows,
** or an error code. With `asLines`, each row is written as a line of a cursor, until the output exceeds `limit` bytes.
** Otherwise rows are separated by commas, until the size of the result exceeds `limit`. A value longer than `maxBytes`
** is rejected.
*/
int baton_rows(sqlite3_stmt *statement, int limit, int asLines, int maxBytes){
  outputLength = 0;
  rowCount = 0;
  resultSize = 0;
  int columns = sqlite3_column_count(statement);
  if( !asLines ) for(int i = 0; i < columns; i++) resultSize += columnSize(statement, i);
  if( (sqlite3_int64)resultSize > limit ) return SQLITE_ROW;
  for(;;){
    int result = sqlite3_step(statement);
    if( result != SQLITE_ROW ) return result;
    columns = sqlite3_column_count(statement); /* a recompiled statement can have different columns */
    if( !reserve(64) ) return SQLITE_NOMEM;
    if( asLines ) PUT("{\"type\":\"row\",\"row\":[");
    else if( rowCount > 0 ) PUT(",[");
    else PUT("[");
    rowCount++;
    for(int i = 0; i < columns; i++){
      if( i > 0 ) output[outputLength++] = ',';
      result = putValue(statement, i, maxBytes);
      if( result != SQLITE_OK ) return result;
      if( !asLines && (sqlite3_int64)resultSize > limit ) return SQLITE_ROW;
    }
    if( !reserve(8) ) return SQLITE_NOMEM;
    if( asLines ) PUT("]}\n");
    else PUT("]");
    if( asLines && (int)outputLength > limit ) return SQLITE_ROW;
  }
}
