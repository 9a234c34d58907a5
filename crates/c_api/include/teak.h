/* The C interface of the Teak storage engine. Generated from crates/c_api by cbindgen: do not edit.

   Handles are opaque. Every call returns a teak_status; out-parameters are written only on success
   unless stated. Pointers may not be NULL unless stated; where it is noticed the call returns
   TEAK_INVALID_ARGUMENT. Strings are UTF-8 with a length. A panic inside the library is caught and
   returned as TEAK_INTERNAL. After any status other than TEAK_OK and TEAK_NOT_FOUND, teak_last_error()
   of the same thread gives a sentence. */

#ifndef TEAK_H
#define TEAK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// A period that never ends.
#define TEAK_NEVER UINT32_MAX

// Longest key, in bytes.
#define TEAK_KEY_BYTES_MAX 65536

// What became of a call.
typedef enum teak_status {
  // Done; out-parameters are written.
  TEAK_OK = 0,
  // No such key or row; the cursor has no further row.
  TEAK_NOT_FOUND = 1,
  // A live entry of the same unique key exists; nothing of the row was written.
  TEAK_DUPLICATE_KEY = 2,
  // Another transaction kept the row for longer than the lock timeout.
  TEAK_LOCK_TIMEOUT = 3,
  // Waiting would have closed a circle of transactions that wait for each other.
  TEAK_DEADLOCK = 4,
  // The row changed after the snapshot was taken, and was not locked.
  TEAK_CONFLICT = 5,
  // teak_transaction_interrupt, or the caller's own interrupt callback, ended the call.
  TEAK_INTERRUPTED = 6,
  // The disk or quota is full.
  TEAK_NO_SPACE = 7,
  // Bytes on disk are not what was written there; the text says which.
  TEAK_CORRUPT = 8,
  // The system refused a file operation.
  TEAK_IO = 9,
  // A table of this name exists.
  TEAK_TABLE_EXISTS = 10,
  // No table of this name exists.
  TEAK_NO_SUCH_TABLE = 11,
  // A key, value or row is larger than the format allows.
  TEAK_TOO_LARGE = 12,
  // The log failed earlier: nothing more is acknowledged.
  TEAK_POISONED = 13,
  // A pointer is NULL, a number is none of its enumeration, or a name is none.
  TEAK_INVALID_ARGUMENT = 14,
  // A file is of a newer version than this library reads.
  TEAK_UNSUPPORTED_FORMAT = 15,
  // Memory could not be had.
  TEAK_OUT_OF_MEMORY = 16,
  // A bug, or a call on a handle that has ended.
  TEAK_INTERNAL = 17,
  // Another process, or another engine of this one, has the data directory open.
  TEAK_IN_USE = 18,
  // The table or index came to be after the transaction's snapshot was taken.
  TEAK_TABLE_CHANGED = 19,
  // Row locks have reached their share of the memory.
  TEAK_TOO_MANY_LOCKS = 20,
  // The table has no index of this number, or has it no more.
  TEAK_NO_SUCH_INDEX = 21,
} teak_status;

// What a lock covers.
typedef enum teak_lock_kind {
  // One row.
  TEAK_LOCK_KIND_ROW = 0,
  // All rows between two keys, in place of many single ones.
  TEAK_LOCK_KIND_ROW_RANGE = 1,
  // Insertions between two keys.
  TEAK_LOCK_KIND_GAP = 2,
  // All writes between two keys.
  TEAK_LOCK_KIND_WRITE_RANGE = 3,
  // What a transaction has written: its undecided versions are its locks.
  TEAK_LOCK_KIND_WRITTEN = 4,
  // Of waits alone: somebody who waits to write where a range is to be locked.
  TEAK_LOCK_KIND_RANGE_REQUEST = 5,
} teak_lock_kind;

// How a cursor reads.
typedef enum teak_lock_mode {
  // The transaction's snapshot.
  TEAK_LOCK_NONE = 0,
  // Newest committed row, locked against writers.
  TEAK_LOCK_SHARED = 1,
  // Newest committed row, locked against everybody who locks or writes.
  TEAK_LOCK_EXCLUSIVE = 2,
} teak_lock_mode;

// What a transaction sees of others.
typedef enum teak_isolation {
  // Uncommitted rows too.
  TEAK_READ_UNCOMMITTED = 0,
  // What was committed when the statement began.
  TEAK_READ_COMMITTED = 1,
  // What was committed at the first read.
  TEAK_REPEATABLE_READ = 2,
  // As repeatable read; the caller reads with shared locks.
  TEAK_SERIALIZABLE = 3,
} teak_isolation;

// Where a seek goes.
typedef enum teak_seek {
  // First key >= given.
  TEAK_SEEK_AT_OR_AFTER = 0,
  // First key greater than every key that starts with the given bytes.
  TEAK_SEEK_AFTER_PREFIX = 1,
  // Last key < given.
  TEAK_SEEK_BEFORE = 2,
  // Last key that starts with, or is smaller than, the given bytes.
  TEAK_SEEK_AT_OR_BEFORE_PREFIX = 3,
} teak_seek;

// A change of one table's indexes and metadata under way. Belongs to one thread at a time.
typedef struct teak_alteration teak_alteration;

// A cursor over one index.
typedef struct teak_cursor teak_cursor;

// An open engine. Its calls may come from any thread.
typedef struct teak_engine teak_engine;

// An open table. Its calls may come from any thread.
typedef struct teak_table teak_table;

// A running transaction. Belongs to one thread at a time, but for teak_transaction_interrupt.
typedef struct teak_transaction teak_transaction;

// Bytes borrowed for the duration of a call, or until the next call on the handle that returned them.
typedef struct teak_slice {
  // The first byte; NULL where a call says that it means something.
  const uint8_t *data;
  // How many.
  size_t len;
} teak_slice;

// How an engine is opened.
typedef struct teak_engine_options {
  // The data directory: catalogue and log live here.
  struct teak_slice directory;
  // The whole memory budget, at least 1 MiB.
  uint64_t cache_bytes;
  // A log file that reached this size is followed by a new one; 0 = default 64 MiB.
  uint64_t log_segment_bytes;
  // Checkpoint pressure starts beyond; 0 = default 512 MiB.
  uint64_t log_bytes_max;
  // Flushing threads; 0 = number of cores.
  uint32_t background_threads;
  // Seconds between checkpoints; 0 = default 60.
  uint32_t checkpoint_period_seconds;
  // 1 = commits are durable on return; 0 = within log_sync_period_milliseconds.
  uint32_t commit_sync;
  // When the log is synced after commits that did not wait for it; 0 = default 1000; TEAK_NEVER = only when it goes on in
  // another file, or by a checkpoint.
  uint32_t log_sync_period_milliseconds;
  // How long a transaction waits for a row, unless it says otherwise.
  uint32_t lock_timeout_milliseconds;
  // What row and range locks may take, in bytes; 0 = an eighth of cache_bytes.
  uint64_t lock_bytes_max;
  // Files that are kept open at most; 0 = all that are in use.
  uint32_t open_files;
  // Called, from any thread, with a level (0 note, 1 warning, 2 error) and one sentence; may be NULL.
  void (*log_message)(void *context, uint32_t level, const char *text, size_t len);
  // Handed to log_message.
  void *log_context;
  // Called when a transaction begins to wait for another, with their owners (see teak_transaction_set_owner), in the waiter's
  // thread; may be NULL. The holder does not end before the call returns: it must neither wait for that nor call the engine.
  void (*wait_begins)(void *waiter, void *holder);
} teak_engine_options;

// Pages that the calling thread has looked at since it began.
typedef struct teak_page_counts {
  // Asked for, cached or not.
  uint64_t accessed;
  // Read from disk.
  uint64_t read;
} teak_page_counts;

// Counts since the engine was opened, and sizes at this moment.
typedef struct teak_engine_statistics {
  // The memory budget.
  uint64_t cache_bytes_limit;
  // Of which in use.
  uint64_t cache_bytes_used;
  // Of which by memtables.
  uint64_t memtable_bytes;
  // Pages found in the page cache.
  uint64_t cache_hits;
  // Pages not found there.
  uint64_t cache_misses;
  // Blocks read from index files.
  uint64_t blocks_read;
  // Blocks written to them.
  uint64_t blocks_written;
  // Bytes read from index files.
  uint64_t bytes_read;
  // Bytes written to them.
  uint64_t bytes_written;
  // Syncs of index files.
  uint64_t data_syncs;
  // Bytes of log records, before compression.
  uint64_t log_bytes_appended;
  // Bytes written to the log.
  uint64_t log_bytes_written;
  // Syncs of the log.
  uint64_t log_syncs;
  // Commit records.
  uint64_t log_commits;
  // Background jobs done: flushes and merges.
  uint64_t flushes;
  // Raw bytes that they wrote, before compression.
  uint64_t flush_bytes_in;
  // Bytes that they wrote to files.
  uint64_t flush_bytes_out;
  // Checkpoints done.
  uint64_t checkpoints;
  // Raw bytes that wait to be pushed down.
  uint64_t pending_flush_bytes;
  // Filters asked.
  uint64_t filter_checks;
  // Filters that spared a read.
  uint64_t filter_negatives;
  // Times that a writer was slowed.
  uint64_t writer_stalls;
  // For how long in all.
  uint64_t writer_stall_microseconds;
  // Waits for a row.
  uint64_t lock_waits;
  // Of which timed out.
  uint64_t lock_timeouts;
  // Circles of waiting transactions that were broken.
  uint64_t deadlocks;
  // Transactions that wait at this moment.
  uint64_t transactions_waiting;
  // Rows refused because they changed after the transaction's snapshot.
  uint64_t snapshot_conflicts;
  // Rows locked one by one.
  uint64_t row_locks;
  // Bytes that row and range locks take.
  uint64_t lock_bytes;
  // Bytes that they may take.
  uint64_t lock_bytes_limit;
  // Times that a transaction's locks in one index became a range.
  uint64_t lock_escalations;
  // Locks refused for want of memory.
  uint64_t lock_refusals;
  // Transactions that run.
  uint64_t transactions_active;
  // Transactions committed with writes.
  uint64_t transactions_committed;
  // Transactions rolled back with writes.
  uint64_t transactions_rolled_back;
  // Rows inserted, committed or not.
  uint64_t rows_inserted;
  // Rows updated.
  uint64_t rows_updated;
  // Rows deleted.
  uint64_t rows_deleted;
  // Open tables.
  uint64_t open_tables;
  // Their indexes.
  uint64_t indexes;
  // Log records read when the engine was opened.
  uint64_t recovered_records;
  // Rolled-back writes still listed.
  uint64_t aborted_ids;
} teak_engine_statistics;

// One index of a table to create.
typedef struct teak_index_definition {
  // Names the file; sanitised by the engine.
  struct teak_slice label;
  // Number of the codec: 0 none, 1 lz4, 2 zstd, 3 zlib, 4 snappy, 5 lzma
  uint32_t codec;
  // Raw bytes of a page; 0 = default 64 KiB.
  uint32_t page_bytes;
  // Rows are looked up by whole keys (row index, unique keys): keep filters.
  bool exact_lookups;
  // Leading bytes of values that hold columns of fixed width, where all
  // values have them: stored column by column.
  uint32_t value_fixed_bytes;
} teak_index_definition;

// A table to create.
typedef struct teak_table_definition {
  // As the server names it: "./database/table", relative to the data directory.
  struct teak_slice name;
  // Index 0 is the primary (row) index.
  const struct teak_index_definition *indexes;
  // 1 to 256.
  size_t index_count;
  // Kept for the caller, at most 64 KiB.
  struct teak_slice metadata;
} teak_table_definition;

// Sizes of one index.
typedef struct teak_index_statistics {
  // Estimate of live entries.
  uint64_t entries;
  // Bytes of the file on disk.
  uint64_t disk_bytes;
  // Uncompressed bytes of the entries on disk.
  uint64_t raw_bytes;
  // Bytes in memory, not flushed yet.
  uint64_t memtable_bytes;
  // Levels of nodes.
  uint32_t height;
  // Sorted runs.
  uint32_t runs;
  // Number of the codec.
  uint32_t codec;
  // Deletes on disk.
  uint64_t tombstones;
} teak_index_statistics;

// One index's entry of a row.
typedef struct teak_row_entry {
  // Which index.
  uint32_t index;
  // A live entry of the same key is a duplicate.
  bool unique;
  // The key.
  struct teak_slice key;
  // The value; not looked at when deleting.
  struct teak_slice value;
} teak_row_entry;

// The entry that refused a write.
typedef struct teak_duplicate {
  // Which index refused.
  uint32_t index;
  // The existing entry's key, valid until the next call on the transaction.
  struct teak_slice key;
  // Its value.
  struct teak_slice value;
} teak_duplicate;

// One index's part of a row update. Unchanged indexes are not passed. key equality old==new means only the value changes.
typedef struct teak_row_change {
  // Which index.
  uint32_t index;
  // A live entry of the new key is a duplicate.
  bool unique;
  // data NULL: no old entry.
  struct teak_slice old_key;
  // data NULL: no new entry.
  struct teak_slice new_key;
  // The new entry's value.
  struct teak_slice new_value;
} teak_row_change;

// A row; valid until the next call on the cursor.
typedef struct teak_row {
  // The key.
  struct teak_slice key;
  // The value.
  struct teak_slice value;
} teak_row;

// A transaction that waits for another.
typedef struct teak_wait_info {
  // Who waits.
  uint64_t requester;
  // Who runs that; 0 for nobody.
  uint64_t requester_thread;
  // For whom; 0 when that has just ended.
  uint64_t blocker;
  // Who runs that; 0 for nobody.
  uint64_t blocker_thread;
  // What stops it.
  enum teak_lock_kind kind;
  // How it wants the row; TEAK_LOCK_NONE but for TEAK_LOCK_KIND_ROW.
  enum teak_lock_mode mode;
  // The table; NULL when it is gone or being opened.
  struct teak_slice table;
  // The label of the index; NULL as the table.
  struct teak_slice index;
  // The key.
  struct teak_slice key;
  // For how long.
  uint64_t waited_milliseconds;
} teak_wait_info;

// A running transaction.
typedef struct teak_transaction_info {
  // Its number.
  uint64_t id;
  // Who runs it, as teak_transaction_set_thread said; 0 for nobody.
  uint64_t thread;
  // The number of its teak_isolation.
  uint32_t isolation;
  // When it began, in microseconds since 1970.
  uint64_t started_microseconds;
  // The commit sequence that it reads at; 0 without a snapshot.
  uint64_t snapshot;
  // Rows written, those undone by a savepoint included.
  uint64_t rows_written;
  // Write ids that count.
  uint64_t write_ids;
  // Rows locked one by one.
  uint64_t row_locks;
  // Bytes that its locks take.
  uint64_t lock_bytes;
  // The name under which it is prepared; NULL when it is not.
  struct teak_slice prepared_as;
  // Whether it waits for another.
  bool is_waiting;
  // For how long.
  uint64_t waited_milliseconds;
} teak_transaction_info;

// A lock.
typedef struct teak_lock_info {
  // Whose.
  uint64_t transaction;
  // Who runs that; 0 for nobody.
  uint64_t thread;
  // What it covers.
  enum teak_lock_kind kind;
  // How.
  enum teak_lock_mode mode;
  // The table; NULL for TEAK_LOCK_KIND_WRITTEN, and when it is gone or being opened.
  struct teak_slice table;
  // The label of the index; NULL as the table.
  struct teak_slice index;
  // The row's key, or the first key; NULL when it is not known.
  struct teak_slice low;
  // The first key behind; NULL for a row, and at the end of the index.
  struct teak_slice high;
  // Rows written, for TEAK_LOCK_KIND_WRITTEN; else 0.
  uint64_t rows;
} teak_lock_info;

// An index to add.
typedef struct teak_added_index {
  // Its file and form.
  struct teak_index_definition definition;
  // Two entries of one key are refused.
  bool unique;
  // Its entries are added in order of their keys, each key once: they need no sorting, and no space for it.
  bool in_order;
} teak_added_index;

// An index of the altered table.
typedef struct teak_planned_index {
  // One of those that were added, else one that the table has.
  bool added;
  // Its number among them.
  uint32_t number;
  // Of a kept index: its label, and how it is written from now on. Not looked at for an added one.
  struct teak_index_definition definition;
} teak_planned_index;

// What a table is to be.
typedef struct teak_alteration_plan {
  // The indexes in their new order, that of the rows first, which may be an added one; those left out are dropped.
  const struct teak_planned_index *indexes;
  // How many.
  size_t index_count;
  // Replaces the table's metadata.
  struct teak_slice metadata;
} teak_alteration_plan;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Copies the calling thread's last error text into the buffer, which may be NULL, and a terminator when there is room;
// returns its whole length, without the terminator.
size_t teak_last_error(char *buffer, size_t capacity);

// Opens the engine of a data directory, recovering what a crash left.
enum teak_status teak_engine_open(const struct teak_engine_options *options, struct teak_engine **engine);

// Flushes, checkpoints and closes. All tables and transactions must be closed. Frees the handle even on error.
enum teak_status teak_engine_close(struct teak_engine *engine);

// Changes the memory budget, at once for the page cache, as flushing proceeds for the rest.
enum teak_status teak_engine_set_cache_bytes(struct teak_engine *engine, uint64_t bytes);

// Bounds what row and range locks take, in bytes; 0 = an eighth of the memory budget.
enum teak_status teak_engine_set_lock_bytes_max(struct teak_engine *engine, uint64_t bytes);

// Chooses whether commits are durable on return.
enum teak_status teak_engine_set_commit_sync(struct teak_engine *engine, bool sync);

// When the log is synced after commits that did not wait for it; TEAK_NEVER = only when it goes on in another file, or by a
// checkpoint.
enum teak_status teak_engine_set_log_sync_period(struct teak_engine *engine,
                                                 uint32_t milliseconds);

// Makes everything committed durable in the log.
enum teak_status teak_engine_flush_log(struct teak_engine *engine);

// Flushes every memtable to its file and checkpoints every index; waits until done.
enum teak_status teak_engine_checkpoint(struct teak_engine *engine);

// What the calling thread has looked at: a statement's share is the difference between two calls.
struct teak_page_counts teak_thread_get_page_counts(void);

// Counts and sizes for SHOW STATUS.
enum teak_status teak_engine_get_statistics(struct teak_engine *engine, struct teak_engine_statistics *counters);

// Human-readable report for SHOW ENGINE TEAK STATUS, through the callback (once).
enum teak_status teak_engine_get_status_text(struct teak_engine *engine, void (*sink)(void *context,
                                                                                      const char *text,
                                                                                      size_t len), void *context);

// Creates a table. Durable on return, like every change of tables.
enum teak_status teak_table_create(struct teak_engine *engine, const struct teak_table_definition *definition);

// Opens a table; TEAK_CORRUPT when one of its files is missing or damaged.
enum teak_status teak_table_open(struct teak_engine *engine, struct teak_slice name, struct teak_table **table);

// Closes a table; NULL is allowed. Its cursors must be closed.
void teak_table_close(struct teak_table *table);

// Drops a table and removes its files. Open handles keep what they see.
enum teak_status teak_table_drop(struct teak_engine *engine, struct teak_slice name);

// Renames a table and its files, also into another database.
enum teak_status teak_table_rename(struct teak_engine *engine, struct teak_slice from, struct teak_slice to);

// Replaces every index by an empty one, atomically; open handles follow. Counters return to zero.
enum teak_status teak_table_truncate(struct teak_engine *engine, struct teak_slice name);

// Whether a table of this name exists.
enum teak_status teak_table_exists(struct teak_engine *engine, struct teak_slice name, bool *exists);

// The table's id, which no other table of this data directory ever has; TRUNCATE and RENAME keep it.
enum teak_status teak_table_get_id(struct teak_engine *engine, struct teak_slice name, uint64_t *id);

// Hands the names and the metadata of all tables whose names begin so to the sink. No table is opened.
enum teak_status teak_table_list_metadata(struct teak_engine *engine,
                                          struct teak_slice prefix,
                                          void (*sink)(void *context, struct teak_slice name, struct teak_slice metadata),
                                          void *context);

// The name of every table, one call of the callback for each, in no order. Names have no leading `./`.
enum teak_status teak_table_list(struct teak_engine *engine,
                                 void (*sink)(void *context, struct teak_slice name),
                                 void *context);

// The bytes given at creation or by the last alteration before the table was opened, valid while it is open.
enum teak_status teak_table_get_metadata(struct teak_table *table, struct teak_slice *metadata);

// How many indexes it has.
enum teak_status teak_table_get_index_count(struct teak_table *table, size_t *count);

// Says that one session alone uses the table, as a temporary one: snapshots that are older than the table may read it.
// Holds while it is open and not truncated.
enum teak_status teak_table_serve_older_snapshots(struct teak_table *table);

// Bytes of an index's file that may be used again.
enum teak_status teak_index_get_free_bytes(struct teak_table *table, uint32_t index, uint64_t *bytes);

// Sizes of one index, without reading its data.
enum teak_status teak_index_get_statistics(struct teak_table *table,
                                           uint32_t index,
                                           struct teak_index_statistics *statistics);

// Estimated entries with lower <= key < upper, exact when they are few; a slice with data NULL is unbounded.
enum teak_status teak_index_estimate_entries(struct teak_table *table,
                                             uint32_t index,
                                             struct teak_slice lower,
                                             struct teak_slice upper,
                                             uint64_t *entries);

// Walks every block of every index; TEAK_CORRUPT with the text in the sink when damaged. interrupt may be NULL.
enum teak_status teak_table_verify(struct teak_table *table,
                                   bool (*interrupt)(void *context),
                                   void (*sink)(void *context, const char *text, size_t len),
                                   void *context);

// Whether damage was met in this table since it was opened or repaired.
enum teak_status teak_table_is_damaged(struct teak_table *table, bool *damaged);

// Durable counters 0 to 7: 0 = AUTO_INCREMENT next value; never move back through advance.
enum teak_status teak_table_counter_get(struct teak_table *table, uint32_t counter, uint64_t *value);

// Raises a counter to max(current, value). Durable with the next commit.
enum teak_status teak_table_counter_advance(struct teak_table *table, uint32_t counter, uint64_t value);

// Sets a counter, up or down.
enum teak_status teak_table_counter_set(struct teak_table *table, uint32_t counter, uint64_t value);

// Locks a counter until it is unlocked as often, or the transaction ends. Waits as for a row. The other calls on counters do
// not look for this lock: it is between those who take it.
enum teak_status teak_table_counter_lock(struct teak_transaction *transaction,
                                         struct teak_table *table,
                                         uint32_t counter);

// Gives a counter up; nothing happens when the transaction does not hold it.
enum teak_status teak_table_counter_unlock(struct teak_transaction *transaction,
                                           struct teak_table *table,
                                           uint32_t counter);

// Reserves `count` hidden row ids; never given twice, also after a crash.
enum teak_status teak_table_reserve_row_ids(struct teak_table *table, uint64_t count, uint64_t *first);

// Starts a transaction.
enum teak_status teak_transaction_begin(struct teak_engine *engine,
                                        teak_isolation isolation,
                                        struct teak_transaction **transaction);

// Names who runs the transaction, for the option wait_begins. The pointer is passed on, never followed; it must stay good until
// the transaction has ended or is detached.
enum teak_status teak_transaction_set_owner(struct teak_transaction *transaction,
                                            void *owner);

// How long the transaction waits for a row.
enum teak_status teak_transaction_set_lock_timeout(struct teak_transaction *transaction, uint32_t milliseconds);

// Whether the commit waits until it is durable, where the engine's commits do; true at first.
enum teak_status teak_transaction_set_commit_sync(struct teak_transaction *transaction, bool waits);

// Whether a locking read of a row that changed after the transaction's snapshot ends in TEAK_CONFLICT; by default it reads the
// newest committed version.
enum teak_status teak_transaction_set_snapshot_isolation(struct teak_transaction *transaction,
                                                         bool on);

// Takes the snapshot now (START TRANSACTION WITH CONSISTENT SNAPSHOT); else the first read does.
enum teak_status teak_transaction_take_snapshot(struct teak_transaction *transaction);

// The newest commit that the transaction's snapshot shows; 0 while it has no snapshot.
uint64_t teak_transaction_get_snapshot_commit(const struct teak_transaction *transaction);

// The newest commit that is visible, as a number that each commit with writes raises; at least 1.
uint64_t teak_engine_get_newest_commit(struct teak_engine *engine);

// Transactions are numbered as they begin. `oldest`: the oldest that runs, prepared ones included; or else the next one.
// `next`: all that began before the call are below it; one that is not sees what the caller had written before the call.
enum teak_status teak_engine_get_running_transactions(struct teak_engine *engine,
                                                      uint64_t *oldest,
                                                      uint64_t *next);

// A statement starts: READ COMMITTED takes a new snapshot; clears a pending interrupt.
enum teak_status teak_transaction_begin_statement(struct teak_transaction *transaction);

// A mark to return to: statements and savepoints alike.
enum teak_status teak_transaction_savepoint(struct teak_transaction *transaction, uint64_t *mark);

// Undoes every write since the mark, at once whatever their number.
enum teak_status teak_transaction_rollback_to_savepoint(struct teak_transaction *transaction, uint64_t mark);

// Frees the handle on TEAK_OK. On an error nothing is committed, and the handle must be rolled back.
// One exception: TEAK_POISONED/TEAK_IO from the log sync leaves the outcome to recovery; the handle is then freed by rollback too.
enum teak_status teak_transaction_commit(struct teak_transaction *transaction);

// Undoes everything, at once whatever it wrote. Always frees the handle. Fails only for a prepared transaction, which then
// stays prepared.
enum teak_status teak_transaction_rollback(struct teak_transaction *transaction);

// From any thread while the transaction lives: pending waits and loops end with TEAK_INTERRUPTED.
void teak_transaction_interrupt(struct teak_transaction *transaction);

// Whether any write of the transaction counts (was not rolled back).
bool teak_transaction_has_writes(const struct teak_transaction *transaction);

// Whether others may have to wait for the transaction: it has locked rows or ranges, or has writes that count.
bool teak_transaction_holds_locks(const struct teak_transaction *transaction);

// Whether entries of secondary indexes that the transaction's snapshot sees must be compared with their rows: it may have
// written rows whose newest versions were later than its snapshot.
bool teak_transaction_is_past_snapshot(const struct teak_transaction *transaction);

// Promises that the transaction survives a crash until it is committed or rolled back, by its handle or by its name `xid`
// (at most 1024 bytes). It takes no further writes. A transaction without writes promises nothing and is not listed.
// On an error the handle must be rolled back.
enum teak_status teak_transaction_prepare(struct teak_transaction *transaction,
                                          struct teak_slice xid);

// Commits a prepared transaction without waiting for the disk: after a crash the coordinator knows its outcome.
// Transactions become visible in the order of these calls. Frees the handle on TEAK_OK; on an error it stays prepared.
enum teak_status teak_transaction_commit_ordered(struct teak_transaction *transaction);

// Frees the handle and leaves a prepared transaction to whoever knows its name; one that was not prepared is rolled back.
enum teak_status teak_transaction_detach(struct teak_transaction *transaction);

// Calls `sink` with the name of each prepared transaction that no handle owns: those found when the engine was opened, and
// those detached since.
enum teak_status teak_prepared_list(struct teak_engine *engine,
                                    void (*sink)(void *context, struct teak_slice xid),
                                    void *context);

// Commits a prepared transaction by its name. TEAK_NOT_FOUND when there is none of it. One that a handle owns is waited for,
// up to `patience_ms` milliseconds; TEAK_LOCK_TIMEOUT when the handle was not given up by then. After an error it stays
// prepared.
enum teak_status teak_prepared_commit(struct teak_engine *engine,
                                      struct teak_slice xid,
                                      uint32_t patience_ms);

// Rolls a prepared transaction back by its name; otherwise as teak_prepared_commit.
enum teak_status teak_prepared_rollback(struct teak_engine *engine, struct teak_slice xid, uint32_t patience_ms);

// One row. All or nothing: a duplicate leaves nothing of it. `duplicate` is written on TEAK_DUPLICATE_KEY; may be NULL.
enum teak_status teak_transaction_insert(struct teak_transaction *transaction,
                                         struct teak_table *table,
                                         const struct teak_row_entry *entries,
                                         size_t count,
                                         struct teak_duplicate *duplicate);

// One row, given the entries that change. TEAK_NOT_FOUND when the row is gone.
enum teak_status teak_transaction_update(struct teak_transaction *transaction,
                                         struct teak_table *table,
                                         const struct teak_row_change *changes,
                                         size_t count,
                                         struct teak_duplicate *duplicate);

// One row, given all its entries. TEAK_NOT_FOUND when the row is gone.
enum teak_status teak_transaction_delete(struct teak_transaction *transaction,
                                         struct teak_table *table,
                                         const struct teak_row_entry *entries,
                                         size_t count);

// Locks a key of a unique index that has no live entry, until the transaction ends: nobody else inserts it.
// TEAK_DUPLICATE_KEY when it has one; nothing is locked then.
enum teak_status teak_transaction_lock_absent(struct teak_transaction *transaction,
                                              struct teak_table *table,
                                              uint32_t index,
                                              struct teak_slice key);

// The transaction and table outlive the cursor. On a secondary index a locking cursor waits for uncommitted
// entries and returns the newest committed ones, without locking them: the row itself is locked by teak_cursor_get on index 0.
enum teak_status teak_cursor_open(struct teak_transaction *transaction,
                                  struct teak_table *table,
                                  uint32_t index,
                                  teak_lock_mode mode,
                                  struct teak_cursor **cursor);

// Closes a cursor; NULL is allowed.
void teak_cursor_close(struct teak_cursor *cursor);

// Whether a locking cursor passes over rows that others have locked or are writing, instead of waiting; false at first.
enum teak_status teak_cursor_set_skip_locked(struct teak_cursor *cursor, bool skip);

// Whether a scan of index 0 with locks returns rows that others have locked or are writing as they were committed last, and
// unlocked, instead of waiting; false at first, and always where reads mark ranges. Who wants such a row turns this off and
// seeks it again.
enum teak_status teak_cursor_set_semi_consistent(struct teak_cursor *cursor,
                                                 bool semi_consistent);

// Whether the row returned last is unlocked for that reason.
bool teak_cursor_is_unlocked(const struct teak_cursor *cursor);

// Lets a locking cursor mark what it looked at under any isolation, so that nobody inserts there until the transaction ends.
// Without this it does from REPEATABLE READ on. To be called before the first read.
enum teak_status teak_cursor_lock_ranges(struct teak_cursor *cursor);

// Whether nobody may change what a locking cursor looked at until its transaction ends, also what it unlocked; false at
// first, and always below repeatable read. To be set before the first row is read.
enum teak_status teak_cursor_set_retain_locks(struct teak_cursor *cursor, bool keeps);

// lower <= key < upper for every row returned from now on, also by teak_cursor_get; data NULL is unbounded. In the
// middle of a scan the next step goes to the nearest key within the bounds.
enum teak_status teak_cursor_set_bounds(struct teak_cursor *cursor, struct teak_slice lower, struct teak_slice upper);

// The row of exactly this key (filters make absent keys cheap). Positions nothing.
enum teak_status teak_cursor_get(struct teak_cursor *cursor, struct teak_slice key, struct teak_row *row);

// Moves to a key near the given one.
enum teak_status teak_cursor_seek(struct teak_cursor *cursor,
                                  struct teak_slice key,
                                  teak_seek mode,
                                  struct teak_row *row);

// Moves to the first row within the bounds.
enum teak_status teak_cursor_first(struct teak_cursor *cursor, struct teak_row *row);

// Moves to the last row within the bounds.
enum teak_status teak_cursor_last(struct teak_cursor *cursor, struct teak_row *row);

// Moves to the next row.
enum teak_status teak_cursor_next(struct teak_cursor *cursor, struct teak_row *row);

// Moves to the previous row.
enum teak_status teak_cursor_previous(struct teak_cursor *cursor, struct teak_row *row);

// Gives up the explicit lock of the row last returned by a locking get or scan (the server's unlock_row).
enum teak_status teak_cursor_unlock(struct teak_cursor *cursor);

// Says who runs the transaction, in the caller's numbers; 0 for nobody.
enum teak_status teak_transaction_set_thread(struct teak_transaction *transaction, uint64_t thread);

// Of the transactions of a deadlock one of the least weight fails; among them the one that has written and locked fewest
// rows. At first 0.
enum teak_status teak_transaction_set_weight(struct teak_transaction *transaction,
                                             uint32_t weight);

// Calls `sink` for each transaction that stood in the way when the last call of this one ended in TEAK_LOCK_TIMEOUT or
// TEAK_DEADLOCK, and once with none if all have ended. TEAK_NOT_FOUND when that was told already, or there was none.
enum teak_status teak_transaction_take_failed_wait(struct teak_engine *engine,
                                                   struct teak_transaction *transaction,
                                                   void (*sink)(void *context, const struct teak_wait_info *wait),
                                                   void *context);

// Calls `sink` for each running transaction, prepared ones included, by number.
enum teak_status teak_transaction_list(struct teak_engine *engine,
                                       void (*sink)(void *context, const struct teak_transaction_info *transaction),
                                       void *context);

// Calls `sink` for each lock, and for each transaction that has written with TEAK_LOCK_KIND_WRITTEN. Locks come and go
// meanwhile: the list is of several moments.
enum teak_status teak_lock_list(struct teak_engine *engine,
                                void (*sink)(void *context, const struct teak_lock_info *lock),
                                void *context);

// Calls `sink` for each pair of a transaction that waits and one that stands in its way or is ahead of it in the queue.
enum teak_status teak_lock_wait_list(struct teak_engine *engine,
                                     void (*sink)(void *context, const struct teak_wait_info *wait),
                                     void *context);

// Begins to alter a table: makes the files of the indexes to add. No transaction that wrote the table may be open. Whoever
// writes its rows from now on must write the entries of the added indexes too, see teak_alteration_get_index. `interrupt` may
// be NULL; it is asked now and then by what takes long, on the calling thread, and ends it when it returns true.
enum teak_status teak_alteration_begin(struct teak_engine *engine,
                                       struct teak_table *table,
                                       const struct teak_added_index *added,
                                       size_t added_count,
                                       bool (*interrupt)(void *context),
                                       void *context,
                                       struct teak_alteration **alteration);

// The number by which writers of rows reach an added index until the alteration ends.
enum teak_status teak_alteration_get_index(struct teak_alteration *alteration, uint32_t added, uint32_t *index);

// Adds the entry of a row, in any order of rows unless the index was promised another. The rows are those of one snapshot, taken after teak_alteration_begin.
enum teak_status teak_alteration_add_entry(struct teak_alteration *alteration,
                                           uint32_t added,
                                           struct teak_slice key,
                                           struct teak_slice value);

// Sorts and writes what was added. `progress` may be NULL; it hears now and then how many entries of how many are written.
// On TEAK_DUPLICATE_KEY `duplicate` names the key that a unique index has twice, and the number of the added index; it is
// valid until the next call on the alteration. It may be NULL.
enum teak_status teak_alteration_build(struct teak_alteration *alteration,
                                       void (*progress)(void *context, uint64_t done, uint64_t total),
                                       void *context,
                                       struct teak_duplicate *duplicate);

// Commits alterations of several tables of one engine together. Nobody may write the tables meanwhile. Durable on return.
// The alterations have ended then, whatever is returned, and must be freed. On an error the tables are as before, but for
// TEAK_POISONED and TEAK_IO of the log, which leave the outcome to recovery.
enum teak_status teak_alteration_commit(struct teak_alteration *const *alterations,
                                        const struct teak_alteration_plan *plans,
                                        size_t count);

// Frees an alteration; NULL is allowed. One that was not committed is undone.
void teak_alteration_end(struct teak_alteration *alteration);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* TEAK_H */
