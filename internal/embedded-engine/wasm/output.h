/* The text that a call hands over to the host program. */
#ifndef BATON_OUTPUT_H
#define BATON_OUTPUT_H

#include <stddef.h>
#include "sqlite3.h"

extern unsigned char *output;
extern size_t outputLength;

/* Makes room for so many bytes more; 0 when there is no memory. */
int reserve(size_t more);
void put(const char *text, size_t length);
/* Without a call: the size is a constant. */
#define PUT(literal) \
  (__builtin_memcpy(output + outputLength, literal, sizeof(literal) - 1), (void)(outputLength += sizeof(literal) - 1))
void putInteger(sqlite3_int64 value);
/* Writes a number as the wire has it, in at most 32 bytes; answers their count. */
int putFloat(double value);

/* Length of the well-formed sequence that begins here, or the negative length of the malformed one; 0 cut off. */
int sequenceLength(const unsigned char *at, size_t left);

#endif
