/* What the host program provides; the other half is `src/embedded/engine/host-imports.ts`. */
#ifndef BATON_HOST_H
#define BATON_HOST_H

#define HOST_IMPORT(name) __attribute__((import_module("host"), import_name(name)))

/* Answers of host_write. */
#define HOST_FULL 2

/* A descriptor, or -1 when there is no such file or the name is not allowed. */
HOST_IMPORT("open") int host_open(const char *path, int create);
HOST_IMPORT("close") void host_close(int descriptor);
/* Bytes read, or -1. */
HOST_IMPORT("read") int host_read(int descriptor, void *into, int count, double offset);
/* 0, 1 for an error, HOST_FULL for a full disk. */
HOST_IMPORT("write") int host_write(int descriptor, const void *from, int count, double offset);
HOST_IMPORT("truncate") int host_truncate(int descriptor, double size);
HOST_IMPORT("sync") int host_sync(int descriptor);
/* Bytes, or -1. */
HOST_IMPORT("size") double host_size(int descriptor);
HOST_IMPORT("delete") int host_delete(const char *path);
HOST_IMPORT("exists") int host_exists(const char *path);
HOST_IMPORT("random") void host_random(void *into, int count);
/* Milliseconds since 1970, without a fraction. */
HOST_IMPORT("time") double host_time(void);
/* Writes a number as the wire has it; answers the length, at most 32. */
HOST_IMPORT("float") int host_float(double value, char *into);
/* Asked every few thousand instructions: other than 0 ends the statement with SQLITE_INTERRUPT. */
HOST_IMPORT("interrupted") int host_interrupted(void);

#endif
