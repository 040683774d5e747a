/*
** SQLite copies zero bytes from and to arbitrary addresses, for example after the end of a value. WebAssembly's
** instructions trap if such an address is outside the memory, so they are skipped for a count of zero.
*/
#include <stddef.h>
#include <stdint.h>

void *memcpy(void *into, const void *from, size_t count){
  return count == 0 ? into : __builtin_memcpy(into, from, count);
}

void *memmove(void *into, const void *from, size_t count){
  return count == 0 ? into : __builtin_memmove(into, from, count);
}

void *memset(void *into, int byte, size_t count){
  return count == 0 ? into : __builtin_memset(into, byte, count);
}

#define PAGE_BYTES 65536

/*
** Replaces the libc's function, which adds the 64 KB that malloc asks for: V8 counts each growth as garbage to be collected, so that
** a large statement took longer to allocate than to execute. Adds at least an eighth, and less only near the maximum.
*/
void *sbrk(intptr_t increment){
  static uintptr_t end = 0;
  uintptr_t pages = __builtin_wasm_memory_size(0);
  if( end == 0 ) end = pages * PAGE_BYTES;
  uintptr_t free = pages * PAGE_BYTES - end;
  if( increment > 0 && (uintptr_t)increment > free ){
    uintptr_t needed = ((uintptr_t)increment - free + PAGE_BYTES - 1) / PAGE_BYTES;
    uintptr_t ample = needed > pages / 8 ? needed : pages / 8;
    if( __builtin_wasm_memory_grow(0, ample) == SIZE_MAX && __builtin_wasm_memory_grow(0, needed) == SIZE_MAX ){
      return (void*)-1;
    }
  }
  void *begin = (void*)end;
  if( increment > 0 ) end += (uintptr_t)increment;
  return begin;
}
