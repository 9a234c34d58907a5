// The C interface of the Teak storage engine. Generated from crates/c_api: do not edit.
//
// Sections: version; status and errors; bytes and handles; engine and options; tables;
// transactions; rows; cursors; hot backup; monitoring. Calls for database servers are in teak_server.h.
//
// Pointers must not be NULL unless stated; NULL is refused with TEAK_INVALID_ARGUMENT. Strings are
// UTF-8 with a length. Structs that later versions may extend begin with struct_size, which the
// caller sets. A panic inside the library is caught and returned as TEAK_INTERNAL.
// Names follow one rule: teak_<object>_<verb>.
//
// Link with -lteak (pkg-config teak). The program examples/c/basic.c:
//
//   // Opens a database, writes two rows in a transaction, and reads them in order.
//   #include <stdio.h>
//   #include <stdlib.h>
//   #include <teak.h>
//
//   static void check(teak_status status) {
//     char message[256];
//     if (status == TEAK_OK) return;
//     teak_last_error(message, sizeof message);
//     fprintf(stderr, "error %d: %s\n", (int)status, message);
//     exit(1);
//   }
//
//   int main(int argc, char **argv) {
//     teak_engine *engine;
//     teak_engine_options options = {.struct_size = sizeof options};
//     options.directory = teak_string(argc > 1 ? argv[1] : "data");
//     check(teak_engine_open(&options, &engine));
//
//     teak_index_definition rows = {.label = teak_string("rows"), .exact_lookups = true};
//     teak_table_definition fruit = {.struct_size = sizeof fruit,
//                                    .index_struct_size = sizeof rows,
//                                    .name = teak_string("fruit"),
//                                    .indexes = &rows,
//                                    .index_count = 1};
//     check(teak_table_create(engine, &fruit));
//     teak_table *table;
//     check(teak_table_open(engine, fruit.name, &table));
//
//     teak_transaction *transaction;
//     check(teak_transaction_begin(engine, TEAK_REPEATABLE_READ, &transaction));
//     teak_row_entry pear = {.key = teak_string("pear"), .value = teak_string("green")};
//     teak_row_entry plum = {.key = teak_string("plum"), .value = teak_string("blue")};
//     check(teak_transaction_insert(transaction, table, &pear, 1, NULL));
//     check(teak_transaction_insert(transaction, table, &plum, 1, NULL));
//
//     teak_cursor *cursor;
//     teak_row row;
//     check(teak_cursor_open(transaction, table, 0, TEAK_LOCK_NONE, &cursor));
//     teak_status found = teak_cursor_first(cursor, &row);
//     for (; found == TEAK_OK; found = teak_cursor_next(cursor, &row))
//       printf("%.*s: %.*s\n", (int)row.key.len, row.key.data, (int)row.value.len, row.value.data);
//     if (found != TEAK_NOT_FOUND) check(found);
//     teak_cursor_close(cursor);
//     check(teak_transaction_commit(transaction));  // durable when it returns
//
//     teak_table_close(table);
//     check(teak_engine_close(engine));
//     return 0;
//   }

#ifndef TEAK_H
#define TEAK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

// --- Version -------------------------------------------------------------------------------------

// Major version of this header: increased when programs must be changed.
#define TEAK_VERSION_MAJOR 0

// Minor version of this header: increased by additions.
#define TEAK_VERSION_MINOR 1

// Patch version of this header.
#define TEAK_VERSION_PATCH 0

// The version of the library that runs, such as "0.1.0". Static; never NULL.
const char *teak_version(void);

// The version of this header.
#define TEAK_VERSION_STRING "0.1.0"

// --- Status and errors ---------------------------------------------------------------------------
// Every call that can fail returns a teak_status and writes its out-parameters only on TEAK_OK,
// unless stated otherwise. A call whose comment only names a status can return it for the reason
// given in teak_status. After any status other than TEAK_OK and TEAK_NOT_FOUND,
// teak_last_error() returns its message, in the same thread.

// Result of a call. Values never change and are never reused; later versions may add values, so
// treat an unknown value as an error.
typedef enum teak_status {
  // Success; out-parameters are written.
  TEAK_OK = 0,
  // No such key, row, prepared transaction or list element; the cursor has no further row.
  TEAK_NOT_FOUND = 1,
  // A live entry with the same unique key exists. No entry of the row was written.
  TEAK_DUPLICATE_KEY = 2,
  // The timeout expired while the call waited for another transaction.
  TEAK_LOCK_TIMEOUT = 3,
  // Deadlock: this transaction was selected from a cycle in the waits-for graph. Roll it back
  // and retry it.
  TEAK_DEADLOCK = 4,
  // Another transaction changed the row after this transaction's snapshot. Roll the transaction
  // back and retry it.
  TEAK_CONFLICT = 5,
  // teak_transaction_interrupt(), or the caller's interrupt callback, ended the call.
  TEAK_INTERRUPTED = 6,
  // The disk or quota is full, or the log is full and no checkpoint could shorten it in time.
  TEAK_NO_SPACE = 7,
  // Stored bytes are damaged. For a damaged file, the message contains its name and the offset.
  TEAK_CORRUPT = 8,
  // A file operation failed.
  TEAK_IO = 9,
  // A table of this name exists.
  TEAK_TABLE_EXISTS = 10,
  // No table of this name exists.
  TEAK_NO_SUCH_TABLE = 11,
  // A key, value or row exceeds its limit.
  TEAK_TOO_LARGE = 12,
  // An earlier write or sync of the log failed: the engine accepts no more writes. Close it and
  // open it again. teak_engine_checkpoint() also returns this after a failure of an index file;
  // then only the writes of its table fail, with TEAK_READ_ONLY.
  TEAK_POISONED = 13,
  // An invalid argument, such as NULL or a struct_size that is not set, or a call that the state
  // of the table, transaction or alteration does not permit.
  TEAK_INVALID_ARGUMENT = 14,
  // A file has a format version that this library does not read, usually a newer one.
  TEAK_UNSUPPORTED_FORMAT = 15,
  // Out of memory. This version of the library does not return it.
  TEAK_OUT_OF_MEMORY = 16,
  // Internal error, a call on a transaction that has ended, or the engine is closing.
  TEAK_INTERNAL = 17,
  // Another process, or another engine of this process, has the data directory open.
  TEAK_IN_USE = 18,
  // The index was created or replaced after the transaction's snapshot.
  TEAK_TABLE_CHANGED = 19,
  // Locks have reached their memory limit.
  TEAK_TOO_MANY_LOCKS = 20,
  // The table has no index with this number.
  TEAK_NO_SUCH_INDEX = 21,
  // The table refuses writes, because one of its files could not be written or synced.
  TEAK_READ_ONLY = 22,
  // A file of the table is missing, or log records that are retained for the table cannot be
  // applied to it. No row is lost if the files can be read later.
  TEAK_UNAVAILABLE = 23,
  // A backup cannot begin, or has ended before its copy was complete.
  TEAK_BACKUP_FAILED = 24,
  // An encryption key is missing or wrong. The data is intact.
  TEAK_NO_KEY = 25,
} teak_status;

// Copies the message of the calling thread's last error into `buffer`, followed by a NUL if there
// is space for it. Returns the length of the whole message without the NUL, so that a second call
// with a larger buffer gets all of it. `buffer` may be NULL. Successful calls do not change the
// message; TEAK_NOT_FOUND may clear it.
size_t teak_last_error(char *buffer, size_t capacity);

// --- Bytes and handles ---------------------------------------------------------------------------
// Handles are opaque.

// A cut of a backup, from teak_backup_begin() to teak_backup_end(). All threads may use it
// concurrently.
typedef struct teak_backup teak_backup;

// The columns of values that readers of an index need, from teak_columns_new() to teak_columns_free(). All threads may use
// it concurrently.
typedef struct teak_columns teak_columns;

// A cursor over one index of a table, for one transaction, from teak_cursor_open() to
// teak_cursor_close(). Used by the thread that uses the transaction.
typedef struct teak_cursor teak_cursor;

// An open engine, from teak_engine_open() to teak_engine_close(). All threads may use it
// concurrently.
typedef struct teak_engine teak_engine;

// An open table, from teak_table_open() to teak_table_close(). All threads may use it
// concurrently.
typedef struct teak_table teak_table;

// A running transaction, from teak_transaction_begin() to teak_transaction_commit() or
// teak_transaction_rollback(). One thread at a time uses it and its cursors, except for calls that
// are allowed from any thread, such as teak_transaction_interrupt().
typedef struct teak_transaction teak_transaction;

// Bytes with a length. As an argument it is borrowed during the call; a returned slice is valid as
// long as the documentation of the call states.
typedef struct teak_slice {
  // The first byte. NULL with a length of 0 means empty bytes, or no value if the call documents
  // this.
  const uint8_t *data;
  // Number of bytes.
  size_t len;
} teak_slice;

// A slice of a string that ends with NUL, without the NUL.
static inline teak_slice teak_string(const char *string) {
  teak_slice slice = {(const uint8_t *)string, strlen(string)};
  return slice;
}

// --- Engine and options --------------------------------------------------------------------------

// A timeout or period without end.
#define TEAK_NEVER UINT32_MAX

// A lock timeout: a call that would have to wait fails immediately with TEAK_LOCK_TIMEOUT. 0 has
// the same effect, except where it selects the default.
#define TEAK_NO_WAIT (UINT32_MAX - 1)

// A number of bytes per second without a limit.
#define TEAK_NO_LIMIT UINT64_MAX

// Importance of a log message.
typedef enum teak_log_level {
  // Information.
  TEAK_LOG_NOTE = 0,
  // A failure or a condition with which the engine continues.
  TEAK_LOG_WARNING = 1,
  // A failure that needs attention.
  TEAK_LOG_ERROR = 2,
} teak_log_level;

// How an engine is opened. Set all bytes to zero, then struct_size and directory; zero means the
// default for every other field. Fields are added at the end in later versions.
typedef struct teak_engine_options {
  // sizeof(teak_engine_options).
  size_t struct_size;
  // The data directory, UTF-8. Created if it does not exist. Required.
  teak_slice directory;
  // Memory budget in bytes, for all memory of the engine. At least 1 MiB. Default: 256 MiB.
  uint64_t cache_bytes;
  // Memory limit of row and range locks, in bytes. Default: an eighth of cache_bytes.
  uint64_t lock_bytes_max;
  // Size in bytes at which the log continues in a new file. Default: 64 MiB.
  uint64_t log_segment_bytes;
  // Bound of the log's size in bytes. From a quarter of it on, checkpoints shorten the log; from
  // half of it on, writers are slowed; near it, they wait for a checkpoint. Default: 1 GiB.
  uint64_t log_bytes_max;
  // Number of threads that flush and merge. Default: the number of cores.
  uint32_t background_threads;
  // Limit of open file descriptors. Default: no limit. With or without a limit, the files of a
  // table that is not used for a while are closed.
  uint32_t open_files;
  // Seconds between checkpoints. Default: 60.
  uint32_t checkpoint_period_seconds;
  // Maximum time in milliseconds from a commit that did not wait for a sync of the log to that
  // sync. TEAK_NEVER: no maximum. The log is synced earlier by a durable commit, a checkpoint or
  // a new log file, and after 16 MiB of unsynced records. Default: 1000.
  uint32_t log_sync_period_milliseconds;
  // Lock timeout in milliseconds; TEAK_NO_WAIT: do not wait; TEAK_NEVER: no limit. Default:
  // 4000.
  uint32_t lock_timeout_milliseconds;
  // true: commits return before the log is synced, see log_sync_period_milliseconds. A crash of
  // the process or the machine may lose the newest commits; if it loses a commit, it also loses
  // all later ones. Default: false, commits are durable when they return.
  bool commit_without_sync;
  // Receives log messages: `len` bytes of UTF-8 that contain no NUL and are not followed by one.
  // A message has one sentence or a few. Called from any thread, until teak_engine_close() has
  // returned. The callback must not call the engine. Default: messages are dropped.
  void (*log_message)(void *context, teak_log_level level, const char *text, size_t len);
  // Passed to log_message.
  void *log_context;
  // Called when a transaction starts to wait for another, if both have an owner
  // (teak_transaction_set_owner() of teak_server.h), in the thread of the waiting transaction.
  // The blocking transaction does not end before the callback returns, so the callback must not
  // wait for that. It must not call the engine either. Default: none.
  void (*wait_begins)(void *waiter, void *holder);
  // Limit of the bytes per second that background jobs read and write. Jobs that writers wait for
  // are not limited. TEAK_NO_LIMIT: no limit. Default: 256 MiB.
  uint64_t io_bytes_per_second;
  // true: index files bypass the cache of the operating system, if the file system allows it;
  // otherwise a message reports that they do not. Default: false.
  bool direct_io;
  // Directory of the spill files of sorts, UTF-8. It must exist. Other processes may use it, too.
  // Default: the data directory.
  teak_slice spill_directory;
  // Memory limit of the sorts of one statement in bytes, at most a quarter of cache_bytes. Default:
  // an eighth of cache_bytes, at most 256 MiB.
  uint64_t sort_bytes_max;
  // Stores the newest version of a key of the key management. Returns false if there is none. Called from any thread, also
  // by background jobs, until teak_engine_close() has returned; must not call the engine. NULL: there is no key
  // management, so nothing is encrypted, and encrypted files cannot be read.
  bool (*newest_key_version)(void *context, uint32_t key, uint32_t *version);
  // Copies a version of a key, of 1 to `capacity` bytes, to `bytes`. Returns their number, or 0 if there is no such key.
  // As newest_key_version otherwise.
  size_t (*key_bytes)(void *context, uint32_t key, uint32_t version, uint8_t *bytes, size_t capacity);
  // Passed to newest_key_version and key_bytes.
  void *key_context;
  // The id of the key with which the log is encrypted from now on. 0: it is not. Default: 0.
  uint32_t log_encryption_key;
} teak_engine_options;

// Opens the engine of a data directory. An empty directory becomes a new database; after a crash,
// all durable commits are recovered first. TEAK_IN_USE when another engine has the directory open.
// TEAK_CORRUPT when the catalogue or the log is damaged.
teak_status teak_engine_open(const teak_engine_options *options, teak_engine **engine);

// Flushes, writes a checkpoint and closes the engine. Before the call, all cursors and tables must
// be closed and all transactions ended. Frees the handle even on an error. Data that could not be
// flushed is in the log, and the next teak_engine_open() recovers it.
teak_status teak_engine_close(teak_engine *engine);

// Changes the memory budget, at least 1 MiB. The page cache shrinks immediately; the memtables
// shrink as they are flushed.
teak_status teak_engine_set_cache_bytes(teak_engine *engine, uint64_t bytes);

// Changes the memory limit of row and range locks; 0 = an eighth of the memory budget.
teak_status teak_engine_set_lock_bytes_max(teak_engine *engine, uint64_t bytes);

// Changes the memory limit of the sorts of one statement, see teak_engine_options.sort_bytes_max; 0 =
// the default. It applies to sorts that begin afterwards.
teak_status teak_engine_set_sort_bytes_max(teak_engine *engine,
                                           uint64_t bytes);

// Whether other sorts have left memory for those of a load. One that begins nevertheless gets 1 MiB.
// false for NULL.
bool teak_engine_has_sort_memory(teak_engine *engine);

// Takes memory for rows that the caller keeps, such as those that it may load later, from the memory
// budget. false: all callers would keep more than a sixteenth of the budget; nothing was taken.
bool teak_engine_take_memory(teak_engine *engine,
                             uint64_t bytes);

// Returns memory that teak_engine_take_memory() took.
teak_status teak_engine_return_memory(teak_engine *engine, uint64_t bytes);

// Notes that the caller uses `bytes` more for other things, such as its handles of tables, or less. The memory
// budget includes them.
teak_status teak_engine_note_memory(teak_engine *engine,
                                    int64_t bytes);

// Changes the limit of the bytes per second that background jobs read and write, see
// teak_engine_options.io_bytes_per_second; 0 = the default.
teak_status teak_engine_set_io_bytes_per_second(teak_engine *engine, uint64_t bytes);

// Sets whether commits are durable when they return; overrides
// teak_engine_options.commit_without_sync.
teak_status teak_engine_set_commit_sync(teak_engine *engine, bool sync);

// Changes teak_engine_options.log_sync_period_milliseconds. 0 selects the default; TEAK_NEVER is
// allowed.
teak_status teak_engine_set_log_sync_period(teak_engine *engine, uint32_t milliseconds);

// Makes all committed transactions durable, by syncing the log.
teak_status teak_engine_flush_log(teak_engine *engine);

// Flushes every memtable, writes a checkpoint of every changed index, and waits until that is
// done. The engine writes checkpoints automatically; an explicit one shortens the next recovery.
teak_status teak_engine_checkpoint(teak_engine *engine);

// --- Tables --------------------------------------------------------------------------------------
// A table has a row index, number 0, and up to 255 secondary indexes. Each index maps keys to
// values, both byte strings. The caller derives the entries of a row and writes all of them in
// one call.

// Instead of the number of a bit: every value has the column.
#define TEAK_NEVER_ABSENT UINT32_MAX

// Number of counters that a table has.
#define TEAK_TABLE_COUNTERS 8

// A compression codec, see teak_index_definition.codec.
typedef enum teak_codec {
  // The default, TEAK_CODEC_ZSTD.
  TEAK_CODEC_DEFAULT = 0,
  // No compression.
  TEAK_CODEC_NONE = 1,
  // LZ4.
  TEAK_CODEC_LZ4 = 2,
  // Zstandard.
  TEAK_CODEC_ZSTD = 3,
  // zlib.
  TEAK_CODEC_ZLIB = 4,
  // Snappy.
  TEAK_CODEC_SNAPPY = 5,
  // LZMA.
  TEAK_CODEC_LZMA = 6,
} teak_codec;

// The suffix of the keys of an index.
typedef enum teak_suffix {
  // No suffix: teak_cursor_set_prefix uses no filters.
  TEAK_SUFFIX_NONE = 0,
  // The last `suffix_bytes` bytes of a key.
  TEAK_SUFFIX_FIXED = 1,
  // The last two bytes of a key, big-endian, are the number of bytes before them that belong to
  // the suffix.
  TEAK_SUFFIX_COUNTED = 2,
} teak_suffix;

// What the bytes of a column mean.
typedef enum teak_column_kind {
  // Any bytes.
  TEAK_COLUMN_BYTES = 0,
  // An unsigned little-endian integer of 1 to 8 bytes.
  TEAK_COLUMN_UNSIGNED_LITTLE = 1,
  // A little-endian integer of 1 to 8 bytes in two's complement.
  TEAK_COLUMN_SIGNED_LITTLE = 2,
  // An unsigned big-endian integer of 1 to 8 bytes, or bytes that order like one.
  TEAK_COLUMN_UNSIGNED_BIG = 3,
  // A little-endian IEEE 754 number of 4 or 8 bytes.
  TEAK_COLUMN_FLOAT = 4,
  // A packed decimal number of `digits` digits, at most 18, `fraction` of them after the decimal point, as
  // MariaDB stores the type DECIMAL.
  TEAK_COLUMN_DECIMAL = 5,
} teak_column_kind;

// A column of fixed width.
typedef struct teak_column {
  // What the bytes mean.
  teak_column_kind kind;
  // Number of bytes. Ignored for decimals.
  uint32_t width;
  // Only of decimals: the number of digits, and of those after the decimal point.
  uint32_t digits;
  // See `digits`.
  uint32_t fraction;
} teak_column;

// A column of fixed width that values may lack.
typedef struct teak_optional_column {
  // The column.
  teak_column column;
  // The number of the bit that is set in values that lack the column: eight times its byte in the
  // value, which must be one of those of `value_columns`, plus its place in the byte, the lowest being 0.
  uint32_t null_bit;
} teak_optional_column;

// An index of a table to create. Zero means the default for every field except label. Fields are
// added at the end in later versions.
typedef struct teak_index_definition {
  // Becomes part of the file's name: characters other than letters, digits, '_' and '-' are
  // replaced by '_'. UTF-8.
  teak_slice label;
  // Compression of the pages of bottom runs, and of values of 16 KiB or more, which are stored
  // separately. Pages of other runs use LZ4.
  teak_codec codec;
  // Maximum size of a page in bytes before compression, 1 KiB to 8 MiB. Default: 64 KiB.
  uint32_t page_bytes;
  // true: filters are built, for lookups of complete keys (rows, unique keys). Default: false.
  bool exact_lookups;
  // Number of bytes at the front of every value that contain columns of fixed width. If all
  // values of a page of a bottom run are at least this long, the page stores the first bytes of
  // all values, then the second bytes, and so on, which compresses better. More than 64 KiB
  // count as 64 KiB. Default: 0.
  uint32_t value_fixed_bytes;
  // The end of the keys, after the part that is passed to teak_cursor_set_prefix. Filters contain
  // the part of each key before its suffix. Must be TEAK_SUFFIX_NONE if exact_lookups is true.
  // Default: TEAK_SUFFIX_NONE.
  teak_suffix suffix;
  // Only for TEAK_SUFFIX_FIXED: the length of the suffix in bytes, at most 65535.
  uint32_t suffix_bytes;
  // The columns that every key consists of, if all keys have one length; NULL: not known.
  const teak_column *key_columns;
  // Number of columns of keys.
  size_t key_column_count;
  // The columns that the first `value_fixed_bytes` bytes of every value consist of; NULL: not known.
  // Pages of bottom runs encode columns by type, which makes files smaller. Values that have other
  // columns there are encoded correctly, too.
  const teak_column *value_columns;
  // Number of columns of values.
  size_t value_column_count;
  // The columns of fixed width that follow the first `value_fixed_bytes` bytes of values, in this order;
  // NULL: not known. If values also have no other bytes than those of their
  // variable columns, pages of bottom runs encode these columns by type, too.
  const teak_optional_column *optional_columns;
  // Number of optional columns.
  size_t optional_column_count;
  // The columns of byte strings that follow the optional columns: for each the number of the bit that
  // is set in the values that lack it (see teak_optional_column), or TEAK_NEVER_ABSENT. Values contain the
  // length of each string, an LEB128 varint, then all strings. NULL: not known.
  const uint32_t *variable_columns;
  // Number of variable columns.
  size_t variable_column_count;
  // The id of the key with which the file is encrypted (see teak_engine_options.newest_key_version). 0: it is not.
  uint32_t encryption_key;
} teak_index_definition;

// A table to create. Fields are added at the end in later versions.
typedef struct teak_table_definition {
  // sizeof(teak_table_definition).
  size_t struct_size;
  // sizeof(teak_index_definition).
  size_t index_struct_size;
  // A path relative to the data directory, UTF-8, at most 1024 bytes: "orders" or "shop/orders".
  teak_slice name;
  // Index 0 contains the rows; the others are secondary indexes.
  const teak_index_definition *indexes;
  // Number of indexes, 1 to 256.
  size_t index_count;
  // Bytes stored with the table for the caller, at most 2 MiB. May be empty.
  teak_slice metadata;
} teak_table_definition;

// Sizes of one index. Fields are added at the end in later versions.
typedef struct teak_index_statistics {
  // sizeof(teak_index_statistics), set by the caller.
  size_t struct_size;
  // Estimated number of live entries.
  uint64_t entries;
  // Size of the file in bytes.
  uint64_t disk_bytes;
  // Bytes of the entries on disk before compression.
  uint64_t raw_bytes;
  // Bytes in memory that have not been flushed.
  uint64_t memtable_bytes;
  // Number of levels of nodes.
  uint32_t height;
  // Number of sorted runs.
  uint32_t runs;
  // The codec of the index; never TEAK_CODEC_DEFAULT.
  teak_codec codec;
  // Number of tombstones on disk.
  uint64_t tombstones;
  // Bytes of its decoded blocks in memory; 0 while the table's files are closed.
  uint64_t cached_bytes;
  // Limit of the page cache, which all indexes share, in bytes.
  uint64_t cache_bytes_limit;
  // Mean bytes of a page before compression; 0 while the table's files are closed.
  uint64_t page_bytes;
  // Bytes of the entries in its pages in memory, before compression, including those of columns that were not decoded;
  // 0 while the table's files are closed.
  uint64_t cached_entry_bytes;
} teak_index_statistics;

// Creates a table. Durable on return, as are dropping, renaming and truncating a table.
// TEAK_TABLE_EXISTS.
teak_status teak_table_create(teak_engine *engine, const teak_table_definition *definition);

// Opens a table and its files. TEAK_NO_SUCH_TABLE. TEAK_CORRUPT when one of its files is damaged.
// TEAK_UNAVAILABLE when one is missing, or when log records that are retained for the table cannot
// be applied to it.
teak_status teak_table_open(teak_engine *engine, teak_slice name, teak_table **table);

// Opens a table without its files. The first use of an index opens them, and reports damage. The
// files are closed again when the table is not used for a while, and opened by its next use. While
// they are closed, the sizes of the table are read from the catalogue. TEAK_NO_SUCH_TABLE.
teak_status teak_table_open_lazily(teak_engine *engine, teak_slice name, teak_table **table);

// Opens the files of a table if they are closed, so that damage is reported now. Fails like
// teak_table_open(). `interrupt` may be NULL; it is called while retained log records are applied,
// and while the call waits for threads that apply such records or open damaged tables. It ends the
// call with TEAK_INTERRUPTED when it returns true.
teak_status teak_table_open_files(teak_table *table,
                                  bool (*interrupt)(void *context),
                                  void *context);

// When the table was last written, as teak_table_set_written_at() recorded it; 0: unknown. A crash
// may restore an earlier value.
teak_status teak_table_get_written_at(teak_table *table, uint64_t *when);

// Records when the table was last written, in a unit of the caller's choice.
teak_status teak_table_set_written_at(teak_table *table, uint64_t when);

// Closes a table; NULL is allowed. Its cursors must be closed first.
void teak_table_close(teak_table *table);

// Drops a table and removes its files. Open cursors can still read. TEAK_NO_SUCH_TABLE.
teak_status teak_table_drop(teak_engine *engine, teak_slice name);

// Renames a table and its files. `to` may be in another directory. TEAK_NO_SUCH_TABLE,
// TEAK_TABLE_EXISTS.
teak_status teak_table_rename(teak_engine *engine, teak_slice from, teak_slice to);

// Replaces every index by an empty one, atomically, and resets the counters to 0. Open handles use
// the new indexes. TEAK_NO_SUCH_TABLE.
teak_status teak_table_truncate(teak_engine *engine, teak_slice name);

// `exists` receives whether a table of this name exists.
teak_status teak_table_exists(teak_engine *engine, teak_slice name, bool *exists);

// Calls `sink` with the name of every table except temporary ones, in undefined order. Names have
// no leading "./". A name is valid until `sink` returns.
teak_status teak_table_list(teak_engine *engine,
                            void (*sink)(void *context, teak_slice name),
                            void *context);

// The table's metadata at the time when the handle was opened. Valid until the table is closed.
teak_status teak_table_get_metadata(teak_table *table, teak_slice *metadata);

// The number of indexes, without those that an alteration is adding.
teak_status teak_table_get_index_count(teak_table *table, size_t *count);

// Reads and checks every block of every index, or only of index 0 if the table was opened only to
// be repaired. Reports problems to `sink`, each as a sentence of `len` bytes, and returns the
// status of the first one, such as TEAK_CORRUPT. `interrupt` may be NULL; it is called regularly,
// and ends the check with TEAK_INTERRUPTED when it returns true. Both are called from the calling
// thread.
teak_status teak_table_verify(teak_table *table,
                              bool (*interrupt)(void *context),
                              void (*sink)(void *context, const char *text, size_t len),
                              void *context);

// `damaged` receives whether damage was found in the table since its files were opened, or the
// table was opened only to be repaired.
teak_status teak_table_is_damaged(teak_table *table, bool *damaged);

// The value of a counter of the table; `counter` is 0 to TEAK_TABLE_COUNTERS - 1. Counters belong
// to no transaction: a rollback does not change them. They are 0 in a new table.
teak_status teak_table_counter_get(teak_table *table, uint32_t counter, uint64_t *value);

// Raises a counter to `value`, unless it is already that high. Durable with the next durable
// commit of any transaction with writes.
teak_status teak_table_counter_advance(teak_table *table, uint32_t counter, uint64_t value);

// Sets a counter to a higher or lower value. If another thread raises the counter at the same
// time, that value remains. Durable with the next durable commit of any transaction with writes.
// After an error the counter is unchanged.
teak_status teak_table_counter_set(teak_table *table, uint32_t counter, uint64_t value);

// Locks a counter. Lock calls are counted: the counter remains locked until the same number of
// unlock calls, or until the transaction ends. Waits like a row lock. The lock is advisory: the
// other calls on counters ignore it.
teak_status teak_table_counter_lock(teak_transaction *transaction,
                                    teak_table *table,
                                    uint32_t counter);

// Undoes one lock call of a counter; the last one releases the lock. Does nothing when the
// transaction does not hold the lock.
teak_status teak_table_counter_unlock(teak_transaction *transaction,
                                      teak_table *table,
                                      uint32_t counter);

// Sizes of one index. Reads no data, so it is cheap enough to call often. While the table's files
// are closed, the sizes are those of the time when they were closed, or of the last checkpoint
// before a crash.
teak_status teak_index_get_statistics(teak_table *table,
                                      uint32_t index,
                                      teak_index_statistics *statistics);

// Free bytes inside an index's file, which later writes reuse.
teak_status teak_index_get_free_bytes(teak_table *table, uint32_t index, uint64_t *bytes);

// Estimates the number of entries with lower <= key < upper. A small number is usually exact.
// Uncommitted writes count, too. A slice whose data is NULL means no limit on that side.
teak_status teak_index_estimate_entries(teak_table *table,
                                        uint32_t index,
                                        teak_slice lower,
                                        teak_slice upper,
                                        uint64_t *entries);

// Estimates the number of entries that start with the prefix, like teak_index_estimate_entries.
// The prefix must be as for teak_cursor_set_prefix.
teak_status teak_index_estimate_prefix(teak_table *table,
                                       uint32_t index,
                                       teak_slice prefix,
                                       uint64_t *entries);

// --- Transactions --------------------------------------------------------------------------------
// A deadlock, a conflict or a lock timeout does not undo earlier writes. After a deadlock or a
// conflict, roll the transaction back and retry it; after a lock timeout, the call can be repeated.

// The writes of other transactions that a transaction sees when it reads without locks.
typedef enum teak_isolation {
  // Reads see all writes, including uncommitted ones.
  TEAK_READ_UNCOMMITTED = 0,
  // Reads see the writes committed before the first read of the statement, see
  // teak_transaction_begin_statement().
  TEAK_READ_COMMITTED = 1,
  // Reads see the writes committed before the transaction's first read, or before
  // teak_transaction_take_snapshot().
  TEAK_REPEATABLE_READ = 2,
  // Like TEAK_REPEATABLE_READ. For serializable results, the caller must open every cursor with
  // a lock mode.
  TEAK_SERIALIZABLE = 3,
} teak_isolation;

// Begins a transaction. End it with teak_transaction_commit() or teak_transaction_rollback().
teak_status teak_transaction_begin(teak_engine *engine,
                                   teak_isolation isolation,
                                   teak_transaction **transaction);

// Sets the transaction's lock timeout in milliseconds; 0 or TEAK_NO_WAIT: do not wait; TEAK_NEVER:
// no limit. Overrides teak_engine_options.lock_timeout_milliseconds.
teak_status teak_transaction_set_lock_timeout(teak_transaction *transaction, uint32_t milliseconds);

// Sets whether the commit is durable when it returns. Has no effect if the engine's commits are
// not synced. Default: true.
teak_status teak_transaction_set_commit_sync(teak_transaction *transaction, bool sync);

// Sets what happens to a row that was changed or deleted after the transaction's snapshot. true:
// writing or locking it fails with TEAK_CONFLICT. false (the default): a locking read returns its
// newest committed version, which the transaction can then write; a deleted row is TEAK_NOT_FOUND;
// writing a changed row that the transaction has not locked fails with TEAK_CONFLICT.
teak_status teak_transaction_set_snapshot_isolation(teak_transaction *transaction, bool on);

// Sets the weight of the transaction in the choice of deadlock victims. Of the transactions in a
// cycle, the one with the lowest weight gets TEAK_DEADLOCK. Of several with this weight, it is the
// one that has written the fewest rows, and then the one that has locked the fewest. Default: 0.
teak_status teak_transaction_set_weight(teak_transaction *transaction, uint32_t weight);

// Takes the snapshot now. By default the first read without locks takes it.
teak_status teak_transaction_take_snapshot(teak_transaction *transaction);

// Begins a statement: clears a pending interrupt, and drops the snapshot of a transaction under
// TEAK_READ_COMMITTED or TEAK_READ_UNCOMMITTED, so that its next read takes a new one.
teak_status teak_transaction_begin_statement(teak_transaction *transaction);

// Sets a savepoint; `savepoint` receives its number, which is valid until a rollback to an earlier
// savepoint. Savepoints need not be released.
teak_status teak_transaction_savepoint(teak_transaction *transaction, uint64_t *savepoint);

// Undoes every write since the savepoint, in a time that does not depend on their number. The rows
// of these writes are unlocked unless they were locked before the savepoint; all other locks
// remain.
teak_status teak_transaction_rollback_to_savepoint(teak_transaction *transaction,
                                                   uint64_t savepoint);

// Commits. Frees the handle on TEAK_OK. After an error nothing is committed and the handle must be
// rolled back, with one exception: when syncing the log fails with TEAK_IO or TEAK_POISONED, the
// outcome is unknown until the engine is opened again; teak_transaction_rollback() then only frees
// the handle. Cursors of the transaction must be closed first.
teak_status teak_transaction_commit(teak_transaction *transaction);

// Commits as teak_transaction_commit(), but does not free the handle: after TEAK_OK it can begin another transaction, see
// teak_transaction_begin_again(), or be freed by teak_transaction_rollback(). After an error it must be rolled back. Meant for
// many short transactions: a new handle needs memory.
teak_status teak_transaction_commit_and_keep(teak_transaction *transaction);

// Begins another transaction with a handle from teak_transaction_commit_and_keep(). What teak_transaction_set_...() functions
// have set remains, except an owner (teak_transaction_set_owner()).
teak_status teak_transaction_begin_again(teak_transaction *transaction,
                                         teak_isolation isolation);

// Undoes every write and always frees the handle. Only the rollback of a prepared transaction can
// fail; the transaction then remains prepared. Cursors of the transaction must be closed first.
teak_status teak_transaction_rollback(teak_transaction *transaction);

// Makes reads, writes and waits of the transaction fail with TEAK_INTERRUPTED, until
// teak_transaction_begin_statement(). May be called from any thread while the handle exists. Does
// nothing for NULL.
void teak_transaction_interrupt(teak_transaction *transaction);

// Whether the transaction has writes that were not rolled back. false for NULL.
bool teak_transaction_has_writes(const teak_transaction *transaction);

// --- Rows ----------------------------------------------------------------------------------------

// Maximum length of a key, in bytes.
#define TEAK_KEY_BYTES_MAX 65536

// Rows that are being added to a table, from teak_load_begin() to teak_load_end(). Used by the
// thread that uses the transaction.
typedef struct teak_load teak_load;

// Where an encoder adds rows, during its call only.
typedef struct teak_load_rows teak_load_rows;

// A row's entry in one index. Keys are ordered as by memcmp(). The keys of a secondary index that
// is not unique must contain the primary key, so that no two rows have the same entry.
typedef struct teak_row_entry {
  // Number of the index.
  uint32_t index;
  // false: a live entry with the same key makes the call fail with TEAK_DUPLICATE_KEY, and a
  // transaction that has written or locked the key is waited for. true: the key is not checked.
  // This is faster, for keys that no other row has: in an index that is not unique, and of rows
  // with generated keys. An existing entry with the key would be replaced. Ignored by
  // teak_transaction_delete().
  bool unchecked;
  // The key, at most TEAK_KEY_BYTES_MAX bytes.
  teak_slice key;
  // The value. Ignored by teak_transaction_delete().
  teak_slice value;
} teak_row_entry;

// The entry that made a call fail with TEAK_DUPLICATE_KEY.
typedef struct teak_duplicate {
  // Number of the index.
  uint32_t index;
  // The existing key. Valid until the next call on the transaction or alteration.
  teak_slice key;
  // Its value. Valid until the next call on the transaction or alteration.
  teak_slice value;
  // Whether the entry is a row that teak_transaction_insert_or_lock() has locked. Key and value
  // are then those of its newest version.
  bool is_locked;
} teak_duplicate;

// A change of a row's entry in one index. If both keys are equal, only the value changes.
typedef struct teak_row_change {
  // Number of the index.
  uint32_t index;
  // As in teak_row_entry, for the new key if that differs from the old one.
  bool unchecked;
  // The entry to remove; data NULL: none.
  teak_slice old_key;
  // The entry to write; data NULL: none.
  teak_slice new_key;
  // Value of the entry to write.
  teak_slice new_value;
} teak_row_change;

// Inserts one row atomically, given its entry in every index, index 0 first. On TEAK_DUPLICATE_KEY
// `duplicate`, which may be NULL, receives the existing entry, and the transaction continues
// without the row. The call may wait for a lock, and then fail with TEAK_LOCK_TIMEOUT,
// TEAK_DEADLOCK or TEAK_INTERRUPTED.
teak_status teak_transaction_insert(teak_transaction *transaction,
                                    teak_table *table,
                                    const teak_row_entry *entries,
                                    size_t count,
                                    teak_duplicate *duplicate);

// As teak_transaction_insert(). If an existing row has the same key in index 0, this row is also
// locked, as a cursor with TEAK_LOCK_EXCLUSIVE would lock it, and `duplicate` receives its newest
// version. TEAK_CONFLICT under snapshot isolation when it is newer than the snapshot. The call does
// not wait for this lock: `is_locked` is false if it was not free. Then, and after a duplicate in
// another index, the caller has to read the row with a cursor.
teak_status teak_transaction_insert_or_lock(teak_transaction *transaction,
                                            teak_table *table,
                                            const teak_row_entry *entries,
                                            size_t count,
                                            teak_duplicate *duplicate);

// Updates one row, given the changed entries. Index 0 must be included. TEAK_NOT_FOUND when the
// row does not exist; TEAK_CONFLICT when it changed after the snapshot and this transaction has
// not locked it. Otherwise as teak_transaction_insert().
teak_status teak_transaction_update(teak_transaction *transaction,
                                    teak_table *table,
                                    const teak_row_change *changes,
                                    size_t count,
                                    teak_duplicate *duplicate);

// Deletes one row, given its entry in every index. TEAK_NOT_FOUND when the row does not exist;
// TEAK_CONFLICT when it changed after the snapshot and this transaction has not locked it. Waits
// for locks like teak_transaction_insert().
teak_status teak_transaction_delete(teak_transaction *transaction,
                                    teak_table *table,
                                    const teak_row_entry *entries,
                                    size_t count);

// Returns how many rows of the table the reads of the transaction without locks see, without reading
// them. Takes the snapshot, as the first such read does. TEAK_NOT_FOUND when the number is not known:
// after a crash, after a rebuild of the table, for a snapshot that is older than the table's index,
// under TEAK_READ_UNCOMMITTED, when the transaction has deleted all rows or a range of them, and when
// it has written rows that changed after its snapshot. A scan of a whole index makes it known.
teak_status teak_transaction_count_rows(teak_transaction *transaction,
                                        teak_table *table,
                                        uint64_t *count);

// Whether teak_transaction_count_rows() would probably return the number of rows. Takes no snapshot. false
// for NULL and after an error of opening the table's files.
bool teak_table_knows_row_count(teak_table *table);

// Whether teak_transaction_delete_all() suits the table: it has at least about `rows_min` rows, no
// alteration is building indexes of it, and it was not emptied like this many times shortly before.
// false for NULL and after an error of opening its files.
bool teak_table_can_delete_all(teak_table *table, uint64_t rows_min);

// Deletes all rows of a table; `count` receives their number. Locks the table against writes of
// other transactions until the transaction ends, and waits for locks like
// teak_transaction_insert(). After an error the caller must roll back to a savepoint.
teak_status teak_transaction_delete_all(teak_transaction *transaction,
                                        teak_table *table,
                                        uint64_t *count);

// Whether teak_transaction_delete_range() suits the table: it has no index except that of the rows,
// no alteration is building others, and not many ranges were deleted shortly before. false for NULL
// and after an error of opening its files.
bool teak_table_can_delete_range(teak_table *table);

// As teak_transaction_delete_all(), for the rows with lower <= key < upper. A slice whose data is
// NULL means no limit on that side. Locks this range. TEAK_INVALID_ARGUMENT if the table has several
// indexes.
teak_status teak_transaction_delete_range(teak_transaction *transaction,
                                          teak_table *table,
                                          teak_slice lower,
                                          teak_slice upper,
                                          uint64_t *count);

// Locks a row exclusively, as a read with TEAK_LOCK_EXCLUSIVE does, for a caller that knows what the row contains: reads
// the row only if filters in memory do not decide whether it exists. TEAK_NOT_FOUND if it does not; of about 50 such
// rows, one may be locked. `key`: of index 0.
teak_status teak_transaction_lock_row(teak_transaction *transaction,
                                      teak_table *table,
                                      teak_slice key);

// Locks a key of a unique index that has no live entry, so that no other transaction inserts it
// before this one ends. TEAK_DUPLICATE_KEY when the key has a live entry; it is then not locked.
teak_status teak_transaction_lock_absent(teak_transaction *transaction,
                                         teak_table *table,
                                         uint32_t index,
                                         teak_slice key);

// Whether teak_load_begin() suits the table: it is not temporary, and no alteration is building
// indexes of it. false for NULL and after an error of opening its files.
bool teak_table_can_load(teak_table *table);

// Begins to add many rows to a table. They are sorted and written to its files without a log record
// for each row. `unique` has one element for each index of the table. true: a live entry with the
// same key makes teak_load_finish() fail. false: the keys are not checked; see teak_row_entry.
// `tables`: the number of tables, such as partitions, that the statement loads; they share the memory
// of its sorts.
teak_status teak_load_begin(teak_transaction *transaction,
                            teak_table *table,
                            const bool *unique,
                            size_t unique_count,
                            uint32_t tables,
                            teak_load **load);

// Adds a row, given its entries; `unchecked` of the entries is ignored. No reader sees it before
// teak_load_finish(). After an error other than TEAK_TOO_LARGE the load can only be ended.
teak_status teak_load_add(teak_load *load, const teak_row_entry *entries, size_t count);

// From now on the rows are added by `encode`, which gets batches that are passed with
// teak_load_pass(), in their order. It adds the rows of a batch with teak_load_rows_add(), and returns
// TEAK_OK or the status of a failure, after which the load fails. It is called by one thread at a time,
// often another one than that of the transaction, until teak_load_end(), teak_load_finish(), or a
// failed call for the load returns. `batch` and `rows` are valid during the call only.
teak_status teak_load_encode(teak_load *load,
                             teak_status (*encode)(void *context,
                                                   teak_slice batch,
                                                   teak_load_rows *rows),
                             void *context);

// Passes a batch of so many rows, in a form of the caller's, to the encoder. The batch is copied. The
// call may wait for an earlier batch. An error may be that of an earlier batch; the load can then only
// be ended.
teak_status teak_load_pass(teak_load *load,
                           teak_slice batch,
                           uint64_t rows);

// Adds a row of a batch, as teak_load_add(). Only the encoder calls it.
teak_status teak_load_rows_add(teak_load_rows *rows, const teak_row_entry *entries, size_t count);

// Adds the rows to the table, as rows that the transaction has inserted, and makes them durable;
// they become visible to others when the transaction commits. It must be the transaction that has
// begun the load. `rows` receives their number. `progress` may be NULL; it is called regularly on the
// calling thread, with the number of written entries and their total. On TEAK_DUPLICATE_KEY
// `duplicate`, which may be NULL, receives an entry with the duplicate key, which may be one of the
// load; it is valid until the next call on the transaction. The call may wait for locks like
// teak_transaction_insert(), and until other loads of the table that are being finished are
// committed. After an error the caller must roll back to a savepoint.
teak_status teak_load_finish(teak_load *load,
                             teak_transaction *transaction,
                             void (*progress)(void *context, uint64_t done, uint64_t total),
                             void *context,
                             uint64_t *rows,
                             teak_duplicate *duplicate);

// Frees a load; NULL is allowed. If it was not finished, the table remains unchanged.
void teak_load_end(teak_load *load);

// --- Cursors -------------------------------------------------------------------------------------
// A cursor reads one index, including the writes of its own transaction.

// How a cursor reads, and the mode of a lock.
typedef enum teak_lock_mode {
  // Reads without locks; the isolation level determines which versions.
  TEAK_LOCK_NONE = 0,
  // Reads the newest committed rows and locks them: other transactions can also lock them in
  // this mode, but not write them.
  TEAK_LOCK_SHARED = 1,
  // Reads the newest committed rows and locks them: other transactions can neither lock nor
  // write them.
  TEAK_LOCK_EXCLUSIVE = 2,
} teak_lock_mode;

// Target of a seek.
typedef enum teak_seek {
  // The first key >= the given bytes.
  TEAK_SEEK_AT_OR_AFTER = 0,
  // The first key after all keys that start with the given bytes.
  TEAK_SEEK_AFTER_PREFIX = 1,
  // The last key < the given bytes.
  TEAK_SEEK_BEFORE = 2,
  // The last key that starts with the given bytes or is smaller.
  TEAK_SEEK_AT_OR_BEFORE_PREFIX = 3,
} teak_seek;

// A key and its value. Valid until the next call on the cursor.
typedef struct teak_row {
  // The key.
  teak_slice key;
  // The value; data NULL if it was skipped, see teak_cursor_skip_large_values().
  teak_slice value;
} teak_row;

// Opens a cursor. Close it before the transaction ends and before the table is closed. A cursor
// with a lock mode locks the rows it returns if it reads index 0. On a secondary index it waits
// for uncommitted writes of the entries, but locks no entry: to lock the row, get it from index 0.
// Under TEAK_REPEATABLE_READ and TEAK_SERIALIZABLE, a locking cursor also locks the ranges it
// reads, so that no other transaction inserts there before this one ends. Without a lock mode,
// reads return TEAK_TABLE_CHANGED when the index was created or replaced after the snapshot,
// except under TEAK_READ_UNCOMMITTED.
teak_status teak_cursor_open(teak_transaction *transaction,
                             teak_table *table,
                             uint32_t index,
                             teak_lock_mode mode,
                             teak_cursor **cursor);

// Closes a cursor but keeps its memory, which is less than 4 KiB, for teak_cursor_open_again(). Until then only this function
// and teak_cursor_close() may be called with it. NULL is allowed.
void teak_cursor_park(teak_cursor *cursor);

// Opens a parked cursor as teak_cursor_open() opens a new one. After an error it remains parked.
teak_status teak_cursor_open_again(teak_cursor *cursor,
                                   teak_transaction *transaction,
                                   teak_table *table,
                                   uint32_t index,
                                   teak_lock_mode mode);

// Closes a cursor; NULL is allowed.
void teak_cursor_close(teak_cursor *cursor);

// Restricts every later call to lower <= key < upper. A slice whose data is NULL means no limit on
// that side. If a scan is in progress, the next step starts from its current key: if that key is
// before the bounds in the direction of the step, the step moves to the first key within them; if
// it is after them, there is no row.
teak_status teak_cursor_set_bounds(teak_cursor *cursor, teak_slice lower, teak_slice upper);

// Restricts every later call to the keys that start with the prefix, like teak_cursor_set_bounds.
// The prefix must be the whole part of these keys before their suffix (see teak_index_definition).
// Then reads skip the parts of the index whose filters exclude the prefix. With any other prefix,
// entries may be missing. If the keys of the index have no suffix, the call only sets bounds.
teak_status teak_cursor_set_prefix(teak_cursor *cursor, teak_slice prefix);

// Names the columns of the values of an index that readers need, for teak_cursor_set_columns(). `bits`: `count` numbers with a bit
// for each column of teak_index_definition, first value_columns, then optional_columns, then variable_columns; the lowest bit of
// the first number is the first column, which is always read. Only values that begin with `beginning`, within the first column,
// consist of these columns. Opens the table's files if they are closed.
teak_status teak_columns_new(const teak_table *table,
                             uint32_t index,
                             teak_slice beginning,
                             const uint64_t *bits,
                             size_t count,
                             teak_columns **columns);

// Frees what teak_columns_new() returned; NULL is allowed. Cursors may still read these columns.
void teak_columns_free(teak_columns *columns);

// Lets a cursor for consistent reads return only some columns of the values, which is faster if they are many. The
// values keep their form: they may have any bytes instead of other columns of fixed width, and empty strings instead of other
// variable columns. Values of another form are returned whole, as are all values by locking cursors. `columns`: those of the
// cursor's index; NULL: all columns, the default.
teak_status teak_cursor_set_columns(teak_cursor *cursor,
                                    const teak_columns *columns);

// Sets whether a locking cursor skips rows that other transactions have locked or written, instead
// of waiting. The cursor then locks no ranges. Default: false.
teak_status teak_cursor_set_skip_locked(teak_cursor *cursor, bool skip);

// Makes a locking cursor lock the ranges it reads under every isolation level. Call it before the
// first read.
teak_status teak_cursor_lock_ranges(teak_cursor *cursor);

// Gets the row with exactly this key. The position of a scan does not change. Lookups of missing
// keys are cheap if the index has filters, see teak_index_definition.exact_lookups.
// TEAK_NOT_FOUND.
teak_status teak_cursor_get(teak_cursor *cursor, teak_slice key, teak_row *row);

// Begins to read in the background what teak_cursor_get() of this key will read from the index
// file. A hint: it waits for nothing, and has no effect if the index file bypasses the cache of
// the operating system. Several keys prefetched one after the other are read at the same time.
teak_status teak_cursor_prefetch(teak_cursor *cursor, teak_slice key);

// Moves to a key relative to the given bytes. TEAK_NOT_FOUND when there is none within the bounds.
teak_status teak_cursor_seek(teak_cursor *cursor, teak_slice key, teak_seek mode, teak_row *row);

// Moves to the first row within the bounds. TEAK_NOT_FOUND.
teak_status teak_cursor_first(teak_cursor *cursor, teak_row *row);

// Moves to the last row within the bounds. TEAK_NOT_FOUND.
teak_status teak_cursor_last(teak_cursor *cursor, teak_row *row);

// Moves to the next row. TEAK_NOT_FOUND after the last.
teak_status teak_cursor_next(teak_cursor *cursor, teak_row *row);

// Moves to the next row like teak_cursor_next(), and also returns rows that follow it, as far as
// they are in memory side by side: `count` rows in all, at least one and at most `capacity`. The
// cursor remains on the first of them. `passed`: before that, it moves over so many of the other
// rows that the last call returned; at most their number, and 0 unless the last call on the cursor
// was this one. The bytes of all rows are valid until the next call on the cursor. Rows that the
// transaction writes after a call are not among those that it returned. A locking cursor returns
// one row. TEAK_NOT_FOUND after the last.
teak_status teak_cursor_next_rows(teak_cursor *cursor,
                                  size_t passed,
                                  teak_row *rows,
                                  size_t capacity,
                                  size_t *count);

// Moves to the previous row. TEAK_NOT_FOUND before the first.
teak_status teak_cursor_previous(teak_cursor *cursor, teak_row *row);

// Releases the lock of the row that a locking cursor last returned, for example because the row
// does not match a condition. The row remains locked if the transaction had locked it before.
teak_status teak_cursor_unlock(teak_cursor *cursor);

// --- Hot backup ----------------------------------------------------------------------------------
// The steps: begin; copy steps, until there is no other file; finish; end.

// How far a backup is.
typedef struct teak_backup_progress {
  // Number of files, the log included.
  uint64_t files;
  // Number of files that are copied.
  uint64_t files_copied;
  // Bytes that are copied.
  uint64_t bytes_copied;
  // Bytes that are on the disk only because the backup needs them.
  uint64_t pinned_bytes;
} teak_backup_progress;

// Cuts a backup: pins the state of all transactions that are committed now, in a few milliseconds.
// A transaction that commits during the call may or may not be part of it. The backup will be
// copied to `directory`, at most `bytes_per_second` (0: no limit). It is cancelled when it retains
// more than `pinned_bytes_max` bytes on the disk (0: no limit), or makes no progress for
// `lease_milliseconds`. TEAK_BACKUP_FAILED when another backup is in progress, or a table is
// damaged, unavailable or read-only.
teak_status teak_backup_begin(teak_engine *engine,
                              teak_slice directory,
                              uint64_t bytes_per_second,
                              uint64_t pinned_bytes_max,
                              uint64_t lease_milliseconds,
                              teak_backup **backup);

// Calls `sink` with the path of each index file of the backup, relative to the data directory and
// to the target. The slice is valid during the call of `sink`.
teak_status teak_backup_list(const teak_backup *backup,
                             void (*sink)(void *context, teak_slice path),
                             void *context);

// Copies and verifies the next file. TEAK_NOT_FOUND when there is no other. Several threads may
// copy concurrently. After another error the backup has ended, and the copy is incomplete.
teak_status teak_backup_copy_step(const teak_backup *backup);

// Makes the copy durable, and a data directory, after all files are copied.
teak_status teak_backup_finish(const teak_backup *backup);

// Returns how far the backup is.
teak_status teak_backup_get_progress(const teak_backup *backup, teak_backup_progress *progress);

// Releases what the backup retains, and frees the handle. No other call may use the backup now. NULL
// is allowed.
void teak_backup_end(teak_backup *backup);

// --- Monitoring ----------------------------------------------------------------------------------

// Length of teak_latencies.buckets.
#define TEAK_LATENCY_BUCKETS 24

// A histogram of the durations of operations.
typedef struct teak_latencies {
  // Element 0 counts times below 1 microsecond, element n times below 2^n microseconds that
  // are not in an earlier element, and the last one all longer times.
  uint64_t buckets[TEAK_LATENCY_BUCKETS];
  // Sum of all times, in microseconds.
  uint64_t total_microseconds;
  // The longest time, in microseconds.
  uint64_t longest_microseconds;
  // Half of the operations took at most this time, in microseconds. The value may be up to twice
  // the exact one.
  uint64_t p50_microseconds;
  // 99 % of the operations took at most this time; accuracy as for p50_microseconds.
  uint64_t p99_microseconds;
  // 99.9 % of the operations took at most this time; accuracy as for p50_microseconds.
  uint64_t p999_microseconds;
} teak_latencies;

// Delays of writers because of one cause.
typedef struct teak_delays {
  // The delays, stops included.
  teak_latencies times;
  // Delays during which the bound was reached, so that the writer stopped.
  uint64_t stops;
  // Writers that are stopped now.
  uint64_t stopped_now;
} teak_delays;

// Counts since the engine was opened, and sizes now. Fields are added at the end in later
// versions.
typedef struct teak_engine_statistics {
  // sizeof(teak_engine_statistics), set by the caller.
  size_t struct_size;
  // Memory budget in bytes.
  uint64_t cache_bytes_limit;
  // Memory of the page cache and the memtables, in bytes.
  uint64_t cache_bytes_used;
  // Bytes in use by memtables.
  uint64_t memtable_bytes;
  // Lookups in the page cache that found the block.
  uint64_t cache_hits;
  // Lookups in the page cache that did not find the block.
  uint64_t cache_misses;
  // Blocks read from index files.
  uint64_t blocks_read;
  // Blocks written to index files.
  uint64_t blocks_written;
  // Bytes read from index files.
  uint64_t bytes_read;
  // Bytes written to index files.
  uint64_t bytes_written;
  // Syncs of index files.
  uint64_t data_syncs;
  // Bytes of log records before compression.
  uint64_t log_bytes_appended;
  // Bytes written to the log.
  uint64_t log_bytes_written;
  // Syncs of the log.
  uint64_t log_syncs;
  // Commit records.
  uint64_t log_commits;
  // Flush and merge jobs completed.
  uint64_t flushes;
  // Uncompressed bytes of the entries that these jobs wrote.
  uint64_t flush_bytes_uncompressed;
  // Bytes that these jobs wrote to files.
  uint64_t flush_bytes_written;
  // Rounds of checkpoints.
  uint64_t checkpoints;
  // Compaction debt: uncompressed bytes that are due to be merged into a lower level.
  uint64_t pending_flush_bytes;
  // Filter checks.
  uint64_t filter_checks;
  // Filter checks that avoided a read.
  uint64_t filter_negatives;
  // Delays of writers by backpressure, stops included.
  uint64_t writer_stalls;
  // Total time of these delays, in microseconds.
  uint64_t writer_stall_microseconds;
  // Lock waits.
  uint64_t lock_waits;
  // Lock waits that timed out.
  uint64_t lock_timeouts;
  // Deadlocks.
  uint64_t deadlocks;
  // Transactions that wait for a lock now.
  uint64_t transactions_waiting;
  // Writes and locks refused because the row had changed after the transaction's snapshot.
  uint64_t snapshot_conflicts;
  // Explicit row locks that are held.
  uint64_t row_locks;
  // Memory of row and range locks, in bytes.
  uint64_t lock_bytes;
  // Limit of that memory, in bytes.
  uint64_t lock_bytes_limit;
  // Lock escalations: times that the locks of a transaction in an index were replaced by ranges.
  uint64_t lock_escalations;
  // Locks refused because of the memory limit.
  uint64_t lock_refusals;
  // Transactions that run now.
  uint64_t transactions_active;
  // Committed transactions with writes.
  uint64_t transactions_committed;
  // Rolled back transactions with writes.
  uint64_t transactions_rolled_back;
  // Rows inserted, committed or not.
  uint64_t rows_inserted;
  // Rows updated.
  uint64_t rows_updated;
  // Rows deleted.
  uint64_t rows_deleted;
  // Tables whose files are open.
  uint64_t open_tables;
  // Indexes of open tables.
  uint64_t indexes;
  // Log records replayed when the engine was opened.
  uint64_t recovered_records;
  // Aborted write ids (of transactions, statements and savepoints that were rolled back) whose
  // entries may still be in an index.
  uint64_t aborted_ids;
  // Size of the log in bytes: the larger of the size of its files and the uncompressed size of
  // the records that recovery would read.
  uint64_t log_bytes_used;
  // The bound of the log's size, in bytes.
  uint64_t log_bytes_limit;
  // Times that a writer was slowed, but not stopped, because the log exceeded half of its bound.
  uint64_t log_slowdowns;
  // Times that a writer was stopped because the log was near its bound.
  uint64_t log_stops;
  // Total time during which at least one writer was stopped because of the log, in microseconds.
  uint64_t log_stop_microseconds;
  // Number of write ids since the oldest one that is active or that some snapshot does not see.
  uint64_t write_ids_unsettled;
  // Chunks of the table of write ids. A chunk has a slot for each of its ids.
  uint64_t write_id_chunks;
  // Smaller pieces of the table of write ids, which have replaced chunks.
  uint64_t write_id_pieces;
  // Memory of the table of write ids, in bytes.
  uint64_t write_id_bytes;
  // Length of the open index files, in bytes.
  uint64_t file_bytes;
  // Bytes of live blocks in these files.
  uint64_t live_bytes;
  // Bytes of free extents in these files, which later writes use.
  uint64_t free_bytes;
  // Bytes of replaced blocks in these files that readers still need.
  uint64_t pinned_bytes;
  // Bytes of blocks that were moved within files to make the files smaller.
  uint64_t bytes_moved;
  // Memory of flushed memtables that readers still use, in bytes.
  uint64_t memtable_retired_bytes;
  // Maximum number of upper runs of one child, in all open indexes.
  uint64_t child_runs_max;
  // The longest delay of a write, in microseconds.
  uint64_t writer_stall_longest_microseconds;
  // Times that backpressure stopped a writer, instead of only delaying it.
  uint64_t writer_stops;
  // Writers that are stopped now.
  uint64_t writers_stopped;
  // Checkpoints of index files.
  uint64_t checkpointed_indexes;
  // Checkpoints of index files that failed.
  uint64_t checkpoint_failures;
  // Duration of the last round of checkpoints, in microseconds.
  uint64_t checkpoint_microseconds_last;
  // Duration of the longest round of checkpoints, in microseconds.
  uint64_t checkpoint_microseconds_max;
  // Longest time that freezing a memtable, or installing the result of a flush, waited for
  // locks, in microseconds.
  uint64_t freeze_wait_microseconds_max;
  // Times of commits with writes.
  teak_latencies commit_times;
  // Times of the statements that were reported by teak_engine_count_statement() of
  // teak_server.h.
  teak_latencies statement_times;
  // All memory of the engine, in bytes.
  uint64_t memory_bytes;
  // Bytes of pages, index blocks and separate values that are in use and not in the page cache.
  uint64_t uncached_block_bytes;
  // Bytes of the nodes of open indexes.
  uint64_t node_bytes;
  // Bytes of the buffers of the log.
  uint64_t log_buffer_bytes;
  // Bytes reserved for sorts of new indexes.
  uint64_t sort_bytes;
  // Memory of dropped memtables that is kept for later memtables, in bytes.
  uint64_t memtable_spare_bytes;
  // Tables that cannot be used until their files can be read.
  uint64_t unavailable_tables;
  // Bytes of the log records that are retained for unavailable and read-only tables.
  uint64_t retained_bytes;
  // Index files in the directory `#teak_orphans` when the engine was opened.
  uint64_t orphan_files;
  // Bytes of these files.
  uint64_t orphan_bytes;
  // Tables that refuse writes because one of their files cannot be written or synced.
  uint64_t read_only_tables;
  // Ranges of aborted write ids, without those among the newest ids. Writers stop when there are
  // too many of them.
  uint64_t aborted_ranges;
  // Nodes of open indexes in memory.
  uint64_t nodes_in_memory;
  // Nodes read from index files when they were needed.
  uint64_t node_reads;
  // Nodes evicted from memory.
  uint64_t node_evictions;
  // Time that background jobs waited because of the limit of their I/O, or for reads of
  // statements, in microseconds.
  uint64_t io_throttled_microseconds;
  // Bytes that the settling of old write ids has read and written.
  uint64_t settled_bytes;
  // Bytes that compaction in idle time and after rollbacks has read and written.
  uint64_t idle_compaction_bytes;
  // Blocks that the operating system was asked to read from index files before they were needed.
  uint64_t blocks_prefetched;
  // Loads that teak_load_finish() has added to a table.
  uint64_t bulk_loads;
  // The rows of these loads; also in `rows_inserted`.
  uint64_t bulk_load_rows;
  // Bytes read and written by the threads of alterations within teak_alteration_begin_io().
  uint64_t rebuilding_bytes;
  // Memory of the page cache, in bytes.
  uint64_t page_cache_bytes;
  // Limit of that memory, in bytes. It is what the other users of memory leave of the budget.
  uint64_t page_cache_bytes_limit;
  // Memory of frozen memtables, which wait to be flushed, in bytes.
  uint64_t memtable_frozen_bytes;
  // The memtables' share of the budget, in bytes.
  uint64_t memtable_bytes_limit;
  // The nodes' share of the budget, in bytes.
  uint64_t node_bytes_limit;
  // Size of the log files, in bytes.
  uint64_t log_bytes_kept;
  // Flush and merge jobs that failed.
  uint64_t flush_failures;
  // Threads that took parts of large flushes from the thread of the job.
  uint64_t flush_helpers;
  // Snapshots in use.
  uint64_t snapshots;
  // Tables that exist, temporary ones included.
  uint64_t tables;
  // The number of aborted_ranges at which writers stop.
  uint64_t aborted_ranges_limit;
  // Delays of writers because of the memory of memtables.
  teak_delays delays_memory;
  // Delays of writers because an index has much to merge.
  teak_delays delays_debt;
  // Delays of writers because a child of an index has many runs.
  teak_delays delays_runs;
  // Delays of writers because of the length of the log.
  teak_delays delays_log;
  // Delays of writers because of the number of aborted write ids.
  teak_delays delays_aborted;
} teak_engine_statistics;

// Reads the statistics.
teak_status teak_engine_get_statistics(teak_engine *engine, teak_engine_statistics *statistics);

// Calls `sink` once, with a readable report of `len` bytes on memory, log, flushes, locks and
// transactions.
teak_status teak_engine_get_status_text(teak_engine *engine,
                                        void (*sink)(void *context, const char *text, size_t len),
                                        void *context);

#ifdef __cplusplus
}
#endif

#endif // TEAK_H
