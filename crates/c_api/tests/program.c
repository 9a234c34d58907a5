/* Calls the main functions of the C interface, in the directory given as argument. */
#include "support.h"

#include <sys/wait.h>
#include <unistd.h>

static bool never(void *context) { (void)context; return false; }
static bool always_interrupted(void *context) { (void)context; return true; }

static void create(teak_engine *engine) {
  teak_index_definition indexes[3] = {
    { text("PRIMARY"), TEAK_CODEC_ZSTD, 0, true, 0, TEAK_SUFFIX_NONE, 0, NULL, 0, NULL, 0, NULL, 0, NULL, 0, 0 },
    { text("name"), TEAK_CODEC_ZSTD, 4096, true, 0, TEAK_SUFFIX_NONE, 0, NULL, 0, NULL, 0, NULL, 0, NULL, 0, 0 },
    { text("group"), TEAK_CODEC_LZ4, 0, false, 0, TEAK_SUFFIX_NONE, 0, NULL, 0, NULL, 0, NULL, 0, NULL, 0, 0 } };
  teak_table_definition definition = { sizeof definition, sizeof *indexes, text("./db/people"), indexes, 3, text("layout") };
  OK(teak_table_create(engine, &definition));
  CHECK(teak_table_create(engine, &definition) == TEAK_TABLE_EXISTS);
  char error[200];
  CHECK(teak_last_error(error, sizeof error) == strlen(error));
  CHECK(strstr(error, "db/people") != NULL);
  indexes[0].codec = 99;
  definition.name = text("./db/other");
  CHECK(teak_table_create(engine, &definition) == TEAK_INVALID_ARGUMENT);
}

static teak_status insert(teak_transaction *t, teak_table *table, const char *key, const char *name,
                          const char *group, teak_duplicate *duplicate) {
  teak_row_entry entries[3] = { { 0, false, text(key), text(name) }, { 1, false, text(name), text(key) },
                            { 2, true, text(group), NONE } };
  return teak_transaction_insert(t, table, entries, 3, duplicate);
}

static void rows(teak_engine *engine, teak_table *table) {
  teak_transaction *t = NULL;
  teak_duplicate duplicate;
  uint64_t mark = 0;
  OK(teak_transaction_begin(engine, TEAK_REPEATABLE_READ, &t));
  CHECK(!teak_transaction_has_writes(t));
  OK(insert(t, table, "k1", "ann", "a1", NULL));
  OK(insert(t, table, "k2", "bob", "a2", NULL));
  OK(insert(t, table, "k3", "cid", "b3", NULL));
  CHECK(teak_transaction_has_writes(t));
  CHECK(insert(t, table, "k9", "bob", "a9", &duplicate) == TEAK_DUPLICATE_KEY);
  CHECK(duplicate.index == 1 && equal(duplicate.key, "bob") && equal(duplicate.value, "k2"));
  CHECK(insert(t, table, "k1", "zed", "a9", &duplicate) == TEAK_DUPLICATE_KEY);
  CHECK(duplicate.index == 0 && equal(duplicate.key, "k1") && equal(duplicate.value, "ann"));
  OK(teak_transaction_savepoint(t, &mark));
  OK(insert(t, table, "k4", "dan", "c4", NULL));
  OK(teak_transaction_rollback_to_savepoint(t, mark));
  OK(teak_transaction_commit(t));

  OK(teak_transaction_begin(engine, TEAK_READ_COMMITTED, &t));
  OK(teak_transaction_set_lock_timeout(t, 10));
  OK(teak_transaction_begin_statement(t));
  uint64_t oldest = 0, next = 0;
  OK(teak_engine_get_running_transactions(engine, &oldest, &next));
  CHECK(oldest + 1 == next);
  CHECK(teak_transaction_get_snapshot_commit(t) == 0);
  OK(teak_transaction_take_snapshot(t));
  CHECK(teak_transaction_get_snapshot_commit(t) == teak_engine_get_newest_commit(engine));
  teak_cursor *cursor = NULL;
  teak_row row;
  OK(teak_cursor_open(t, table, 0, TEAK_LOCK_NONE, &cursor));
  OK(teak_cursor_get(cursor, text("k2"), &row));
  CHECK(equal(row.key, "k2") && equal(row.value, "bob"));
  CHECK(teak_cursor_get(cursor, text("k4"), &row) == TEAK_NOT_FOUND);
  OK(teak_cursor_first(cursor, &row));
  CHECK(equal(row.key, "k1"));
  OK(teak_cursor_next(cursor, &row));
  OK(teak_cursor_next(cursor, &row));
  CHECK(equal(row.key, "k3"));
  CHECK(teak_cursor_next(cursor, &row) == TEAK_NOT_FOUND);
  OK(teak_cursor_last(cursor, &row));
  OK(teak_cursor_previous(cursor, &row));
  CHECK(equal(row.key, "k2"));
  OK(teak_cursor_set_bounds(cursor, text("k2"), text("k3")));
  OK(teak_cursor_first(cursor, &row));
  CHECK(equal(row.key, "k2"));
  CHECK(teak_cursor_next(cursor, &row) == TEAK_NOT_FOUND);
  OK(teak_cursor_set_bounds(cursor, NONE, NONE));
  OK(teak_cursor_seek(cursor, text("k2"), TEAK_SEEK_BEFORE, &row));
  CHECK(equal(row.key, "k1"));
  CHECK(teak_cursor_seek(cursor, text("k"), TEAK_SEEK_AFTER_PREFIX, &row) == TEAK_NOT_FOUND);
  OK(teak_cursor_seek(cursor, text("k"), TEAK_SEEK_AT_OR_BEFORE_PREFIX, &row));
  CHECK(equal(row.key, "k3"));
  CHECK(teak_cursor_seek(cursor, text("k"), (teak_seek)9, &row) == TEAK_INVALID_ARGUMENT);
  teak_cursor_close(cursor);

  /* Locks a row, and tests the reads of another transaction that encounter the lock: timeout, semi-consistent read,
     interrupt. Then changes the row's primary key and one secondary key and removes its entry in the other index, deletes
     another locked row, and locks an absent key. */
  OK(teak_cursor_open(t, table, 0, TEAK_LOCK_EXCLUSIVE, &cursor));
  OK(teak_cursor_get(cursor, text("k3"), &row));
  teak_transaction *other = NULL;
  OK(teak_transaction_begin(engine, TEAK_READ_COMMITTED, &other));
  teak_cursor *waiting = NULL;
  teak_row theirs;
  OK(teak_cursor_open(other, table, 0, TEAK_LOCK_SHARED, &waiting));
  CHECK(teak_cursor_get(waiting, text("k3"), &theirs) == TEAK_LOCK_TIMEOUT);
  OK(teak_cursor_set_semi_consistent(waiting, true));
  OK(teak_cursor_last(waiting, &theirs));
  CHECK(equal(theirs.key, "k3") && teak_cursor_is_unlocked(waiting));
  OK(teak_cursor_previous(waiting, &theirs));
  CHECK(equal(theirs.key, "k2") && !teak_cursor_is_unlocked(waiting));
  OK(teak_cursor_set_semi_consistent(waiting, false));
  teak_transaction_interrupt(other);
  CHECK(teak_cursor_get(waiting, text("k3"), &theirs) == TEAK_INTERRUPTED);
  OK(teak_transaction_begin_statement(other));
  OK(teak_cursor_get(waiting, text("k1"), &theirs));
  OK(teak_cursor_unlock(waiting));
  teak_cursor_close(waiting);
  OK(teak_transaction_rollback(other));
  teak_row_change changes[3] = { { 0, false, text("k3"), text("k7"), text("cyd") },
                             { 1, false, text("cid"), text("cyd"), text("k7") },
                             { 2, true, text("b3"), NONE, NONE } };
  OK(teak_transaction_update(t, table, changes, 3, &duplicate));
  OK(teak_cursor_get(cursor, text("k1"), &row));
  teak_row_entry gone[3] = { { 0, false, text("k1"), NONE }, { 1, false, text("ann"), NONE }, { 2, true, text("a1"), NONE } };
  OK(teak_transaction_delete(t, table, gone, 3));
  CHECK(teak_transaction_delete(t, table, gone, 3) == TEAK_NOT_FOUND);
  CHECK(teak_transaction_lock_absent(t, table, 1, text("bob")) == TEAK_DUPLICATE_KEY);
  OK(teak_transaction_lock_absent(t, table, 1, text("eve")));
  OK(teak_transaction_begin(engine, TEAK_READ_COMMITTED, &other));
  OK(teak_transaction_set_lock_timeout(other, 10));
  CHECK(insert(other, table, "k8", "eve", "d8", NULL) == TEAK_LOCK_TIMEOUT);
  OK(teak_transaction_rollback(other));
  teak_cursor_close(cursor);
  OK(teak_transaction_commit(t));
}

static void expect_rows(teak_engine *engine, teak_table *table) {
  static const char *keys[] = { "k2", "k7" };
  teak_transaction *t = NULL;
  teak_cursor *cursor = NULL;
  teak_row row;
  OK(teak_transaction_begin(engine, TEAK_REPEATABLE_READ, &t));
  OK(teak_cursor_open(t, table, 0, TEAK_LOCK_NONE, &cursor));
  teak_status status = teak_cursor_first(cursor, &row);
  for (int n = 0; n < 2; n++) {
    CHECK(status == TEAK_OK && equal(row.key, keys[n]));
    status = teak_cursor_next(cursor, &row);
  }
  CHECK(status == TEAK_NOT_FOUND);
  teak_cursor_close(cursor);
  OK(teak_transaction_commit(t));
}

static void counters(teak_engine *engine, teak_table *table) {
  uint64_t value = 0, first = 0, next = 0;
  OK(teak_table_counter_advance(table, 0, 8));
  OK(teak_table_counter_advance(table, 0, 5));
  OK(teak_table_counter_get(table, 0, &value));
  CHECK(value == 8);
  OK(teak_table_counter_set(table, 0, 100));
  CHECK(teak_table_counter_set(table, 1000, 1) == TEAK_INVALID_ARGUMENT);
  OK(teak_table_reserve_row_ids(table, 10, &first));
  OK(teak_table_reserve_row_ids(table, 1, &next));
  CHECK(next == first + 10);
  OK(teak_engine_flush_log(engine));
}

static void look(teak_engine *engine, teak_table *table) {
  teak_page_counts pages = teak_thread_get_page_counts();
  teak_engine_statistics found = { .struct_size = sizeof found };
  teak_index_statistics statistics = { .struct_size = sizeof statistics };
  teak_slice metadata;
  size_t count = 0, written = 0;
  uint64_t entries = 0;
  bool damaged = true;
  OK(teak_engine_get_statistics(engine, &found));
  CHECK(found.rows_inserted >= 3 && found.open_tables == 1 && found.indexes == 3);
  OK(teak_engine_get_status_text(engine, on_text, &written));
  CHECK(written > 100);
  OK(teak_table_get_metadata(table, &metadata));
  CHECK(equal(metadata, "layout"));
  OK(teak_table_get_index_count(table, &count));
  CHECK(count == 3);
  OK(teak_table_refuse_older_snapshots(engine, text("./db/people")));
  CHECK(teak_table_refuse_older_snapshots(engine, text("./db/none")) == TEAK_NO_SUCH_TABLE);
  OK(teak_index_get_statistics(table, 0, &statistics));
  CHECK(statistics.codec == TEAK_CODEC_ZSTD);
  CHECK(teak_index_get_statistics(table, 7, &statistics) == TEAK_NO_SUCH_INDEX);
  uint64_t free_bytes = UINT64_MAX;
  OK(teak_index_get_free_bytes(table, 0, &free_bytes));
  CHECK(free_bytes <= statistics.disk_bytes);
  CHECK(teak_index_get_free_bytes(table, 7, &free_bytes) == TEAK_NO_SUCH_INDEX);
  OK(teak_index_estimate_entries(table, 0, NONE, NONE, &entries));
  CHECK(entries > 0);
  OK(teak_engine_checkpoint(engine));
  written = 0;
  OK(teak_table_verify(table, never, on_text, &written));
  CHECK(written == 0);
  expect_rows(engine, table);
  CHECK(teak_thread_get_page_counts().accessed > pages.accessed);
  OK(teak_table_verify(table, NULL, on_text, &written));
  (void)teak_table_verify(table, always_interrupted, on_text, &written);
  OK(teak_table_is_damaged(table, &damaged));
  CHECK(!damaged);
  OK(teak_engine_set_cache_bytes(engine, 8 << 20));
  CHECK(teak_engine_set_cache_bytes(engine, 1) == TEAK_INVALID_ARGUMENT);
  OK(teak_engine_set_commit_sync(engine, false));
}

static void null_arguments(teak_engine *engine, teak_table *table) {
  teak_transaction *t = NULL;
  teak_cursor *cursor = NULL;
  teak_row row;
  bool exists;
  OK(teak_transaction_begin(engine, TEAK_SERIALIZABLE, &t));
  OK(teak_cursor_open(t, table, 0, TEAK_LOCK_NONE, &cursor));
  const teak_status refused = TEAK_INVALID_ARGUMENT;
  CHECK(teak_engine_open(NULL, &engine) == refused);
  CHECK(teak_engine_close(NULL) == refused);
  CHECK(teak_engine_get_statistics(engine, NULL) == refused);
  CHECK(teak_engine_get_status_text(engine, NULL, NULL) == refused);
  CHECK(teak_table_create(engine, NULL) == refused);
  CHECK(teak_table_open(NULL, text("x"), &table) == refused);
  CHECK(teak_table_exists(engine, NONE, &exists) == refused);
  CHECK(teak_table_get_metadata(table, NULL) == refused);
  CHECK(teak_table_counter_get(NULL, 0, NULL) == refused);
  CHECK(teak_transaction_begin(engine, (teak_isolation)44, &t) == refused);
  CHECK(teak_transaction_begin_statement(NULL) == refused);
  CHECK(teak_transaction_insert(t, table, NULL, 1, NULL) == refused);
  CHECK(teak_transaction_insert(NULL, table, NULL, 0, NULL) == refused);
  CHECK(teak_cursor_first(cursor, NULL) == refused);
  CHECK(teak_cursor_first(NULL, &row) == refused);
  CHECK(teak_transaction_commit(NULL) == refused);
  CHECK(teak_transaction_rollback(NULL) == refused);
  CHECK(!teak_transaction_has_writes(NULL));
  CHECK(teak_transaction_lock_absent(NULL, table, 0, NONE) == refused);
  CHECK(teak_cursor_set_semi_consistent(NULL, true) == refused);
  CHECK(!teak_cursor_is_unlocked(NULL));
  teak_transaction_interrupt(NULL);
  teak_cursor_close(NULL);
  teak_table_close(NULL);
  CHECK(teak_last_error(NULL, 0) > 0);
  teak_cursor_close(cursor);
  OK(teak_transaction_rollback(t));
}

/* Writes in a child that exits without closing: one transaction is committed, one is not. */
static void die_writing(const char *directory) {
  pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    teak_engine *engine = open_engine(directory);
    teak_table *table = NULL;
    teak_transaction *t = NULL, *lost = NULL;
    OK(teak_table_open(engine, text("./db/people"), &table));
    OK(teak_transaction_begin(engine, TEAK_REPEATABLE_READ, &t));
    OK(insert(t, table, "x1", "xan", "x1", NULL));
    OK(teak_transaction_commit(t));
    OK(teak_transaction_begin(engine, TEAK_REPEATABLE_READ, &lost));
    OK(insert(lost, table, "x2", "xob", "x2", NULL));
    OK(teak_engine_flush_log(engine));
    _exit(0);
  }
  int status = 1;
  CHECK(waitpid(child, &status, 0) == child && status == 0);
}

static void tables(teak_engine *engine) {
  teak_table *table = NULL;
  teak_transaction *t = NULL;
  teak_cursor *cursor = NULL;
  teak_row row;
  bool exists = false;
  uint64_t value = 0;
  OK(teak_table_rename(engine, text("./db/people"), text("./db2/folk")));
  OK(teak_table_exists(engine, text("./db2/folk"), &exists));
  CHECK(exists);
  CHECK(teak_table_open(engine, text("./db/people"), &table) == TEAK_NO_SUCH_TABLE);
  OK(teak_table_open(engine, text("./db2/folk"), &table));
  OK(teak_table_counter_get(table, 0, &value));
  CHECK(value == 100);
  OK(teak_transaction_begin(engine, TEAK_READ_UNCOMMITTED, &t));
  OK(teak_cursor_open(t, table, 0, TEAK_LOCK_NONE, &cursor));
  OK(teak_cursor_get(cursor, text("x1"), &row));
  CHECK(teak_cursor_get(cursor, text("x2"), &row) == TEAK_NOT_FOUND);
  OK(teak_table_truncate(engine, text("./db2/folk")));
  CHECK(teak_cursor_first(cursor, &row) == TEAK_NOT_FOUND);
  teak_cursor_close(cursor);
  OK(teak_transaction_commit(t));
  OK(teak_table_counter_get(table, 0, &value));
  CHECK(value == 0);
  teak_table_close(table);
  OK(teak_table_drop(engine, text("./db2/folk")));
  OK(teak_table_exists(engine, text("./db2/folk"), &exists));
  CHECK(!exists);
}

static void count_entries(void *context, uint64_t done, uint64_t total) {
  CHECK(done <= total);
  *(uint64_t *)context = done;
}

static void find_metadata(void *context, teak_slice name, teak_slice metadata) {
  if (equal(name, "db/people")) *(bool *)context = equal(metadata, "altered");
}

/* Adds an index while a row is written, refuses a unique index with duplicate keys, drops an index. */
static void alter(teak_engine *engine, teak_table *table) {
  const teak_index_definition rows = { text("PRIMARY"), 2, 0, true, 0, TEAK_SUFFIX_NONE, 0, NULL, 0, NULL, 0, NULL, 0, NULL, 0, 0 },
                              names = { text("name"), 1, 0, true, 0, TEAK_SUFFIX_NONE, 0, NULL, 0, NULL, 0, NULL, 0, NULL, 0, 0 },
                              ends = { text("ends"), 2, 0, false, 0, TEAK_SUFFIX_NONE, 0, NULL, 0, NULL, 0, NULL, 0, NULL, 0, 0 };
  teak_added_index added = { ends, true, false };
  teak_alteration *alteration = NULL;
  teak_duplicate duplicate;
  OK(teak_alteration_begin(engine, table, &added, 1, never, NULL, &alteration));
  OK(teak_alteration_add_entry(alteration, 0, text("x"), text("k1")));
  OK(teak_alteration_add_entry(alteration, 0, text("x"), text("k2")));
  CHECK(teak_alteration_build(alteration, NULL, NULL, &duplicate) == TEAK_DUPLICATE_KEY);
  CHECK(duplicate.index == 0 && equal(duplicate.key, "x") && duplicate.value.len == 2);
  teak_alteration_end(alteration);

  added.unique = false;
  uint32_t number = 0;
  uint64_t done = 0;
  OK(teak_alteration_begin(engine, table, &added, 1, NULL, NULL, &alteration));
  CHECK(teak_table_drop(engine, text("./db/people")) == TEAK_INVALID_ARGUMENT);
  OK(teak_alteration_get_index(alteration, 0, &number));
  CHECK(number == 3);
  teak_row_entry written[4] = { { 0, false, text("k8"), text("hal") }, { 1, false, text("hal"), text("k8") },
                            { 2, true, text("h8"), NONE }, { number, true, text("l8"), NONE } };
  teak_transaction *t = NULL;
  OK(teak_transaction_begin(engine, TEAK_REPEATABLE_READ, &t));
  OK(teak_transaction_insert(t, table, written, 4, NULL));
  OK(teak_transaction_commit(t));
  OK(teak_alteration_add_entry(alteration, 0, text("n1"), NONE));
  OK(teak_alteration_add_entry(alteration, 0, text("b2"), NONE));
  OK(teak_alteration_build(alteration, count_entries, &done, NULL));
  CHECK(done == 2);
  CHECK(teak_alteration_add_entry(alteration, 0, text("z"), NONE) == TEAK_INVALID_ARGUMENT);
  const teak_planned_index indexes[] = { { false, 0, rows }, { true, 0, ends }, { false, 1, names } };
  const teak_alteration_plan plan = { indexes, 3, text("altered") };
  OK(teak_alteration_commit(&alteration, &plan, 1));
  CHECK(teak_alteration_commit(&alteration, &plan, 1) == TEAK_INVALID_ARGUMENT);
  teak_alteration_end(alteration);
  teak_alteration_end(NULL);

  teak_cursor *cursor = NULL;
  teak_row row;
  OK(teak_transaction_begin(engine, TEAK_REPEATABLE_READ, &t));
  OK(teak_cursor_open(t, table, 1, TEAK_LOCK_NONE, &cursor));
  OK(teak_cursor_first(cursor, &row));
  CHECK(equal(row.key, "b2"));
  OK(teak_cursor_next(cursor, &row));
  CHECK(equal(row.key, "l8"));
  teak_cursor_close(cursor);
  OK(teak_cursor_open(t, table, 2, TEAK_LOCK_NONE, &cursor));
  OK(teak_cursor_get(cursor, text("hal"), &row));
  CHECK(equal(row.value, "k8"));
  teak_cursor_close(cursor);
  OK(teak_transaction_rollback(t));
  bool found = false;
  OK(teak_table_list_metadata(engine, text("./db/peo"), find_metadata, &found));
  CHECK(found);
}

typedef struct {
  uint8_t data[4096];
  size_t len;
} kept_bytes;

static void keep(void *context, teak_slice bytes) {
  kept_bytes *to = context;
  CHECK(bytes.len <= sizeof to->data);
  memcpy(to->data, bytes.data, bytes.len);
  to->len = bytes.len;
}

static teak_slice slice_of(const kept_bytes *bytes) {
  teak_slice slice = { bytes->data, bytes->len };
  return slice;
}

static void count_people(void *context, teak_slice name) { *(int *)context += equal(name, "people"); }

/* Replaces metadata, and compresses it. */
static void metadata(teak_engine *engine) {
  kept_bytes raw = { { 0 }, 4000 }, stored, again;
  memset(raw.data, 7, raw.len);
  OK(teak_metadata_compress(slice_of(&raw), keep, &stored));
  CHECK(stored.len < 100);
  OK(teak_metadata_decompress(slice_of(&stored), raw.len, keep, &again));
  CHECK(again.len == raw.len && memcmp(again.data, raw.data, raw.len) == 0);
  CHECK(teak_metadata_decompress(slice_of(&stored), raw.len - 1, keep, &again) == TEAK_CORRUPT);
  CHECK(teak_metadata_decompress(text("?"), 2, keep, &again) == TEAK_CORRUPT);
  OK(teak_metadata_compress(text("x"), keep, &stored));
  CHECK(equal(slice_of(&stored), "x"));
  OK(teak_metadata_decompress(slice_of(&stored), 1, keep, &again));
  CHECK(equal(slice_of(&again), "x"));

  bool found = true;
  OK(teak_table_set_metadata(engine, text("./db/people"), text("other")));
  OK(teak_table_list_metadata(engine, text("./db/people"), find_metadata, &found));
  CHECK(!found);
  OK(teak_table_set_metadata(engine, text("./db/people"), text("altered")));
  OK(teak_table_list_metadata(engine, text("./db/people"), find_metadata, &found));
  CHECK(found);
  CHECK(teak_table_set_metadata(engine, text("./db/none"), NONE) == TEAK_NO_SUCH_TABLE);
  int people = 0;
  OK(teak_table_list_directory(engine, text("./db"), count_people, &people));
  CHECK(people == 1);
}

int main(int argc, char **argv) {
  CHECK(argc == 2);
  teak_engine *engine = open_engine(argv[1]);
  teak_table *table = NULL;
  create(engine);
  OK(teak_table_open(engine, text("./db/people"), &table));
  rows(engine, table);
  expect_rows(engine, table);
  counters(engine, table);
  look(engine, table);
  expect_rows(engine, table);
  null_arguments(engine, table);
  teak_table_close(table);
  OK(teak_engine_close(engine));

  engine = open_engine(argv[1]);
  OK(teak_table_open(engine, text("./db/people"), &table));
  expect_rows(engine, table);
  alter(engine, table);
  teak_table_close(table);
  metadata(engine);
  OK(teak_engine_close(engine));

  die_writing(argv[1]);
  engine = open_engine(argv[1]);
  tables(engine);
  OK(teak_engine_close(engine));
  puts("every call returned what the header specifies");
  return 0;
}
