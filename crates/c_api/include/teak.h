/* The C interface of the Teak storage engine.
   Handles are opaque. Every call returns a teak_status; out-parameters are written only on success
   unless stated. Pointers may not be NULL unless stated. Strings are UTF-8 with a length. A panic inside the
   library is caught and returned as TEAK_INTERNAL. After any status other than TEAK_OK and TEAK_NOT_FOUND,
   teak_last_error() of the same thread gives a sentence. */
#ifndef TEAK_H
#define TEAK_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum teak_status {
  TEAK_OK = 0,
  TEAK_NOT_FOUND = 1,          /* no such key; the cursor has no further row */
  TEAK_DUPLICATE_KEY = 2,
  TEAK_LOCK_TIMEOUT = 3,
  TEAK_DEADLOCK = 4,
  TEAK_CONFLICT = 5,           /* the row changed after the snapshot was taken */
  TEAK_INTERRUPTED = 6,
  TEAK_NO_SPACE = 7,
  TEAK_CORRUPT = 8,
  TEAK_IO = 9,
  TEAK_TABLE_EXISTS = 10,
  TEAK_NO_SUCH_TABLE = 11,
  TEAK_TOO_LARGE = 12,
  TEAK_POISONED = 13,          /* the log failed earlier: nothing more is acknowledged */
  TEAK_INVALID_ARGUMENT = 14,
  TEAK_UNSUPPORTED_FORMAT = 15,
  TEAK_OUT_OF_MEMORY = 16,
  TEAK_INTERNAL = 17
} teak_status;

typedef struct teak_engine teak_engine;
typedef struct teak_table teak_table;
typedef struct teak_transaction teak_transaction;
typedef struct teak_cursor teak_cursor;

/* Bytes borrowed for the duration of a call, or until the next call on the handle that returned them. */
typedef struct teak_slice { const uint8_t *data; size_t len; } teak_slice;

/* Copies the calling thread's last error text (no terminator counted); returns its whole length. */
size_t teak_last_error(char *buffer, size_t capacity);

/* ---- engine ---- */
typedef struct teak_options {
  teak_slice directory;          /* the data directory: catalogue and log live here */
  uint64_t cache_bytes;          /* the whole memory budget */
  uint64_t log_segment_bytes;    /* 0 = default 64 MiB */
  uint64_t log_bytes_max;        /* checkpoint pressure starts beyond; 0 = default 512 MiB */
  uint32_t background_threads;   /* 0 = number of cores */
  uint32_t checkpoint_period_seconds; /* 0 = default 60 */
  uint32_t commit_sync;          /* 1 = commits are durable on return */
  uint32_t lock_timeout_milliseconds;
  /* Called with a level (0 note, 1 warning, 2 error) and one sentence; may be NULL. */
  void (*log_message)(void *context, uint32_t level, const char *text, size_t len);
  void *log_context;
} teak_options;

teak_status teak_engine_open(const teak_options *options, teak_engine **engine);
/* Flushes, checkpoints and closes. All tables and transactions must be closed. Frees the handle even on error. */
teak_status teak_engine_close(teak_engine *engine);
teak_status teak_engine_set_cache_bytes(teak_engine *engine, uint64_t bytes);
teak_status teak_engine_set_commit_sync(teak_engine *engine, bool sync);
/* Makes everything committed durable in the log. */
teak_status teak_engine_flush_log(teak_engine *engine);
/* Flushes every memtable to its file and checkpoints every index; waits until done. */
teak_status teak_engine_checkpoint(teak_engine *engine);

typedef struct teak_counters {
  uint64_t cache_bytes_limit, cache_bytes_used, memtable_bytes, cache_hits, cache_misses;
  uint64_t blocks_read, blocks_written, bytes_read, bytes_written, data_syncs;
  uint64_t log_bytes_appended, log_bytes_written, log_syncs, log_commits;
  uint64_t flushes, flush_bytes_in, flush_bytes_out, checkpoints, pending_flush_bytes;
  uint64_t filter_checks, filter_negatives;
  uint64_t writer_stalls, writer_stall_microseconds;
  uint64_t lock_waits, lock_timeouts, transactions_active, transactions_committed, transactions_rolled_back;
  uint64_t rows_inserted, rows_updated, rows_deleted, open_tables, indexes, recovered_records, aborted_ids;
} teak_counters;
teak_status teak_engine_counters(teak_engine *engine, teak_counters *counters);
/* Human-readable report for SHOW ENGINE TEAK STATUS, through the callback (once). */
teak_status teak_engine_status_text(teak_engine *engine, void (*sink)(void *context, const char *text, size_t len), void *context);

/* ---- tables ---- */
typedef struct teak_index_definition {
  teak_slice label;      /* names the file; sanitised by the engine */
  uint32_t codec;        /* number of the codec: 0 none, 1 lz4, 2 zstd, 3 zlib, 4 snappy, 5 lzma */
  uint32_t page_bytes;   /* 0 = default 64 KiB */
  bool exact_lookups;    /* rows are looked up by whole keys (row index, unique keys): keep filters */
  uint32_t value_fixed_bytes; /* leading bytes of values that hold columns of fixed width, where all values have
                                 them: stored column by column */
} teak_index_definition;

typedef struct teak_table_definition {
  teak_slice name;       /* as the server names it: "./database/table", relative to the data directory */
  const teak_index_definition *indexes; /* index 0 is the primary (row) index */
  size_t index_count;
  teak_slice metadata;   /* kept for the caller, at most 64 KiB */
} teak_table_definition;

teak_status teak_table_create(teak_engine *engine, const teak_table_definition *definition);
teak_status teak_table_open(teak_engine *engine, teak_slice name, teak_table **table);
void teak_table_close(teak_table *table);
teak_status teak_table_drop(teak_engine *engine, teak_slice name);
teak_status teak_table_rename(teak_engine *engine, teak_slice from, teak_slice to);
/* Replaces every index by an empty one, atomically; open handles follow. Counters return to zero. */
teak_status teak_table_truncate(teak_engine *engine, teak_slice name);
teak_status teak_table_exists(teak_engine *engine, teak_slice name, bool *exists);
teak_status teak_table_metadata(teak_table *table, teak_slice *metadata);
teak_status teak_table_index_count(teak_table *table, size_t *count);

typedef struct teak_index_statistics {
  uint64_t entries;        /* estimate of live entries */
  uint64_t disk_bytes;     /* bytes of the file on disk */
  uint64_t free_bytes;     /* of which reusable */
  uint64_t raw_bytes;      /* uncompressed bytes of entries */
  uint64_t memtable_bytes;
  uint32_t height, runs, codec;
  uint64_t tombstones;
} teak_index_statistics;
teak_status teak_index_statistics_get(teak_table *table, uint32_t index, teak_index_statistics *statistics);
/* Estimated entries with lower <= key < upper; an empty slice with data NULL is unbounded. */
teak_status teak_records_in_range(teak_table *table, uint32_t index, teak_slice lower, teak_slice upper, uint64_t *entries);
/* Walks every block of every index; TEAK_CORRUPT with the text in the sink when damaged. interrupt may be NULL. */
teak_status teak_table_verify(teak_table *table, bool (*interrupt)(void *context), void (*sink)(void *context, const char *text, size_t len), void *context);
/* Whether damage was met in this table since it was opened or repaired. */
teak_status teak_table_is_damaged(teak_table *table, bool *damaged);

/* Durable counters: 0 = AUTO_INCREMENT next value; never move back through advance. */
teak_status teak_counter_get(teak_table *table, uint32_t counter, uint64_t *value);
teak_status teak_counter_advance(teak_table *table, uint32_t counter, uint64_t value); /* max(current, value) */
teak_status teak_counter_set(teak_table *table, uint32_t counter, uint64_t value);
/* Reserves `count` hidden row ids; never given twice, also after a crash. */
teak_status teak_row_ids_reserve(teak_table *table, uint64_t count, uint64_t *first);

/* ---- transactions ---- */
typedef enum teak_isolation {
  TEAK_READ_UNCOMMITTED = 0, TEAK_READ_COMMITTED = 1, TEAK_REPEATABLE_READ = 2, TEAK_SERIALIZABLE = 3
} teak_isolation;

teak_status teak_transaction_begin(teak_engine *engine, teak_isolation isolation, teak_transaction **transaction);
teak_status teak_transaction_set_lock_timeout(teak_transaction *transaction, uint32_t milliseconds);
/* Takes the snapshot now (START TRANSACTION WITH CONSISTENT SNAPSHOT); else the first read does. */
teak_status teak_transaction_snapshot(teak_transaction *transaction);
/* A statement starts: READ COMMITTED takes a new snapshot; clears a pending interrupt. */
teak_status teak_transaction_statement(teak_transaction *transaction);
/* A mark to return to: statements and savepoints alike. */
teak_status teak_savepoint(teak_transaction *transaction, uint64_t *mark);
/* Undoes every write since the mark, at once whatever their number. */
teak_status teak_rollback_to_savepoint(teak_transaction *transaction, uint64_t mark);
/* Frees the handle on TEAK_OK. On an error nothing is committed, and the handle must be rolled back.
   One exception: TEAK_POISONED/TEAK_IO from the log sync leaves the outcome to recovery; the handle is then freed by rollback too. */
teak_status teak_commit(teak_transaction *transaction);
teak_status teak_rollback(teak_transaction *transaction); /* always frees the handle */
/* From any thread while the transaction lives: pending waits and loops end with TEAK_INTERRUPTED. */
void teak_interrupt(teak_transaction *transaction);
bool teak_transaction_has_writes(const teak_transaction *transaction);

/* ---- writes ---- */
typedef struct teak_entry {
  uint32_t index;
  bool unique;           /* a live entry of the same key is a duplicate */
  teak_slice key;
  teak_slice value;
} teak_entry;

/* One index's part of a row update. Unchanged indexes are not passed. key equality old==new means only the value changes. */
typedef struct teak_change {
  uint32_t index;
  bool unique;
  teak_slice old_key;    /* data NULL: no old entry */
  teak_slice new_key;    /* data NULL: no new entry */
  teak_slice new_value;
} teak_change;

typedef struct teak_duplicate {
  uint32_t index;        /* which index refused */
  teak_slice key;        /* the existing entry, valid until the next call on the transaction */
  teak_slice value;
} teak_duplicate;

/* One row. All or nothing: a duplicate leaves nothing of it. `duplicate` is written on TEAK_DUPLICATE_KEY. */
teak_status teak_insert(teak_transaction *transaction, teak_table *table, const teak_entry *entries, size_t count, teak_duplicate *duplicate);
teak_status teak_update(teak_transaction *transaction, teak_table *table, const teak_change *changes, size_t count, teak_duplicate *duplicate);
teak_status teak_delete(teak_transaction *transaction, teak_table *table, const teak_entry *entries, size_t count);

/* ---- reads ---- */
typedef enum teak_lock_mode {
  TEAK_LOCK_NONE = 0,      /* the transaction's snapshot */
  TEAK_LOCK_SHARED = 1,    /* newest committed row, locked */
  TEAK_LOCK_EXCLUSIVE = 2
} teak_lock_mode;

typedef struct teak_row { teak_slice key; teak_slice value; } teak_row; /* valid until the next call on the cursor */

/* The transaction and table outlive the cursor. On a secondary index a locking cursor waits for uncommitted
   entries and returns the newest committed ones, without locking them: the row itself is locked by teak_cursor_get on index 0. */
teak_status teak_cursor_open(teak_transaction *transaction, teak_table *table, uint32_t index, teak_lock_mode mode, teak_cursor **cursor);
void teak_cursor_close(teak_cursor *cursor);
/* lower <= key < upper for every row returned from now on; data NULL is unbounded. */
teak_status teak_cursor_set_bounds(teak_cursor *cursor, teak_slice lower, teak_slice upper);
/* The row of exactly this key (filters make absent keys cheap). Positions nothing. */
teak_status teak_cursor_get(teak_cursor *cursor, teak_slice key, teak_row *row);

typedef enum teak_seek {
  TEAK_SEEK_AT_OR_AFTER = 0,   /* first key >= given */
  TEAK_SEEK_AFTER_PREFIX = 1,  /* first key greater than every key that starts with the given bytes */
  TEAK_SEEK_BEFORE = 2,        /* last key < given */
  TEAK_SEEK_AT_OR_BEFORE_PREFIX = 3 /* last key that starts with, or is smaller than, the given bytes */
} teak_seek;
teak_status teak_cursor_seek(teak_cursor *cursor, teak_slice key, teak_seek mode, teak_row *row);
teak_status teak_cursor_first(teak_cursor *cursor, teak_row *row);
teak_status teak_cursor_last(teak_cursor *cursor, teak_row *row);
teak_status teak_cursor_next(teak_cursor *cursor, teak_row *row);
teak_status teak_cursor_previous(teak_cursor *cursor, teak_row *row);
/* Gives up the explicit lock of the row last returned by a locking get or scan (the server's unlock_row). */
teak_status teak_cursor_unlock(teak_cursor *cursor);

#endif
