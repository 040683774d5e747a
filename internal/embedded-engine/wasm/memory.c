/*
** SQLite copies zero bytes from and to arbitrary addresses, for example after the end of a value. WebAssembly's
** instructions trap if such an address is outside the memory, so they are skipped for a count of zero.
*/
#include <stddef.h>

void *memcpy(void *into, const void *from, size_t count){
  return count == 0 ? into : __builtin_memcpy(into, from, count);
}

void *memmove(void *into, const void *from, size_t count){
  return count == 0 ? into : __builtin_memmove(into, from, count);
}

void *memset(void *into, int byte, size_t count){
  return count == 0 ? into : __builtin_memset(into, byte, count);
}
