/*
** The file system of the engine. Every call goes to the host program, which accepts only the names of a database and its
** journals. Locks and the index of the write-ahead log are kept here, because all connections that write to a database
** are in one instance of this module, and the server prevents a second process from using the directory.
**
** Files under ATTACHED_PREFIX are read-only copies of other databases that only this instance uses.
*/
#include <stdlib.h>
#include <string.h>
#include "host.h"
#include "sqlite3.h"

#define MAX_PATH_BYTES 512
#define ATTACHED_PREFIX "/attached/"
#define SHM_SLOTS SQLITE_SHM_NLOCK

/* State shared by the connections to one database file. */
typedef struct Shared Shared;
struct Shared {
  char *path;
  int isAttached;
  int references;
  int readers;          /* connections that hold SHARED or more */
  int reserved;         /* whether one holds RESERVED or more */
  int pending;          /* whether one waits for readers to finish */
  int exclusive;
  int regionCount;
  void **regions;       /* the index of the write-ahead log */
  int slotReaders[SHM_SLOTS];
  int slotWriter[SHM_SLOTS];
  Shared *next;
};

typedef struct File {
  sqlite3_file base;
  int descriptor;
  int level;            /* lock level of this connection */
  unsigned sharedSlots; /* bits of the slots this connection holds */
  unsigned exclusiveSlots;
  Shared *shared;       /* null for journals */
  char *deleteOnClose;
} File;

static Shared *databases = 0;

static int isAttachedPath(const char *path){
  return strncmp(path, ATTACHED_PREFIX, sizeof(ATTACHED_PREFIX) - 1) == 0;
}

static Shared *acquireShared(const char *path){
  Shared *shared = databases;
  while( shared && strcmp(shared->path, path) ) shared = shared->next;
  if( !shared ){
    shared = calloc(1, sizeof(Shared));
    if( !shared ) return 0;
    shared->path = strdup(path);
    if( !shared->path ){ free(shared); return 0; }
    shared->isAttached = isAttachedPath(path);
    shared->next = databases;
    databases = shared;
  }
  shared->references++;
  return shared;
}

static void freeRegions(Shared *shared){
  for(int i = 0; i < shared->regionCount; i++) free(shared->regions[i]);
  free(shared->regions);
  shared->regions = 0;
  shared->regionCount = 0;
}

static void releaseShared(Shared *shared){
  if( --shared->references > 0 ) return;
  Shared **link = &databases;
  while( *link != shared ) link = &(*link)->next;
  *link = shared->next;
  freeRegions(shared);
  free(shared->path);
  free(shared);
}

static int fileUnlock(sqlite3_file *base, int level){
  File *file = (File*)base;
  Shared *shared = file->shared;
  if( !shared || file->level <= level ) return SQLITE_OK;
  if( file->level >= SQLITE_LOCK_RESERVED ) shared->reserved = 0;
  if( file->level >= SQLITE_LOCK_PENDING ) shared->pending = 0;
  if( file->level == SQLITE_LOCK_EXCLUSIVE ) shared->exclusive = 0;
  if( level == SQLITE_LOCK_NONE ) shared->readers--;
  file->level = level;
  return SQLITE_OK;
}

static int fileLock(sqlite3_file *base, int level){
  File *file = (File*)base;
  Shared *shared = file->shared;
  if( !shared || file->level >= level ) return SQLITE_OK;
  if( shared->isAttached && level > SQLITE_LOCK_SHARED ) return SQLITE_BUSY;
  if( level == SQLITE_LOCK_SHARED ){
    if( shared->pending || shared->exclusive ) return SQLITE_BUSY;
    shared->readers++;
  }else if( level == SQLITE_LOCK_RESERVED ){
    if( shared->reserved ) return SQLITE_BUSY;
    shared->reserved = 1;
  }else{
    if( file->level < SQLITE_LOCK_RESERVED && shared->reserved ) return SQLITE_BUSY;
    shared->reserved = 1;
    shared->pending = 1;
    if( file->level < SQLITE_LOCK_PENDING ) file->level = SQLITE_LOCK_PENDING;
    if( shared->readers > 1 ) return SQLITE_BUSY;
    shared->exclusive = 1;
  }
  file->level = level;
  return SQLITE_OK;
}

static int fileCheckReservedLock(sqlite3_file *base, int *result){
  File *file = (File*)base;
  *result = file->shared ? file->shared->reserved : 0;
  return SQLITE_OK;
}

static int shmUnmap(sqlite3_file *base, int deleteFlag){
  File *file = (File*)base;
  Shared *shared = file->shared;
  if( !shared ) return SQLITE_OK;
  for(int i = 0; i < SHM_SLOTS; i++){
    if( file->sharedSlots & (1u << i) ) shared->slotReaders[i]--;
    if( file->exclusiveSlots & (1u << i) ) shared->slotWriter[i] = 0;
  }
  file->sharedSlots = file->exclusiveSlots = 0;
  /* the last connection removes the log; otherwise the regions remain in use */
  if( deleteFlag && shared->references == 1 ) freeRegions(shared);
  return SQLITE_OK;
}

static int fileClose(sqlite3_file *base){
  File *file = (File*)base;
  if( file->shared ){
    shmUnmap(base, 0);
    fileUnlock(base, SQLITE_LOCK_NONE);
    releaseShared(file->shared);
    file->shared = 0;
  }
  if( file->descriptor >= 0 ) host_close(file->descriptor);
  file->descriptor = -1;
  if( file->deleteOnClose ){
    host_delete(file->deleteOnClose);
    free(file->deleteOnClose);
    file->deleteOnClose = 0;
  }
  return SQLITE_OK;
}

static int fileRead(sqlite3_file *base, void *into, int count, sqlite3_int64 offset){
  int bytesRead = host_read(((File*)base)->descriptor, into, count, (double)offset);
  if( bytesRead < 0 ) return SQLITE_IOERR_READ;
  if( bytesRead == count ) return SQLITE_OK;
  memset((char*)into + bytesRead, 0, count - bytesRead);
  return SQLITE_IOERR_SHORT_READ;
}

static int fileWrite(sqlite3_file *base, const void *from, int count, sqlite3_int64 offset){
  int failure = host_write(((File*)base)->descriptor, from, count, (double)offset);
  return failure == 0 ? SQLITE_OK : failure == HOST_FULL ? SQLITE_FULL : SQLITE_IOERR_WRITE;
}

static int fileTruncate(sqlite3_file *base, sqlite3_int64 size){
  return host_truncate(((File*)base)->descriptor, (double)size) ? SQLITE_IOERR_TRUNCATE : SQLITE_OK;
}

static int fileSync(sqlite3_file *base, int flags){
  (void)flags;
  return host_sync(((File*)base)->descriptor) ? SQLITE_IOERR_FSYNC : SQLITE_OK;
}

static int fileSize(sqlite3_file *base, sqlite3_int64 *size){
  double bytes = host_size(((File*)base)->descriptor);
  if( bytes < 0 ) return SQLITE_IOERR_FSTAT;
  *size = (sqlite3_int64)bytes;
  return SQLITE_OK;
}

static int fileControl(sqlite3_file *base, int operation, void *argument){
  (void)base; (void)operation; (void)argument;
  return SQLITE_NOTFOUND;
}

static int sectorSize(sqlite3_file *base){ (void)base; return 4096; }

static int characteristics(sqlite3_file *base){
  (void)base;
  return SQLITE_IOCAP_POWERSAFE_OVERWRITE;
}

static int shmMap(sqlite3_file *base, int region, int size, int extend, void volatile **result){
  Shared *shared = ((File*)base)->shared;
  *result = 0;
  if( !shared ) return SQLITE_IOERR_SHMMAP;
  if( region >= shared->regionCount ){
    if( !extend ) return SQLITE_OK;
    void **regions = realloc(shared->regions, (region + 1) * sizeof(void*));
    if( !regions ) return SQLITE_NOMEM;
    shared->regions = regions;
    while( shared->regionCount <= region ){
      void *memory = calloc(1, size);
      if( !memory ) return SQLITE_NOMEM;
      regions[shared->regionCount++] = memory;
    }
  }
  *result = shared->regions[region];
  return SQLITE_OK;
}

static int shmLock(sqlite3_file *base, int first, int count, int flags){
  File *file = (File*)base;
  Shared *shared = file->shared;
  unsigned mask = ((1u << count) - 1u) << first;
  if( flags & SQLITE_SHM_UNLOCK ){
    for(int i = first; i < first + count; i++){
      unsigned bit = 1u << i;
      if( (flags & SQLITE_SHM_SHARED) && (file->sharedSlots & bit) ) shared->slotReaders[i]--;
      if( (flags & SQLITE_SHM_EXCLUSIVE) && (file->exclusiveSlots & bit) ) shared->slotWriter[i] = 0;
    }
    if( flags & SQLITE_SHM_SHARED ) file->sharedSlots &= ~mask;
    else file->exclusiveSlots &= ~mask;
    return SQLITE_OK;
  }
  if( flags & SQLITE_SHM_SHARED ){
    if( file->sharedSlots & mask ) return SQLITE_OK;
    for(int i = first; i < first + count; i++) if( shared->slotWriter[i] ) return SQLITE_BUSY;
    for(int i = first; i < first + count; i++) shared->slotReaders[i]++;
    file->sharedSlots |= mask;
    return SQLITE_OK;
  }
  for(int i = first; i < first + count; i++){
    int others = shared->slotReaders[i] - ((file->sharedSlots & (1u << i)) ? 1 : 0);
    if( others > 0 || (shared->slotWriter[i] && !(file->exclusiveSlots & (1u << i))) ) return SQLITE_BUSY;
  }
  for(int i = first; i < first + count; i++) shared->slotWriter[i] = 1;
  file->exclusiveSlots |= mask;
  return SQLITE_OK;
}

static void shmBarrier(sqlite3_file *base){ (void)base; }

static const sqlite3_io_methods FILE_METHODS = {
  2, fileClose, fileRead, fileWrite, fileTruncate, fileSync, fileSize, fileLock, fileUnlock, fileCheckReservedLock,
  fileControl, sectorSize, characteristics, shmMap, shmLock, shmBarrier, shmUnmap, 0, 0
};

static int vfsOpen(sqlite3_vfs *vfs, sqlite3_filename path, sqlite3_file *base, int flags, int *outFlags){
  File *file = (File*)base;
  (void)vfs;
  memset(file, 0, sizeof(*file));
  file->descriptor = -1;
  if( !path ) return SQLITE_CANTOPEN; /* temporary tables and sorters are kept in memory */
  file->descriptor = host_open(path, (flags & SQLITE_OPEN_CREATE) != 0);
  if( file->descriptor < 0 ) return SQLITE_CANTOPEN;
  if( flags & SQLITE_OPEN_MAIN_DB ){
    file->shared = acquireShared(path);
    if( !file->shared ){ host_close(file->descriptor); return SQLITE_NOMEM; }
  }
  if( flags & SQLITE_OPEN_DELETEONCLOSE ) file->deleteOnClose = strdup(path);
  file->base.pMethods = &FILE_METHODS;
  if( isAttachedPath(path) )
    flags = (flags & ~(SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE)) | SQLITE_OPEN_READONLY;
  if( outFlags ) *outFlags = flags;
  return SQLITE_OK;
}

static int vfsDelete(sqlite3_vfs *vfs, const char *path, int syncDirectory){
  (void)vfs; (void)syncDirectory;
  return host_delete(path) ? SQLITE_IOERR_DELETE : SQLITE_OK;
}

static int vfsAccess(sqlite3_vfs *vfs, const char *path, int flags, int *result){
  (void)vfs; (void)flags;
  *result = host_exists(path);
  return SQLITE_OK;
}

static int vfsFullPathname(sqlite3_vfs *vfs, const char *path, int size, char *result){
  (void)vfs;
  if( (int)strlen(path) >= size ) return SQLITE_CANTOPEN;
  strcpy(result, path);
  return SQLITE_OK;
}

static int vfsRandomness(sqlite3_vfs *vfs, int count, char *into){
  (void)vfs;
  host_random(into, count);
  return count;
}

/* Only a busy handler would wait, and no connection has one. */
static int vfsSleep(sqlite3_vfs *vfs, int microseconds){
  (void)vfs;
  return microseconds;
}

static int vfsCurrentTimeInt64(sqlite3_vfs *vfs, sqlite3_int64 *result){
  static const sqlite3_int64 UNIX_EPOCH = 24405875 * (sqlite3_int64)8640000;
  (void)vfs;
  *result = UNIX_EPOCH + (sqlite3_int64)host_time();
  return SQLITE_OK;
}

static int vfsCurrentTime(sqlite3_vfs *vfs, double *result){
  sqlite3_int64 now;
  vfsCurrentTimeInt64(vfs, &now);
  *result = now / 86400000.0;
  return SQLITE_OK;
}

static int vfsLastError(sqlite3_vfs *vfs, int size, char *text){
  (void)vfs; (void)size; (void)text;
  return 0;
}

static sqlite3_vfs VFS = {
  2, sizeof(File), MAX_PATH_BYTES, 0, "host", 0, vfsOpen, vfsDelete, vfsAccess, vfsFullPathname, 0, 0, 0, 0,
  vfsRandomness, vfsSleep, vfsCurrentTime, vfsLastError, vfsCurrentTimeInt64, 0, 0, 0
};

int sqlite3_os_init(void){ return sqlite3_vfs_register(&VFS, 1); }
int sqlite3_os_end(void){ return SQLITE_OK; }
