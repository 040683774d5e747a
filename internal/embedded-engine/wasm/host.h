/* What the host program provides; the other half is `src/engine/engine-instance.ts`. */
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

/* Asked when a statement is compiled for somebody who may not do everything: one of SQLITE_READ, SQLITE_CREATE_TABLE, … */
HOST_IMPORT("permits") int host_permits(int action, const char *first, const char *second);

/*
** A database is open for writing in one instance of the engine, and for reading in some others, each with its own index
** of the write-ahead log. A writer moves the log to the file only while no reader reads.
*/
/* 1 when nobody reads, and nobody can begin to until host_admit_readers. */
HOST_IMPORT("exclude_readers") int host_exclude_readers(void);
HOST_IMPORT("admit_readers") void host_admit_readers(void);
/* Whether all of the log is in the file: readers that begin now need not, and must not, look into the log. */
HOST_IMPORT("log_is_moved") void host_log_is_moved(int isMoved);
/* 1, or 0 while readers are excluded. */
HOST_IMPORT("begin_reading") int host_begin_reading(void);
HOST_IMPORT("end_reading") void host_end_reading(void);
HOST_IMPORT("sleep") void host_sleep(int milliseconds);

/* A watched connection changes a row: one of SQLITE_INSERT, SQLITE_DELETE, SQLITE_UPDATE, its table, and the open savepoints. */
HOST_IMPORT("changed") void host_changed(const void *connection, int action, const char *table, int savepoints);
/* A watched connection undoes or keeps what was changed since its savepoint of this index; undoing does not end it. */
HOST_IMPORT("savepoint") void host_savepoint(const void *connection, int index, int isUndone);
/* A watched connection commits what it has changed. */
HOST_IMPORT("committing") void host_committing(const void *connection);

#endif
