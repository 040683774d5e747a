#include <stdlib.h>
#include <string.h>
#include "output.h"

unsigned char *output = 0;
size_t outputLength = 0;
static size_t outputCapacity = 0;

void *baton_output(void){ return output; }
int baton_output_length(void){ return (int)outputLength; }

int reserve(size_t more){
  size_t needed = outputLength + more;
  if( needed <= outputCapacity ) return 1;
  size_t capacity = outputCapacity ? outputCapacity : 65536;
  while( capacity < needed ) capacity += capacity / 2;
  unsigned char *grown = realloc(output, capacity);
  if( !grown ) return 0;
  output = grown;
  outputCapacity = capacity;
  return 1;
}

void put(const char *text, size_t length){
  memcpy(output + outputLength, text, length);
  outputLength += length;
}

/* Frees the memory of an unusually large result. */
void baton_shrink_output(void){
  if( outputCapacity <= 4u << 20 ) return;
  free(output);
  output = 0;
  outputLength = outputCapacity = 0;
}
