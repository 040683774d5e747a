/* The text that a call passes to the host program. */
#ifndef BATON_OUTPUT_H
#define BATON_OUTPUT_H

#include <stddef.h>
#include "sqlite3.h"

extern unsigned char *output;
extern size_t outputLength;

/* Reserves space for more bytes. Returns 0 if out of memory. */
int reserve(size_t bytes);
void put(const char *text, size_t length);
/* Avoids a function call, because the size is a constant. */
#define PUT(literal) \
  (__builtin_memcpy(output + outputLength, literal, sizeof(literal) - 1), (void)(outputLength += sizeof(literal) - 1))
void putInteger(sqlite3_int64 value);
/* Writes a number in wire format, in at most 32 bytes; returns their number. */
int putFloat(double value);

/* Returns the length of a valid UTF-8 sequence, the negative length of an invalid one, or 0 for an incomplete one. */
int sequenceLength(const unsigned char *at, size_t left);

#endif
