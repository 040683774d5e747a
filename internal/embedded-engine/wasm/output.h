/* The text that a call passes to the host program. */
#ifndef BATON_OUTPUT_H
#define BATON_OUTPUT_H

#include <stddef.h>
#include "sqlite3.h"

extern unsigned char *output;
extern size_t outputLength;

/* Reserves space for this many more bytes. Returns 0 if out of memory. */
int reserve(size_t more);
void put(const char *text, size_t length);
#define PUT(literal) put(literal, sizeof(literal) - 1)
void putInteger(sqlite3_int64 value);

/* Returns the length of a valid UTF-8 sequence, the negative length of an invalid one, or 0 for an incomplete one. */
int sequenceLength(const unsigned char *at, size_t left);

#endif
