#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "host.h"
#include "output.h"

#define MAX_DECIMALS 6

unsigned char *output = 0;
size_t outputLength = 0;
static size_t outputCapacity = 0;

void *baton_output(void){ return output; }
int baton_output_length(void){ return (int)outputLength; }

int reserve(size_t bytes){
  size_t needed = outputLength + bytes;
  if( needed <= outputCapacity ) return 1;
  size_t capacity = outputCapacity ? outputCapacity : 65536;
  while( capacity < needed ) capacity += capacity / 2;
  unsigned char *resized = realloc(output, capacity);
  if( !resized ) return 0;
  output = resized;
  outputCapacity = capacity;
  return 1;
}

void put(const char *text, size_t length){
  memcpy(output + outputLength, text, length);
  outputLength += length;
}

void putInteger(sqlite3_int64 value){
  char digits[24];
  int at = sizeof(digits);
  sqlite3_uint64 left = value < 0 ? 0 - (sqlite3_uint64)value : (sqlite3_uint64)value;
  do{ digits[--at] = '0' + left % 10; left /= 10; }while( left );
  if( value < 0 ) digits[--at] = '-';
  put(digits + at, sizeof(digits) - at);
}

/*
** Writes a number with few decimals, using the shortest digits that are parsed as the same number. Two numbers of at most
** 15 digits are never parsed as the same double, so the first one that is parsed as this number is the shortest. Returns 0
** if there is none.
*/
static int putDecimal(double value){
  double magnitude = fabs(value), scale = 1;
  if( !(magnitude < 1e15) || (magnitude < 1e-5 && magnitude != 0) ) return 0;
  for(int decimals = 0; decimals <= MAX_DECIMALS && magnitude * scale < 1e15; decimals++, scale *= 10){
    sqlite3_int64 digits = (sqlite3_int64)(magnitude * scale + 0.5);
    if( (double)digits / scale != magnitude ) continue;
    sqlite3_int64 unit = (sqlite3_int64)scale, fraction = digits % unit;
    if( signbit(value) ) PUT("-");
    putInteger(digits / unit);
    if( decimals == 0 ) decimals = 1;
    output[outputLength] = '.';
    for(int i = decimals; i > 0; i--, fraction /= 10) output[outputLength + i] = '0' + fraction % 10;
    outputLength += decimals + 1;
    return 1;
  }
  return 0;
}

int putFloat(double value){
  size_t begin = outputLength;
  if( !putDecimal(value) ) outputLength += host_float(value, (char*)output + outputLength);
  return (int)(outputLength - begin);
}

/* Frees the memory of an unusually large result. */
void baton_shrink_output(void){
  if( outputCapacity <= 4u << 20 ) return;
  free(output);
  output = 0;
  outputLength = outputCapacity = 0;
}
