/*
** Copying nothing is allowed from and to any address in C, and SQLite does it, behind the end of a value for instance.
** The instructions of WebAssembly fail then when the address lies outside of the memory.
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
