// Calls of the Teak storage engine that a database server needs, in addition to teak.h.
// Generated from crates/c_api: do not edit.
//
// Unlike teak.h, this header may change in any version: compile the caller together with the
// library.

#ifndef TEAK_SERVER_H
#define TEAK_SERVER_H

#include "teak.h"

#ifdef __cplusplus
extern "C" {
#endif

// --- Tables --------------------------------------------------------------------------------------

// The id of a table. It is not assigned to another table of the data directory, and truncation and
// renaming do not change it. Ids of temporary tables are assigned again after the engine was
// closed.
teak_status teak_table_get_id(teak_engine *engine, teak_slice name, uint64_t *id);

// Calls `sink` with the name and the metadata of every table whose name begins with `prefix`.
// Opens no table. The slices are valid until `sink` returns.
teak_status teak_table_list_metadata(teak_engine *engine,
                                     teak_slice prefix,
                                     void (*sink)(void *context,
                                                  teak_slice name,
                                                  teak_slice metadata),
                                     void *context);

// Replaces the metadata of a table. Durable on return. Open handles still return the old metadata.
// TEAK_NO_SUCH_TABLE.
teak_status teak_table_set_metadata(teak_engine *engine, teak_slice name, teak_slice metadata);

// Calls `sink` with the name of every table of a directory, in ascending order and relative to the
// directory. Tables of subdirectories are left out. A name is valid until `sink` returns.
teak_status teak_table_list_directory(teak_engine *engine,
                                      teak_slice directory,
                                      void (*sink)(void *context, teak_slice name),
                                      void *context);

// Compresses bytes that the caller stores as metadata, and calls `sink` once with the result, which
// is not longer than `raw`.
teak_status teak_metadata_compress(teak_slice raw,
                                   void (*sink)(void *context, teak_slice stored),
                                   void *context);

// Decompresses the result of teak_metadata_compress() and calls `sink` once with the bytes.
// `raw_bytes` is their number. TEAK_CORRUPT.
teak_status teak_metadata_decompress(teak_slice stored,
                                     size_t raw_bytes,
                                     void (*sink)(void *context, teak_slice raw),
                                     void *context);

// Creates a table for one session, which exists until it is dropped or the engine is closed. Its
// name must begin with "#temporary-". Its writes are transactional, but neither logged nor synced,
// and snapshots older than the table can read it. teak_table_list() leaves it out.
// TEAK_TABLE_EXISTS.
teak_status teak_table_create_temporary(teak_engine *engine,
                                        const teak_table_definition *definition);

// Makes a table unreadable for the snapshots that exist now, as if it had been created after them.
// For a table whose rows were committed in several steps, of which an older snapshot may see only
// some. The effect lasts until the engine is closed. TEAK_NO_SUCH_TABLE.
teak_status teak_table_refuse_older_snapshots(teak_engine *engine, teak_slice name);

// Reserves `count` consecutive row ids, for tables without a primary key; `first` receives the
// first one. No id is reserved twice, even after a crash, unless the table was truncated.
teak_status teak_table_reserve_row_ids(teak_table *table, uint64_t count, uint64_t *first);

// --- Transactions --------------------------------------------------------------------------------

// Blocks that a thread has accessed since it began: pages, index blocks and separate values.
typedef struct teak_page_counts {
  // Blocks accessed, cached or not.
  uint64_t accessed;
  // Blocks read from disk.
  uint64_t read;
} teak_page_counts;

// Sets the owner for teak_engine_options.wait_begins. The pointer is passed to that callback and
// never dereferenced. It must be valid until the transaction has ended or is detached.
teak_status teak_transaction_set_owner(teak_transaction *transaction, void *owner);

// Sets the thread id assigned by the caller, for the lists of transactions, locks and waits; 0:
// none. May be called from any thread.
teak_status teak_transaction_set_thread(teak_transaction *transaction, uint64_t thread);

// Sequence number of the newest commit that the transaction's snapshot sees; 0 while it has no
// snapshot, and for NULL.
uint64_t teak_transaction_get_snapshot_commit(const teak_transaction *transaction);

// Whether other transactions may have to wait for this one, because it has locked rows or ranges
// or has writes. true for NULL.
bool teak_transaction_holds_locks(const teak_transaction *transaction);

// Whether the entries of secondary indexes that the transaction's snapshot sees must be compared
// with their rows, because the transaction may have written rows that had changed after its
// snapshot. false for NULL, and under snapshot isolation, see
// teak_transaction_set_snapshot_isolation().
bool teak_transaction_is_past_snapshot(const teak_transaction *transaction);

// Sequence number of the newest visible commit; every commit with writes raises it. At least 1; 0
// for NULL.
uint64_t teak_engine_get_newest_commit(teak_engine *engine);

// Transactions are numbered in the order in which they begin. `oldest` receives the number of the
// oldest running transaction, prepared ones included, or `next` if there is none. Every
// transaction that began before the call has a number below `next`. A transaction with number
// `next` or above sees all writes that were committed before the call.
teak_status teak_engine_get_running_transactions(teak_engine *engine,
                                                 uint64_t *oldest,
                                                 uint64_t *next);

// The blocks that the calling thread has accessed and read. The difference between two calls is
// the number for the statement between them.
teak_page_counts teak_thread_get_page_counts(void);

// Adds the time of a statement to teak_engine_statistics.statement_times.
teak_status teak_engine_count_statement(teak_engine *engine, uint64_t microseconds);

// --- Cursors -------------------------------------------------------------------------------------

// Sets whether a locking scan of index 0 is semi-consistent: instead of waiting for a row that
// another transaction has locked or written, it returns the row's newest committed version,
// unlocked. To lock such a row, turn this off and seek the row. Ignored if the cursor locks
// ranges. Default: false.
teak_status teak_cursor_set_semi_consistent(teak_cursor *cursor, bool semi_consistent);

// Whether the row last returned is unlocked because the scan is semi-consistent. false for NULL.
bool teak_cursor_is_unlocked(const teak_cursor *cursor);

// Sets whether rows that the cursor has read remain protected from writes until the transaction
// ends, even after teak_cursor_unlock(). Has an effect only if the cursor locks ranges of index 0.
// Call this before the first read. Default: false.
teak_status teak_cursor_set_retain_locks(teak_cursor *cursor, bool retain);

// Makes a cursor without a lock mode read the newest committed versions and those of its
// transaction instead of a snapshot, under every isolation level. It may return versions of
// different times, so use it for hints only. Call it before the first read.
teak_status teak_cursor_read_newest(teak_cursor *cursor);

// Sets whether scans without locks skip large values, which are stored in blocks of their own:
// such a value is not read, and the data of teak_row.value is NULL. This is for a caller that
// needs only keys. teak_cursor_get() always returns values. Default: false.
teak_status teak_cursor_skip_large_values(teak_cursor *cursor, bool skip);

// --- Aggregates and filters ----------------------------------------------------------------------
// Conditions, groups and aggregates of all rows of an index, computed by column. The steps: open; for each
// group: next, and get the parts of its key and its items; close.

// The kind of a condition.
typedef enum teak_condition_kind {
  // All of the `operands` conditions before this one that are not operands yet.
  TEAK_CONDITION_ALL = 0,
  // At least one of them.
  TEAK_CONDITION_ANY = 1,
  // The number of the column is at least `min` and at most `max`.
  TEAK_CONDITION_WITHIN = 2,
  // The number of the column is less than `min` or more than `max`.
  TEAK_CONDITION_OUTSIDE = 3,
  // The number of the column is one of `numbers`.
  TEAK_CONDITION_IN = 4,
  // The number of the column is none of `numbers`.
  TEAK_CONDITION_NOT_IN = 5,
  // The column is NULL.
  TEAK_CONDITION_IS_NULL = 6,
  // The column is not NULL.
  TEAK_CONDITION_IS_NOT_NULL = 7,
  // The column has byte strings, and `accepts` of the calls returns true for it.
  TEAK_CONDITION_ACCEPTED = 8,
  // The number of the column is less than that of `other`. Both are of the same kind of column: for example integers, or
  // decimals with as many digits after the point.
  TEAK_CONDITION_LESS = 9,
  // It is less or equal.
  TEAK_CONDITION_LESS_OR_EQUAL = 10,
  // It is equal.
  TEAK_CONDITION_EQUAL = 11,
  // It is not equal.
  TEAK_CONDITION_NOT_EQUAL = 12,
} teak_condition_kind;

// The kind of a step.
typedef enum teak_step_kind {
  // The number of `column`.
  TEAK_STEP_COLUMN = 0,
  // `number`.
  TEAK_STEP_NUMBER = 1,
  // The sum of the two numbers before.
  TEAK_STEP_ADD = 2,
  // The first of the two numbers before less the second one.
  TEAK_STEP_SUBTRACT = 3,
  // The product of the two numbers before.
  TEAK_STEP_MULTIPLY = 4,
  // The number before with the other sign.
  TEAK_STEP_NEGATE = 5,
} teak_step_kind;

// The kind of an aggregate.
typedef enum teak_aggregate_kind {
  // The number of rows.
  TEAK_AGGREGATE_COUNT_ROWS = 0,
  // The number of rows in which `column` is not NULL.
  TEAK_AGGREGATE_COUNT = 1,
  // The sum of an expression over the rows in which none of its columns is NULL.
  TEAK_AGGREGATE_SUM = 2,
  // The minimum of `column`.
  TEAK_AGGREGATE_MIN = 3,
  // The maximum of `column`.
  TEAK_AGGREGATE_MAX = 4,
  // The sum of `column`, of kind TEAK_COLUMN_FLOAT, over the rows in which it is not NULL, in the order of the index.
  TEAK_AGGREGATE_SUM_FLOATS = 5,
  // The minimum of `column`, of kind TEAK_COLUMN_FLOAT, without NaN. -0.0 and 0.0 are equal: of equal ones the first. If all
  // values are NaN, an infinity.
  TEAK_AGGREGATE_MIN_FLOAT = 6,
  // The maximum of `column`, as TEAK_AGGREGATE_MIN_FLOAT.
  TEAK_AGGREGATE_MAX_FLOAT = 7,
} teak_aggregate_kind;

// Aggregates of the rows of tables, from teak_aggregate_open() to teak_aggregate_close(). Used by the thread that
// uses the transaction.
typedef struct teak_aggregate teak_aggregate;

// A condition by which scans pass over pages, from teak_page_filter_open() to teak_page_filter_close(). Used by one
// thread at a time.
typedef struct teak_page_filter teak_page_filter;

// A table whose rows teak_aggregate_open() reads.
typedef struct teak_aggregate_table {
  // The table.
  teak_table *table;
  // How values begin that have the form of the index's columns; others are converted first.
  teak_slice beginning;
} teak_aggregate_table;

// A column that a query reads.
typedef struct teak_read_column {
  // Whether it is a column of the index's keys.
  bool is_in_key;
  // Its number: among those of keys, or counted as the bits of teak_columns_new(), but not the first one.
  size_t number;
  // Of a column of keys, which must be of kind TEAK_COLUMN_UNSIGNED_BIG: the column of values of the same width
  // whose numbers it has. The keys contain them big-endian, and signed ones with the inverted sign.
  teak_column value;
} teak_read_column;

// A condition of a row. If a column is NULL, its number matches no condition.
typedef struct teak_condition {
  // What must be true.
  teak_condition_kind kind;
  // The place of the column among the columns of the query.
  uint32_t column;
  // Of TEAK_CONDITION_ALL and TEAK_CONDITION_ANY: how many conditions. Of TEAK_CONDITION_ACCEPTED: the number of the
  // caller's condition, at most 15.
  uint32_t operands;
  // The minimum.
  int64_t min;
  // The maximum.
  int64_t max;
  // Numbers in ascending order.
  const int64_t *numbers;
  // How many.
  size_t number_count;
  // The place of the other column.
  uint32_t other;
} teak_condition;

// A column by which rows are grouped.
typedef struct teak_group_key {
  // The place of the column among the columns of the query.
  uint32_t column;
  // Whether its byte strings are compared by their weights.
  bool is_weighed;
} teak_group_key;

// A step of an expression in postfix order. No step overflows.
typedef struct teak_step {
  // What the step does.
  teak_step_kind kind;
  // The place of the column among the columns of the query.
  uint32_t column;
  // A number.
  int64_t number;
} teak_step;

// An aggregate.
typedef struct teak_aggregate_item {
  // What is computed.
  teak_aggregate_kind kind;
  // The place of the column among the columns of the query.
  uint32_t column;
  // The expression.
  const teak_step *steps;
  // The number of its steps.
  size_t step_count;
} teak_aggregate_item;

// What is computed from rows.
typedef struct teak_aggregate_query {
  // The columns that are read, each once.
  const teak_read_column *columns;
  // Their number.
  size_t column_count;
  // The condition of the rows, in postfix order: operands precede the condition that they belong to.
  const teak_condition *conditions;
  // The number of conditions; 0: all rows count.
  size_t condition_count;
  // The columns by which rows are grouped.
  const teak_group_key *keys;
  // Their number; 0: all rows are one group, even if there are no rows.
  size_t key_count;
  // What is computed for each group.
  const teak_aggregate_item *items;
  // Their number.
  size_t item_count;
  // Bytes of groups in memory. If they take more, the rows are read several times.
  size_t memory_max;
} teak_aggregate_query;

// What the caller does for aggregates.
typedef struct teak_aggregate_calls {
  // Sets `weights` to the weights of a byte string of a key, counted from 0; strings with the same weights are
  // equal. They remain valid until the next call. May be NULL if no key is weighed.
  void (*weigh)(void *context, size_t key, teak_slice text, teak_slice *weights);
  // Whether a condition of the caller, of which `condition` is the number, is true for a byte string. May be NULL if
  // there is none of kind TEAK_CONDITION_ACCEPTED.
  bool (*accepts)(void *context, size_t condition, teak_slice text);
  // Sets `converted` to a value with the form of the index's columns; it remains valid until the next call. `table`:
  // the number of the value's table, counted from 0. Returns false if the value is malformed.
  bool (*convert)(void *context,
                  size_t table,
                  teak_slice key,
                  teak_slice value,
                  teak_slice *converted);
  // Passed to the calls.
  void *context;
} teak_aggregate_calls;

// What a filter looks for.
typedef struct teak_page_filter_query {
  // How values begin that have the form of the index's columns; pages with others are not passed over.
  teak_slice beginning;
  // The columns that are compared, each once.
  const teak_read_column *columns;
  // Their number.
  size_t column_count;
  // The condition of the rows, as in teak_aggregate_query; at least one.
  const teak_condition *conditions;
  // The number of conditions.
  size_t condition_count;
  // As in teak_aggregate_calls.
  bool (*accepts)(void *context, size_t condition, teak_slice text);
  // Passed to `accepts`.
  void *context;
} teak_page_filter_query;

// Prepares to compute aggregates of all rows that a consistent read of the transaction sees, of the same index of
// tables with equal columns, such as partitions. They are read one after the other. Close it before the transaction ends and before a
// table is closed. TEAK_TABLE_CHANGED as for teak_cursor_open().
// TEAK_INVALID_ARGUMENT if there is no table, if columns differ, if a number is needed of a column of byte strings or floats, or if an expression calculates
// with an unsigned integer of eight bytes; its sum is allowed.
//
// The number of a value is, of an integer, the integer, less 2^63 if it is unsigned and has eight bytes; of a decimal,
// all of its digits as an integer; of TEAK_COLUMN_UNSIGNED_BIG, its bytes as an integer. Conditions also compare floats: the
// number of a float is its 64 bits as an integer, or, if it is negative, the same of the positive float with the other
// sign; that of -0.0 is 0.
teak_status teak_aggregate_open(teak_transaction *transaction,
                                const teak_aggregate_table *tables,
                                size_t table_count,
                                uint32_t index,
                                const teak_aggregate_query *query,
                                const teak_aggregate_calls *calls,
                                teak_aggregate **aggregate);

// Moves to the next group, in no particular order. The first call reads the rows. TEAK_NOT_FOUND after the last group.
teak_status teak_aggregate_next(teak_aggregate *aggregate);

// Makes the next call of teak_aggregate_next() read the rows again.
teak_status teak_aggregate_rewind(teak_aggregate *aggregate);

// Sets `value` to the bytes of a column of the group's key, counted from 0; data NULL: the column is NULL. If strings of
// the group differ, it is the one of the row that was found first. Valid until the next call.
teak_status teak_aggregate_get_key(teak_aggregate *aggregate,
                                   size_t key,
                                   teak_slice *value);

// Sets `count` to the number of rows that count for an item, counted from 0, and `value` to its result: of
// TEAK_AGGREGATE_SUM the decimal digits, with a sign if it is negative; of TEAK_AGGREGATE_SUM_FLOATS the eight bytes of an
// IEEE 754 number, little-endian, which is -0.0 if all are; of minima and maxima the bytes of the column; data NULL if no row counts, and for other items. Valid until the next call.
teak_status teak_aggregate_get_item(teak_aggregate *aggregate,
                                    size_t item,
                                    uint64_t *count,
                                    teak_slice *value);

// The number of pages that were not read, because the minima and maxima of their columns exclude the condition. 0 for NULL.
uint64_t teak_aggregate_unread(const teak_aggregate *aggregate);

// Frees an aggregate; NULL is allowed.
void teak_aggregate_close(teak_aggregate *aggregate);

// Prepares a filter for cursors of an index. TEAK_INVALID_ARGUMENT as for teak_aggregate_open().
teak_status teak_page_filter_open(teak_table *table,
                                  uint32_t index,
                                  const teak_page_filter_query *query,
                                  teak_page_filter **filter);

// Moves to the next row like teak_cursor_next_rows(), but may pass over pages of which no row matches the filter's condition.
// It returns all other rows, also those that do not match.
teak_status teak_cursor_next_matching_rows(teak_cursor *cursor,
                                           teak_page_filter *filter,
                                           size_t passed,
                                           teak_row *rows,
                                           size_t capacity,
                                           size_t *count);

// The number of pages that were passed over with the filter. 0 for NULL.
uint64_t teak_page_filter_passed(const teak_page_filter *filter);

// The number of these pages that were not read, because the minima and maxima of their columns exclude the condition. 0 for NULL.
uint64_t teak_page_filter_unread(const teak_page_filter *filter);

// Frees a filter; NULL is allowed.
void teak_page_filter_close(teak_page_filter *filter);

// --- Two-phase commit ----------------------------------------------------------------------------

// Prepares the transaction: it survives a crash until it is committed or rolled back, through its
// handle or by its XID (at most 1024 bytes), and accepts no more writes. Has no effect on a
// transaction without writes, or with writes of temporary tables only. After an error the handle
// must be rolled back.
teak_status teak_transaction_prepare(teak_transaction *transaction, teak_slice xid);

// Commits a prepared transaction without waiting for the disk: if a crash loses the commit, the
// coordinator must commit the transaction again. Commits become visible in the order of these
// calls. Frees the handle on TEAK_OK; after an error the transaction remains prepared.
teak_status teak_transaction_commit_ordered(teak_transaction *transaction);

// Frees the handle. A prepared transaction remains and can be ended by its XID; any other
// transaction is rolled back.
teak_status teak_transaction_detach(teak_transaction *transaction);

// Calls `sink` with the XID of each prepared transaction that no handle owns: those found when the
// engine was opened, and those detached since. The XID is valid until `sink` returns.
teak_status teak_prepared_list(teak_engine *engine,
                               void (*sink)(void *context, teak_slice xid),
                               void *context);

// Commits a prepared transaction by its XID. TEAK_NOT_FOUND when there is none. If a handle owns
// it, the call waits until the handle is detached, and fails with TEAK_LOCK_TIMEOUT after
// `timeout_milliseconds` (TEAK_NEVER: no limit). After an error the transaction remains prepared.
teak_status teak_prepared_commit(teak_engine *engine,
                                 teak_slice xid,
                                 uint32_t timeout_milliseconds);

// Rolls a prepared transaction back by its XID. Otherwise like teak_prepared_commit().
teak_status teak_prepared_rollback(teak_engine *engine,
                                   teak_slice xid,
                                   uint32_t timeout_milliseconds);

// --- Altering tables -----------------------------------------------------------------------------
// The steps: begin; add every entry of a snapshot; build; commit, while no transaction writes the
// table; end.

// A change of a table's indexes and metadata in progress. One thread at a time uses it.
typedef struct teak_alteration teak_alteration;

// The limit of an alteration's I/O.
typedef struct teak_background_io teak_background_io;

// An index to add.
typedef struct teak_added_index {
  // Label and format.
  teak_index_definition definition;
  // true: two entries with equal keys are an error.
  bool unique;
  // true: entries are added in strictly ascending order of their keys. The engine then needs
  // neither memory nor disk space to sort them.
  bool in_order;
} teak_added_index;

// An index of the altered table.
typedef struct teak_planned_index {
  // true: an added index; false: an existing index of the table.
  bool added;
  // Its number among the added indexes, or among the existing ones.
  uint32_t number;
  // For an existing index: its new label, and the format of pages written later. Ignored for an
  // added index.
  teak_index_definition definition;
} teak_planned_index;

// The table after the alteration.
typedef struct teak_alteration_plan {
  // The indexes in their new order. The first one contains the rows and may be an added one.
  // Indexes that are not listed are dropped.
  const teak_planned_index *indexes;
  // Number of indexes.
  size_t index_count;
  // Replaces the table's metadata.
  teak_slice metadata;
} teak_alteration_plan;

// Begins to alter a table: creates the files of the indexes to add. No transaction that has
// written the table may be active; TEAK_LOCK_TIMEOUT when one is prepared and has no handle. After
// this call, writers of its rows must also write the entries of the added indexes, see
// teak_alteration_get_index(). `interrupt` may be NULL. Long calls on the alteration call it
// regularly, on the calling thread, and end with TEAK_INTERRUPTED when it returns true.
teak_status teak_alteration_begin(teak_engine *engine,
                                  teak_table *table,
                                  const teak_added_index *added,
                                  size_t added_count,
                                  bool (*interrupt)(void *context),
                                  void *context,
                                  teak_alteration **alteration);

// The number by which writers of rows refer to an added index until the alteration ends.
teak_status teak_alteration_get_index(teak_alteration *alteration, uint32_t added, uint32_t *index);

// From now on, until teak_alteration_end_io(), which must be called by the same thread, the calling thread
// reads and writes no more than background jobs may (teak_engine_options.io_bytes_per_second), and
// lets other threads read first: it waits in the functions of the alteration.
teak_status teak_alteration_begin_io(teak_alteration *alteration,
                                     teak_background_io **scope);

// Ends the limit; NULL is allowed.
void teak_alteration_end_io(teak_background_io *scope);

// Adds the entry of a row of the table. Entries may be added in any order unless the index is
// `in_order`. The rows must be read from one snapshot taken after teak_alteration_begin().
teak_status teak_alteration_add_entry(teak_alteration *alteration,
                                      uint32_t added,
                                      teak_slice key,
                                      teak_slice value);

// Sorts and writes the entries that were added. `progress` may be NULL; it is called regularly on
// the calling thread, with the number of written entries and their total. On TEAK_DUPLICATE_KEY
// `duplicate`, which may be NULL, receives the duplicate key and the number of the added index; it
// is valid until the next call on the alteration.
teak_status teak_alteration_build(teak_alteration *alteration,
                                  void (*progress)(void *context, uint64_t done, uint64_t total),
                                  void *context,
                                  teak_duplicate *duplicate);

// Looks keys of added unique indexes that were written since teak_alteration_begin() up among the
// entries that were added. Called after teak_alteration_build(), if rows were written in the meantime.
// `reader`: the transaction that has read the rows, from one snapshot that it still has, and which it took
// before rows were written. With NULL, only duplicates that writers have found are returned; the call is
// so repeated before teak_alteration_commit(), when no transaction writes the table. On
// TEAK_DUPLICATE_KEY `duplicate`, which may be NULL, receives an entry with the duplicate key; it is
// valid until the next call on the alteration.
teak_status teak_alteration_verify(teak_alteration *alteration,
                                   teak_transaction *reader,
                                   teak_duplicate *duplicate);

// Commits alterations of one or several tables of one engine atomically. No transaction may write
// the tables during the call. Durable on return. The call ends the alterations, even after an
// error. Free them with teak_alteration_end(). After an error the tables are unchanged, except
// after TEAK_POISONED and TEAK_IO of the log: then recovery determines the outcome.
teak_status teak_alteration_commit(teak_alteration *const *alterations,
                                   const teak_alteration_plan *plans,
                                   size_t count);

// Frees an alteration, and undoes it if it was not committed; NULL is allowed.
void teak_alteration_end(teak_alteration *alteration);

// --- Repairing tables ----------------------------------------------------------------------------
// The steps: open the damaged table; begin an alteration that adds all indexes again, and make
// it a repair; salvage the rows and add their entries; build; commit; end.

// What a salvage has read and lost.
typedef struct teak_salvage_report {
  // sizeof(teak_salvage_report).
  size_t struct_size;
  // Rows read.
  uint64_t rows;
  // Of these, rows of which a newer version, or the deletion, may have been lost.
  uint64_t doubtful_rows;
  // Separate values, pages, runs and nodes that could not be read. Retained log records that
  // could not be read count as one part.
  uint64_t lost_parts;
  // Entries of lost pages and runs, old versions and deletes included. The entries below lost
  // nodes are not included, because their number is unknown.
  uint64_t lost_entries;
} teak_salvage_report;

// Opens a table that may be damaged. If teak_table_open() fails because of its files, the handle can
// only be used for teak_table_verify(), teak_table_salvage() and an alteration that replaces all
// indexes. As long as this handle exists, teak_table_open() and other calls of this function fail
// with TEAK_CORRUPT; teak_table_open_lazily() succeeds, but opening a cursor with its handle fails
// with TEAK_CORRUPT, and writes fail.
//
// TEAK_CORRUPT when nothing can be read: the file of the rows is missing or has no valid superblock.
// `interrupt` may be NULL; it is called while retained log records are applied, and while the call
// waits for threads that apply such records or open damaged tables. It ends the call with
// TEAK_INTERRUPTED when it returns true.
teak_status teak_table_open_damaged(teak_engine *engine,
                                    teak_slice name,
                                    bool (*interrupt)(void *context),
                                    void *context,
                                    teak_table **table);

// `unreadable` receives whether the table could be opened only to be repaired.
teak_status teak_table_is_unreadable(teak_table *table, bool *unreadable);

// Reads the committed rows of a table in the order of their keys, and skips what cannot be read.
// Applies the log records that are retained for the table: TEAK_UNAVAILABLE when they cannot be
// read now, TEAK_LOCK_TIMEOUT when a prepared transaction wrote one of them. Calls `row` for each
// row; `doubtful`: a newer version of the row, or its deletion, may have been lost. `interrupt`
// may be NULL; it is called while log records are read. The call ends with TEAK_INTERRUPTED when
// `row` or `interrupt` returns true. At the end, `lost` is called with sentences about the parts
// that could not be read. No transaction may write the table during the call. `report` is written
// on TEAK_OK.
teak_status teak_table_salvage(teak_table *table,
                               bool (*interrupt)(void *context),
                               bool (*row)(void *context,
                                           teak_slice key,
                                           teak_slice value,
                                           bool doubtful),
                               void (*lost)(void *context, const char *text, size_t len),
                               void *context,
                               teak_salvage_report *report);

// Makes an alteration the repair of a damaged table; it must replace all indexes. Its commit moves
// the old files to the directory #teak_orphans instead of removing them. If a unique index has
// duplicate keys, teak_alteration_build() leaves out up to `duplicates_max` entries and ends after
// that index, see teak_alteration_get_duplicate(). With more duplicates it fails with
// TEAK_DUPLICATE_KEY. An alteration that has left out entries cannot be committed: begin another
// one, without their rows.
teak_status teak_alteration_repair(teak_alteration *alteration, size_t duplicates_max);

// An entry that teak_alteration_build() of a repair has left out of a unique index. `number`
// counts these entries from 0; TEAK_NOT_FOUND after the last one. `duplicate->index` is the number
// of the added index. Valid until the next call on the alteration.
teak_status teak_alteration_get_duplicate(teak_alteration *alteration,
                                          size_t number,
                                          teak_duplicate *duplicate);

// --- Lists of transactions, locks and waits ------------------------------------------------------

// Kind of a lock.
typedef enum teak_lock_kind {
  // One row, or one key of a unique index.
  TEAK_LOCK_KIND_ROW = 0,
  // All rows between two keys: the result of lock escalation.
  TEAK_LOCK_KIND_ROW_RANGE = 1,
  // A gap lock: blocks insertions between two keys.
  TEAK_LOCK_KIND_GAP = 2,
  // Blocks all writes between two keys.
  TEAK_LOCK_KIND_WRITE_RANGE = 3,
  // The implicit locks of the rows that a transaction wrote.
  TEAK_LOCK_KIND_WRITTEN = 4,
  // Only in teak_wait_info: not a lock, but a write that itself waits for a lock in the range. A
  // later request for a gap lock or range lock is queued behind it.
  TEAK_LOCK_KIND_WAITING_WRITE = 5,
} teak_lock_kind;

// A transaction that waits for another.
typedef struct teak_wait_info {
  // Number of the waiting transaction.
  uint64_t requester;
  // Thread id of the waiting transaction, assigned by the caller; 0: none.
  uint64_t requester_thread;
  // Number of the blocking transaction; 0 when it has just ended.
  uint64_t blocker;
  // Thread id of the blocking transaction, assigned by the caller; 0: none.
  uint64_t blocker_thread;
  // Kind of the lock that blocks. A request for a row lock that is ahead in the queue is
  // reported as TEAK_LOCK_KIND_ROW. If the blocking transaction has just ended, a row range is
  // reported as TEAK_LOCK_KIND_ROW, and a write range as TEAK_LOCK_KIND_GAP.
  teak_lock_kind kind;
  // Requested mode of a row lock; otherwise TEAK_LOCK_NONE.
  teak_lock_mode mode;
  // Name of the table; data NULL if it was dropped or is not open.
  teak_slice table;
  // Label of the index; data NULL if `table` is NULL.
  teak_slice index;
  // The requested key.
  teak_slice key;
  // Duration of the wait, so far or until it failed, in milliseconds.
  uint64_t waited_milliseconds;
} teak_wait_info;

// A running transaction.
typedef struct teak_transaction_info {
  // Number of the transaction; numbers ascend in the order in which transactions begin.
  uint64_t id;
  // Thread id assigned by the caller, see teak_transaction_set_thread(); 0: none.
  uint64_t thread;
  // Its isolation level.
  teak_isolation isolation;
  // Start time, in microseconds since 1970.
  uint64_t started_microseconds;
  // Commit sequence number of its snapshot; 0: no snapshot.
  uint64_t snapshot;
  // Rows written, including rows undone by a rollback to a savepoint.
  uint64_t rows_written;
  // Number of its write ids that were not rolled back.
  uint64_t write_ids;
  // Number of its row locks, without row ranges and implicit locks.
  uint64_t row_locks;
  // Memory of its row and range locks, and of its ranges of write ids beyond the first 1024, in
  // bytes.
  uint64_t lock_bytes;
  // The XID of a prepared transaction; data NULL: not prepared.
  teak_slice prepared_as;
  // Whether it waits for a lock.
  bool is_waiting;
  // Duration of that wait so far, in milliseconds; 0 if it does not wait.
  uint64_t waited_milliseconds;
} teak_transaction_info;

// A lock.
typedef struct teak_lock_info {
  // Number of the transaction that holds it.
  uint64_t transaction;
  // That transaction's thread id, assigned by the caller; 0: none.
  uint64_t thread;
  // Kind of the lock.
  teak_lock_kind kind;
  // Shared or exclusive; gap locks and range locks are always shared.
  teak_lock_mode mode;
  // Name of the table; data NULL for TEAK_LOCK_KIND_WRITTEN, and if the table was dropped or is
  // not open.
  teak_slice table;
  // Label of the index; data NULL if `table` is NULL.
  teak_slice index;
  // The row's key, or the first key of the range; data NULL: unknown, or TEAK_LOCK_KIND_WRITTEN.
  teak_slice low;
  // The first key after the range; data NULL for a row, and if the range extends to the end of
  // the index.
  teak_slice high;
  // Rows written, for TEAK_LOCK_KIND_WRITTEN; else 0.
  uint64_t rows;
} teak_lock_info;

// Reports the transaction's last failed wait (TEAK_LOCK_TIMEOUT or TEAK_DEADLOCK): calls `sink`
// for each transaction that blocked it; if all of them have ended, calls it once with a `blocker`
// of 0. TEAK_NOT_FOUND if the wait was already reported, or there was none. May be called from any
// thread. In this and the following calls, the struct is valid until `sink` returns.
teak_status teak_transaction_take_failed_wait(teak_engine *engine,
                                              teak_transaction *transaction,
                                              void (*sink)(void *context, const teak_wait_info *wait),
                                              void *context);

// Calls `sink` for each running transaction, prepared ones included, in the order of their
// numbers.
teak_status teak_transaction_list(teak_engine *engine,
                                  void (*sink)(void *context,
                                               const teak_transaction_info *transaction),
                                  void *context);

// Calls `sink` for each lock, and for each transaction with writes (TEAK_LOCK_KIND_WRITTEN). The
// list is not a snapshot: locks are acquired and released during the call.
teak_status teak_lock_list(teak_engine *engine,
                           void (*sink)(void *context, const teak_lock_info *lock),
                           void *context);

// Calls `sink` for each pair of a waiting transaction and one that blocks it or is the next one
// ahead of it in the queue.
teak_status teak_lock_wait_list(teak_engine *engine,
                                void (*sink)(void *context, const teak_wait_info *wait),
                                void *context);

// --- List of indexes -----------------------------------------------------------------------------

// An index of a table. If its file is closed, the sizes are those of the time when it was closed, or of
// the last checkpoint before a crash, and `pages`, `cached_bytes` and all counts since the file was opened are 0.
typedef struct teak_index_info {
  // The name of the table.
  teak_slice table;
  // The label, see teak_index_definition.
  teak_slice label;
  // The path of the file, relative to the data directory.
  teak_slice path;
  // The number of the index in the table; 0 contains the rows.
  uint32_t index;
  // Compression of bottom runs; never TEAK_CODEC_DEFAULT.
  teak_codec codec;
  // Whether the file is open.
  bool is_open;
  // Estimated number of live entries.
  uint64_t entries;
  // Number of tombstones on disk.
  uint64_t tombstones;
  // Bytes of the entries on disk before compression, old versions included.
  uint64_t raw_bytes;
  // Bytes of the file that contain data.
  uint64_t live_bytes;
  // Bytes of the file.
  uint64_t file_bytes;
  // Bytes in memory that have not been flushed.
  uint64_t memtable_bytes;
  // Bytes of its decoded blocks in memory.
  uint64_t cached_bytes;
  // Number of levels of nodes.
  uint64_t height;
  // Number of sorted runs.
  uint64_t runs;
  // Number of pages.
  uint64_t pages;
  // Number of blocks read since the file was opened.
  uint64_t blocks_read;
  // Bytes of these blocks in the file.
  uint64_t bytes_read;
  // Bytes of the filters in memory, which are a part of cached_bytes.
  uint64_t filter_bytes_in_memory;
  // Number of entries of the index blocks with these filters.
  uint64_t filter_entries_in_memory;
  // Number of look-ups in filters since the file was opened.
  uint64_t filter_checks;
  // Number of those that excluded the key.
  uint64_t filter_negatives;
  // Bytes before compression that flushes of memtables have written since the file was opened.
  uint64_t raw_bytes_flushed;
  // Bytes before compression that all flushes and merges have written since the file was opened.
  uint64_t raw_bytes_written;
  // Bytes that were written to the file since it was opened.
  uint64_t bytes_written;
  // The id of the key with which new blocks are encrypted; 0: they are not.
  uint32_t encryption_key;
  // The id of the key with which all blocks are encrypted, in version `encrypted_with_version` or a newer one; 0: they
  // are not. Differs from `encryption_key` while blocks are being written again with another key.
  uint32_t encrypted_with_key;
  // The oldest version that a block may have.
  uint32_t encrypted_with_version;
  // Whether blocks may be encrypted otherwise, because the key was changed before or is being changed.
  bool has_other_keys;
} teak_index_info;

// Calls `sink` for each index of each table except temporary ones, in the order of the names of the
// tables. Opens no files. Slices are valid during the call of `sink`.
teak_status teak_index_list(teak_engine *engine,
                            void (*sink)(void *context, const teak_index_info *index),
                            void *context);

// --- Reports that read tables --------------------------------------------------------------------

// A part of the pages of an index.
typedef enum teak_page_part {
  // The heads of entries: types, write ids and lengths.
  TEAK_PAGE_PART_HEADS = 0,
  // Whole keys.
  TEAK_PAGE_PART_KEYS = 1,
  // A column of the keys.
  TEAK_PAGE_PART_KEY_COLUMN = 2,
  // Whole values, or what is not stored by column of them.
  TEAK_PAGE_PART_VALUES = 3,
  // A column of the values: value_columns of the index are numbered first, then optional_columns, then
  // variable_columns.
  TEAK_PAGE_PART_VALUE_COLUMN = 4,
} teak_page_part;

// What a range of a file contains.
typedef enum teak_range_kind {
  // The superblocks.
  TEAK_RANGE_SUPERBLOCKS = 0,
  // The list of free space of the last checkpoint.
  TEAK_RANGE_SPACE_MAP = 1,
  // A node.
  TEAK_RANGE_NODE = 2,
  // The list of runs to which several children refer.
  TEAK_RANGE_SHARED_RUNS = 3,
  // Index blocks of a run.
  TEAK_RANGE_INDEX = 4,
  // Pages of a run.
  TEAK_RANGE_PAGES = 5,
  // Values that are stored apart from their entries; nodes that were replaced since the last
  // checkpoint.
  TEAK_RANGE_UNLISTED = 6,
  // Free space.
  TEAK_RANGE_FREE = 7,
  // Space that a writer has reserved, or that was freed but is needed by a reader, or until a later
  // checkpoint.
  TEAK_RANGE_UNAVAILABLE = 8,
} teak_range_kind;

// The callbacks of a report that reads the files of tables. Slices are valid during a call.
typedef struct teak_table_visitor {
  // Passed to the callbacks.
  void *context;
  // Whether the table is to be read.
  bool (*wants)(void *context, teak_slice table);
  // Called for a table that cannot be read, and is left out.
  void (*skips)(void *context, teak_slice table, teak_slice reason);
  // Called often. If it returns true, the report ends with TEAK_INTERRUPTED.
  bool (*interrupts)(void *context);
} teak_table_visitor;

// A part of the pages of an index, in a sample of the pages.
typedef struct teak_column_info {
  // The name of the table.
  teak_slice table;
  // The label of the index.
  teak_slice label;
  // The number of the index in the table; 0 contains the rows.
  uint32_t index;
  // The part.
  teak_page_part part;
  // The number of the column, of a column.
  uint32_t column;
  // Whether all values have the same number of bytes, and a kind.
  bool has_kind;
  // What the bytes mean, if `has_kind`.
  teak_column_kind kind;
  // Bytes of each value, if `has_kind`.
  uint32_t width;
  // The encodings and their shares of the pages, as text.
  teak_slice encodings;
  // Number of values in the sample.
  uint64_t values;
  // Bytes of these values.
  uint64_t raw_bytes;
  // Their bytes in pages, before these are compressed.
  uint64_t encoded_bytes;
  // Number of sampled pages that have the part.
  uint64_t part_pages;
  // Number of sampled pages.
  uint64_t sampled_pages;
  // Bytes of the sampled pages before compression.
  uint64_t sampled_encoded_bytes;
  // Bytes of the sampled pages in the file.
  uint64_t sampled_stored_bytes;
  // Number of pages of the index.
  uint64_t pages;
} teak_column_info;

// A range of the file of an index.
typedef struct teak_range_info {
  // The name of the table.
  teak_slice table;
  // The label of the index.
  teak_slice label;
  // The number of the index in the table; 0 contains the rows.
  uint32_t index;
  // Offset of the range in the file.
  uint64_t offset;
  // Number of bytes.
  uint64_t bytes;
  // The contents.
  teak_range_kind kind;
  // Number of blocks; 0: unknown.
  uint64_t blocks;
  // Whether the blocks belong to a run.
  bool has_run;
  // The offset of the first index block of the run, which identifies it.
  uint64_t run;
  // Whether it is a bottom run, which has the oldest entries of a leaf.
  bool is_bottom;
  // The height of the node, or of the node with the child that has the run: 1 above the leaves; 0:
  // neither node nor run.
  uint32_t height;
} teak_range_info;

// Calls `sink` for each part of the pages of each index of the tables that the visitor wants, except
// temporary ones. Opens the files of these tables, one table at a time, and reads at most 32 pages of
// each index. Blocks no writer. Slices are valid during the call of `sink`.
teak_status teak_column_list(teak_engine *engine,
                             const teak_table_visitor *visitor,
                             void (*sink)(void *context, const teak_column_info *column));

// Calls `sink` for each range of the file of each index of the tables that the visitor wants, except
// temporary ones. Opens the files of these tables, one table at a time, and reads their nodes and
// index blocks, but no pages. Blocks no writer. Slices are valid during the call of `sink`.
teak_status teak_block_map(teak_engine *engine,
                           const teak_table_visitor *visitor,
                           void (*sink)(void *context, const teak_range_info *range));

// --- Background jobs and the log -----------------------------------------------------------------

// What a background job does.
typedef enum teak_job_kind {
  // Writes a memtable as runs.
  TEAK_JOB_FLUSH = 0,
  // Merges runs, or moves them down.
  TEAK_JOB_COMPACTION = 1,
  // Moves blocks within a file.
  TEAK_JOB_RELOCATION = 2,
  // Makes the file of an index durable.
  TEAK_JOB_CHECKPOINT = 3,
  // A round of checkpoints, which trims the log.
  TEAK_JOB_CHECKPOINT_ROUND = 4,
  // Builds indexes for an alteration.
  TEAK_JOB_INDEX_BUILD = 5,
  // Writes the rows of a bulk load.
  TEAK_JOB_BULK_LOAD = 6,
} teak_job_kind;

// What needs the oldest record of the log.
typedef enum teak_log_need {
  // Nothing: the index files have all records.
  TEAK_LOG_NEED_NONE = 0,
  // An index whose file does not have the record.
  TEAK_LOG_NEED_INDEX = 1,
  // A commit in progress.
  TEAK_LOG_NEED_COMMIT = 2,
} teak_log_need;

// A background job.
typedef struct teak_job_info {
  // What it does.
  teak_job_kind kind;
  // Its form or purpose, as text.
  teak_slice detail;
  // The name of the table; data NULL: none, or unknown.
  teak_slice table;
  // The label of the index, or of the first of several; data NULL like `table`.
  teak_slice index;
  // The number of this index in the table; 0 contains the rows.
  uint32_t index_number;
  // Whether it runs; otherwise it waits.
  bool is_running;
  // When it began, in microseconds since 1970, if it runs.
  uint64_t started_microseconds;
  // Time since then.
  uint64_t elapsed_milliseconds;
  // Whether its bytes are counted.
  bool has_io;
  // Bytes read so far.
  uint64_t bytes_read;
  // Bytes written so far.
  uint64_t bytes_written;
  // Whether it knows its progress.
  bool has_progress;
  // Number of entries, or of indexes of a round, that are done.
  uint64_t done;
  // Their total.
  uint64_t total;
  // Whether the number of waiting bytes is known, if it waits.
  bool has_waiting_bytes;
  // Bytes that wait to be flushed or merged, those of running jobs included.
  uint64_t waiting_bytes;
  // Whether it has failed and is tried again later.
  bool has_failed;
  // Time until then.
  uint64_t retry_milliseconds;
} teak_job_info;

// The log. Positions are numbers of bytes since the data directory was created, sizes are in bytes.
typedef struct teak_log_info {
  // The oldest record in the files of the log.
  uint64_t start;
  // The position from which recovery would read now.
  uint64_t replay_from;
  // The oldest record that is needed now; the end of the log if none is.
  uint64_t needed_from;
  // What needs it.
  teak_log_need needed_by;
  // The name of the table, if an index needs it; data NULL: none, or unknown.
  teak_slice table;
  // The label of the index; data NULL like `table`.
  teak_slice index;
  // The number of this index in the table; 0 contains the rows.
  uint32_t index_number;
  // The position before which all records are durable.
  uint64_t durable;
  // The position of the next record.
  uint64_t end;
  // Number of files.
  uint64_t segments;
  // Size of these files.
  uint64_t segments_bytes;
  // Size of files that are prepared, or trimmed and not yet reused or removed.
  uint64_t spare_bytes;
  // The size that is compared with the limits.
  uint64_t bytes;
  // Whether the size of the log is limited.
  bool has_limits;
  // The size above which writers are slowed.
  uint64_t slow_bytes;
  // The size at which writers stop.
  uint64_t stop_bytes;
  // The bound.
  uint64_t bytes_max;
} teak_log_info;

// Calls `sink` for each background job that runs, the oldest first, and then for those that wait.
// Slices are valid during the call of `sink`.
teak_status teak_job_list(teak_engine *engine,
                          void (*sink)(void *context, const teak_job_info *job),
                          void *context);

// Calls `sink` with the state of the log. Slices are valid during the call of `sink`.
teak_status teak_log_describe(teak_engine *engine,
                              void (*sink)(void *context, const teak_log_info *log),
                              void *context);

// --- Hot backup ----------------------------------------------------------------------------------
// The steps: arm; begin a stage; end the stage. The engine copies in a thread of its own.

// Where a requested backup stands.
typedef enum teak_backup_state {
  // It waits for the server to block commits.
  TEAK_BACKUP_ARMED = 0,
  // The cut is made, and its files are being copied.
  TEAK_BACKUP_COPYING = 1,
  // The copy is complete.
  TEAK_BACKUP_COMPLETE = 2,
  // It has failed, or was cancelled.
  TEAK_BACKUP_ENDED = 3,
} teak_backup_state;

// A requested backup.
typedef struct teak_backup_info {
  // Where it stands.
  teak_backup_state state;
  // The directory to copy to.
  teak_slice target;
  // When it was armed, in microseconds since 1970.
  uint64_t armed_microseconds;
  // When it was complete, or has failed; 0: not yet.
  uint64_t ended_microseconds;
  // How many times the server has begun to block commits for a backup since it was armed.
  uint64_t stages;
  // Whether the cut is made.
  bool is_cut;
  // The position in the log of the cut.
  uint64_t position;
  // How long the cut took.
  uint64_t cut_microseconds;
  // Number of files, the log included.
  uint64_t files;
  // Number of files that are copied.
  uint64_t files_copied;
  // Bytes that are copied.
  uint64_t bytes_copied;
  // Bytes that are on the disk only because the backup needs them.
  uint64_t pinned_bytes;
  // Why it has failed; empty if it has not.
  teak_slice failure;
} teak_backup_info;

// Requests a backup to `directory`, an absolute path, at most `bytes_per_second` (0: no limit). The
// next call of teak_backup_end_stage() makes the cut. The request ends if there is none within
// `armed_milliseconds`; a request with the same directory extends the time. TEAK_BACKUP_FAILED when
// another backup is armed or in progress.
teak_status teak_backup_arm(teak_engine *engine,
                            teak_slice directory,
                            uint64_t bytes_per_second,
                            uint64_t armed_milliseconds);

// Notes that the server begins to block commits for a backup. Returns whether a backup is armed.
bool teak_backup_begin_stage(teak_engine *engine);

// Called when the server ends a backup, before it permits commits again. If `commits_are_blocked`,
// makes the cut of an armed backup, in a few milliseconds, and starts the thread that copies.
// Otherwise an armed backup fails. The backup is cancelled when it retains more than
// `pinned_bytes_max` bytes on the disk (0: no limit), or makes no progress for
// `lease_milliseconds`. teak_backup_describe() reports failures.
teak_status teak_backup_end_stage(teak_engine *engine,
                                  bool commits_are_blocked,
                                  uint64_t pinned_bytes_max,
                                  uint64_t lease_milliseconds);

// Ends the requested backup if it is armed or in progress.
teak_status teak_backup_cancel(teak_engine *engine);

// Calls `sink` for the newest requested backup, if there was one since the engine was opened.
// Slices are valid during the call of `sink`.
teak_status teak_backup_describe(teak_engine *engine,
                                 void (*sink)(void *context, const teak_backup_info *backup),
                                 void *context);

#ifdef __cplusplus
}
#endif

#endif // TEAK_SERVER_H
