/* Functions that the host program provides; `src/engine/engine-instance.ts` implements them. */
#ifndef BATON_HOST_H
#define BATON_HOST_H

#define HOST_IMPORT(name) __attribute__((import_module("host"), import_name(name)))

/* Return codes of host_write. */
#define HOST_FULL 2

/* Returns a descriptor, or -1 if the file does not exist or the name is not allowed. */
HOST_IMPORT("open") int host_open(const char *path, int create);
HOST_IMPORT("close") void host_close(int descriptor);
/* Returns the number of bytes read, or -1. */
HOST_IMPORT("read") int host_read(int descriptor, void *into, int count, double offset);
/* Returns 0, 1 for an error, or HOST_FULL for a full disk. */
HOST_IMPORT("write") int host_write(int descriptor, const void *from, int count, double offset);
HOST_IMPORT("truncate") int host_truncate(int descriptor, double size);
HOST_IMPORT("sync") int host_sync(int descriptor);
/* Returns the size in bytes, or -1. */
HOST_IMPORT("size") double host_size(int descriptor);
HOST_IMPORT("delete") int host_delete(const char *path);
HOST_IMPORT("exists") int host_exists(const char *path);
HOST_IMPORT("random") void host_random(void *into, int count);
/* Returns whole milliseconds since 1970. */
HOST_IMPORT("time") double host_time(void);
/* Writes a number in the wire format. Returns its length, at most 32. */
HOST_IMPORT("float") int host_float(double value, char *into);
/* Called every few thousand instructions; any result other than 0 ends the statement with SQLITE_INTERRUPT. */
HOST_IMPORT("interrupted") int host_interrupted(void);

/* Called when a statement is compiled with limited permissions; `action` is SQLITE_READ, SQLITE_CREATE_TABLE, … */
HOST_IMPORT("permits") int host_permits(int action, const char *first, const char *second);

/* A checkpoint has read the header of the log and has not yet copied the log. Tests let other connections write here. */
HOST_IMPORT("checkpointing") void host_checkpointing(void);

/* A watched connection changes a row; `action` is SQLITE_INSERT, SQLITE_DELETE or SQLITE_UPDATE. */
HOST_IMPORT("changed") void host_changed(const void *connection, int action, const char *table, int savepoints);
/* A watched connection undoes or keeps the changes since the savepoint with this index; undoing does not end it. */
HOST_IMPORT("savepoint") void host_savepoint(const void *connection, int index, int isUndone);
/* A watched connection commits its changes. */
HOST_IMPORT("committing") void host_committing(const void *connection);

#endif
