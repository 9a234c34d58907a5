/* Edge cases of the C interface: every seek compared with a plain array, long rows, malformed slices, short buffers, waits
   that other threads end, row ids after a crash, a damaged file. Runs in the directory given as argument. */
#include "support.h"

#include <dirent.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- seeks ---- */

static const char *const KEYS[] = { "a", "ab", "abc", "abd", "b", "ba", "\xff", "\xff\xff", "\xff\xff\x01" };
static const char *const PROBES[] = { "", "a", "aa", "ab", "abc", "abcd", "abe", "b", "bb", "c", "\xfe", "\xff",
                                      "\xff\xff", "\xff\xff\x01", "\xff\xff\xff" };
enum { KEYS_COUNT = sizeof KEYS / sizeof *KEYS, PROBES_COUNT = sizeof PROBES / sizeof *PROBES };

static int compare(const char *a, const char *b) { return strcmp(a, b); /* as unsigned bytes */ }
static bool starts(const char *key, const char *prefix) { return strncmp(key, prefix, strlen(prefix)) == 0; }

/* Whether a key matches the seek. */
static bool wanted(const char *key, const char *probe, teak_seek seek) {
  switch (seek) {
    case TEAK_SEEK_AT_OR_AFTER: return compare(key, probe) >= 0;
    case TEAK_SEEK_AFTER_PREFIX: return compare(key, probe) > 0 && !starts(key, probe);
    case TEAK_SEEK_BEFORE: return compare(key, probe) < 0;
    case TEAK_SEEK_AT_OR_BEFORE_PREFIX: return compare(key, probe) < 0 || starts(key, probe);
  }
  return false;
}

static bool bounded(const char *key, const char *lower, const char *upper) {
  return (!lower || compare(key, lower) >= 0) && (!upper || compare(key, upper) < 0);
}

/* Seeks, then takes several rows in each call to the end, comparing with the array. */
static void seek_and_take(teak_cursor *cursor, teak_slice given, teak_seek seek, const char *probe, const char *lower,
                          const char *upper) {
  teak_row rows[3];
  size_t count = 1, next = 0;
  teak_status status = teak_cursor_seek(cursor, given, seek, rows);
  for (int n = 0; n < KEYS_COUNT; n++) {
    if (!wanted(KEYS[n], probe, seek) || !bounded(KEYS[n], lower, upper)) continue;
    CHECK(status == TEAK_OK && equal(rows[next].key, KEYS[n]) && equal(rows[next].value, KEYS[n]));
    if (++next < count) continue;
    status = teak_cursor_next_rows(cursor, count - 1, rows, 3, &count);
    CHECK(status != TEAK_OK || (count >= 1 && count <= 3));
    next = 0;
  }
  CHECK(status == TEAK_NOT_FOUND);
}

/* Seeks, then steps to the end, comparing with the array. */
static void seek_and_walk(teak_cursor *cursor, const char *probe, teak_seek seek, const char *lower, const char *upper) {
  const bool forward = seek == TEAK_SEEK_AT_OR_AFTER || seek == TEAK_SEEK_AFTER_PREFIX;
  teak_row row;
  OK(teak_cursor_set_bounds(cursor, lower ? text(lower) : NONE, upper ? text(upper) : NONE));
  /* An empty probe has a pointer, but no bytes. */
  teak_slice given = { (const uint8_t *)probe, strlen(probe) };
  teak_status status = teak_cursor_seek(cursor, given, seek, &row);
  for (int n = 0; n < KEYS_COUNT; n++) {
    const char *key = KEYS[forward ? n : KEYS_COUNT - 1 - n];
    if (!wanted(key, probe, seek) || !bounded(key, lower, upper)) continue;
    CHECK(status == TEAK_OK && equal(row.key, key) && equal(row.value, key));
    status = forward ? teak_cursor_next(cursor, &row) : teak_cursor_previous(cursor, &row);
  }
  CHECK(status == TEAK_NOT_FOUND);
  if (forward) seek_and_take(cursor, given, seek, probe, lower, upper);
}

static void all_seeks(teak_engine *engine, teak_table *table, teak_lock_mode mode) {
  teak_transaction *t = begin(engine, TEAK_REPEATABLE_READ);
  teak_cursor *cursor = NULL;
  OK(teak_cursor_open(t, table, 0, mode, &cursor));
  for (int probe = 0; probe < PROBES_COUNT; probe++)
    for (int seek = TEAK_SEEK_AT_OR_AFTER; seek <= TEAK_SEEK_AT_OR_BEFORE_PREFIX; seek++)
      for (int lower = -1; lower < KEYS_COUNT; lower += 3)
        for (int upper = -1; upper < KEYS_COUNT; upper += 2)
          seek_and_walk(cursor, PROBES[probe], (teak_seek)seek, lower < 0 ? NULL : KEYS[lower],
                        upper < 0 ? NULL : KEYS[upper]);
  teak_cursor_close(cursor);
  OK(teak_transaction_commit(t));
}

static void seeks(teak_engine *engine) {
  teak_table *table = make_table(engine, "./db/seeks", 1, 1);
  teak_transaction *t = begin(engine, TEAK_REPEATABLE_READ);
  for (int n = 0; n < KEYS_COUNT; n += 2) OK(put(t, table, KEYS[n], KEYS[n]));
  OK(put(t, table, "aa", "to be deleted"));
  OK(teak_transaction_commit(t));
  OK(teak_engine_checkpoint(engine));
  /* The other half remains in the memtable, with the delete of a row that is on disk. */
  t = begin(engine, TEAK_REPEATABLE_READ);
  for (int n = 1; n < KEYS_COUNT; n += 2) OK(put(t, table, KEYS[n], KEYS[n]));
  teak_row_entry gone = { 0, false, text("aa"), NONE };
  OK(teak_transaction_delete(t, table, &gone, 1));
  OK(teak_transaction_commit(t));
  all_seeks(engine, table, TEAK_LOCK_NONE);
  all_seeks(engine, table, TEAK_LOCK_SHARED);
  OK(teak_engine_checkpoint(engine));
  all_seeks(engine, table, TEAK_LOCK_NONE);

  uint64_t entries = 99;
  OK(teak_index_estimate_entries(table, 0, text("b"), text("a"), &entries));
  CHECK(entries == 0);
  OK(teak_index_estimate_entries(table, 0, text("ab"), NONE, &entries));
  CHECK(entries > 0 && entries <= KEYS_COUNT + 2);
  teak_table_close(table);
}

/* The keys with a prefix, before and after they are written to a file with filters. */
static void prefixes(teak_engine *engine) {
  teak_index_definition indexes[2];
  memset(indexes, 0, sizeof indexes);
  indexes[0].label = text("rows");
  indexes[0].exact_lookups = true;
  indexes[1].label = text("numbers");
  indexes[1].suffix = TEAK_SUFFIX_FIXED;
  indexes[1].suffix_bytes = 2;
  teak_table_definition definition = { sizeof definition, sizeof *indexes, text("./db/prefixes"), indexes, 2, NONE };
  OK(teak_table_create(engine, &definition));
  definition.name = text("./db/refused");
  indexes[0].suffix = TEAK_SUFFIX_COUNTED;
  REFUSED(teak_table_create(engine, &definition));
  indexes[0].suffix = (teak_suffix)3;
  REFUSED(teak_table_create(engine, &definition));
  indexes[0].suffix = TEAK_SUFFIX_NONE;
  indexes[1].suffix_bytes = 65536;
  REFUSED(teak_table_create(engine, &definition));

  teak_table *table = NULL;
  OK(teak_table_open(engine, text("./db/prefixes"), &table));
  teak_transaction *t = begin(engine, TEAK_REPEATABLE_READ);
  for (int n = 0; n < 60; n++) {
    char key[8], entry[16];
    snprintf(key, sizeof key, "%02d", n);
    snprintf(entry, sizeof entry, "%d,%02d", n % 10 * 2, n);
    teak_row_entry entries[2] = { { 0, true, text(key), NONE }, { 1, false, text(entry), NONE } };
    OK(teak_transaction_insert(t, table, entries, 2, NULL));
  }
  OK(teak_transaction_commit(t));
  for (int stored = 0; stored < 2; stored++) {
    t = begin(engine, TEAK_REPEATABLE_READ);
    for (int group = 0; group < 20; group++) {
      char prefix[8];
      snprintf(prefix, sizeof prefix, "%d,", group);
      const int expected = group % 2 == 0 ? 6 : 0;
      uint64_t entries = 99;
      OK(teak_index_estimate_prefix(table, 1, text(prefix), &entries));
      CHECK(entries == (uint64_t)expected);
      for (int mode = TEAK_LOCK_NONE; mode <= TEAK_LOCK_SHARED; mode++) {
        teak_cursor *cursor = NULL;
        teak_row row;
        OK(teak_cursor_open(t, table, 1, (teak_lock_mode)mode, &cursor));
        OK(teak_cursor_set_prefix(cursor, text(prefix)));
        int found = 0;
        for (teak_status status = teak_cursor_first(cursor, &row); status != TEAK_NOT_FOUND;
             status = teak_cursor_next(cursor, &row)) {
          CHECK(status == TEAK_OK && row.key.len > 3 && memcmp(row.key.data, prefix, strlen(prefix)) == 0);
          found++;
        }
        CHECK(found == expected);
        teak_cursor_close(cursor);
      }
    }
    OK(teak_transaction_commit(t));
    OK(teak_engine_checkpoint(engine));
  }
  teak_table_close(table);
}

/* ---- structs of older and newer callers ---- */

/* Sizes of the structs in the first version of the library. They never change. */
enum {
  FIRST_OPTIONS = 104,
  FIRST_STATISTICS = 352,
  FIRST_INDEX_STATISTICS = 64,
  FIRST_TABLE_DEFINITION = 64,
  FIRST_INDEX_DEFINITION = 32,
  LATER = 24 /* bytes that a later version adds */
};

/* Copies the first bytes of a struct to memory of exactly `size` bytes; the rest is zero. Sets its struct_size. */
static void *resized(const void *known, size_t known_size, size_t size) {
  uint8_t *copy = calloc(size, 1);
  CHECK(copy != NULL);
  memcpy(copy, known, known_size < size ? known_size : size);
  memcpy(copy, &size, sizeof size);
  return copy;
}

static teak_status open_with(const teak_engine_options *options, size_t size, bool uses_later) {
  uint8_t *given = resized(options, sizeof *options, size);
  teak_engine *engine = NULL;
  if (uses_later) given[size - 1] = 1;
  teak_status status = teak_engine_open((const teak_engine_options *)(const void *)given, &engine);
  free(given);
  if (status == TEAK_OK) OK(teak_engine_close(engine));
  return status;
}

static teak_status create_with(teak_engine *engine, size_t table_size, size_t index_size, bool uses_later) {
  static int created;
  char name[16];
  snprintf(name, sizeof name, "./db/v%d", created++);
  teak_index_definition index;
  memset(&index, 0, sizeof index);
  index.codec = TEAK_CODEC_LZ4;
  /* Two elements, index_size bytes apart. */
  uint8_t *indexes = calloc(2, index_size ? index_size : 1);
  CHECK(indexes != NULL);
  for (size_t n = 0; n < 2; n++) {
    index.label = text(n == 0 ? "rows" : "second");
    memcpy(indexes + n * index_size, &index, sizeof index < index_size ? sizeof index : index_size);
  }
  if (uses_later) indexes[2 * index_size - 1] = 1;
  teak_table_definition definition = { 0, index_size, text(name), (const teak_index_definition *)(const void *)indexes, 2, NONE };
  uint8_t *given = resized(&definition, sizeof definition, table_size);
  teak_status status = teak_table_create(engine, (const teak_table_definition *)(const void *)given);
  free(given);
  free(indexes);
  if (status != TEAK_OK) return status;
  teak_table *table = NULL;
  size_t count = 0;
  OK(teak_table_open(engine, text(name), &table));
  OK(teak_table_get_index_count(table, &count));
  CHECK(count == 2);
  /* Results: the struct of the caller's size is written, and nothing after it. */
  for (size_t size = FIRST_INDEX_STATISTICS; size <= sizeof(teak_index_statistics) + LATER; size += 8) {
    teak_index_statistics found;
    memset(&found, 0xff, sizeof found);
    uint8_t *results = resized(&found, sizeof found, size);
    results[size - 1] = 7;
    OK(teak_index_get_statistics(table, 1, (teak_index_statistics *)(void *)results));
    memcpy(&found, results, size < sizeof found ? size : sizeof found);
    CHECK(found.struct_size == size && found.codec == TEAK_CODEC_LZ4 && found.tombstones == 0);
    CHECK(results[size - 1] == 0);
    free(results);
  }
  teak_table_close(table);
  OK(teak_table_drop(engine, text(name)));
  return TEAK_OK;
}

static void versions(teak_engine *engine, const char *directory) {
  char other[1024];
  snprintf(other, sizeof other, "%s-versions", directory);
  teak_engine_options options;
  memset(&options, 0, sizeof options);
  options.directory = text(other);
  options.background_threads = 1;
  const size_t later_options = sizeof options + LATER;
  OK(open_with(&options, FIRST_OPTIONS, false));
  OK(open_with(&options, later_options, false));
  REFUSED(open_with(&options, later_options, true));
  REFUSED(open_with(&options, FIRST_OPTIONS - 8, false));

  const size_t table = FIRST_TABLE_DEFINITION, later_table = sizeof(teak_table_definition) + LATER;
  const size_t index = FIRST_INDEX_DEFINITION, later_index = sizeof(teak_index_definition) + LATER;
  OK(create_with(engine, table, index, false));
  OK(create_with(engine, later_table, later_index, false));
  REFUSED(create_with(engine, table, later_index, true));
  REFUSED(create_with(engine, table, index - 8, false));
  REFUSED(create_with(engine, table, 0, false));
  REFUSED(create_with(engine, table - 8, index, false));

  teak_engine_statistics found;
  memset(&found, 0xff, sizeof found);
  for (size_t size = FIRST_STATISTICS - 8; size <= sizeof found + LATER; size += 8) {
    uint8_t *results = resized(&found, sizeof found, size);
    teak_status status = teak_engine_get_statistics(engine, (teak_engine_statistics *)(void *)results);
    CHECK(status == (size < FIRST_STATISTICS ? TEAK_INVALID_ARGUMENT : TEAK_OK));
    if (size > sizeof found) CHECK(results[size - 1] == 0);
    free(results);
  }
}

/* ---- a struct of zeros checks the key ---- */

static void checked_keys(teak_engine *engine) {
  teak_table *table = make_table(engine, "./db/checked", 1, 1);
  teak_transaction *t = begin(engine, TEAK_REPEATABLE_READ);
  teak_row_entry entry = { .key = text("k"), .value = text("first") };
  OK(teak_transaction_insert(t, table, &entry, 1, NULL));
  entry.value = text("second");
  CHECK(teak_transaction_insert(t, table, &entry, 1, NULL) == TEAK_DUPLICATE_KEY);
  CHECK(reads(t, table, "k", "first"));
  OK(put(t, table, "other", "v"));
  const teak_row_change change = { .old_key = text("other"), .new_key = text("k"), .new_value = text("v") };
  CHECK(teak_transaction_update(t, table, &change, 1, NULL) == TEAK_DUPLICATE_KEY);
  CHECK(reads(t, table, "k", "first") && reads(t, table, "other", "v"));
  entry.unchecked = true;
  OK(teak_transaction_insert(t, table, &entry, 1, NULL));
  CHECK(reads(t, table, "k", "second"));
  OK(teak_transaction_rollback(t));
  teak_table_close(table);
}

/* ---- rows with more entries than are converted on the stack ---- */

enum { WIDE = 12 };

static teak_status put_wide(teak_transaction *t, teak_table *table, const char *key, const char *last,
                            teak_duplicate *duplicate) {
  teak_row_entry entries[WIDE];
  for (uint32_t n = 0; n < WIDE; n++) {
    entries[n].index = n;
    entries[n].unchecked = n != 0 && n != WIDE - 1;
    entries[n].key = text(n == WIDE - 1 ? last : key);
    entries[n].value = text("v");
  }
  return teak_transaction_insert(t, table, entries, WIDE, duplicate);
}

static int entries_of(teak_transaction *t, teak_table *table, uint32_t index) {
  teak_cursor *cursor = NULL;
  teak_row row;
  int count = 0;
  OK(teak_cursor_open(t, table, index, TEAK_LOCK_NONE, &cursor));
  for (teak_status status = teak_cursor_first(cursor, &row); status == TEAK_OK; status = teak_cursor_next(cursor, &row))
    count++;
  teak_cursor_close(cursor);
  return count;
}

static void wide_rows(teak_engine *engine) {
  teak_table *table = make_table(engine, "./db/wide", WIDE, WIDE);
  teak_transaction *t = begin(engine, TEAK_REPEATABLE_READ);
  teak_duplicate duplicate;
  char message[100];
  OK(put_wide(t, table, "one", "x", &duplicate));
  memset(&duplicate, 0, sizeof duplicate);
  CHECK(put_wide(t, table, "two", "x", &duplicate) == TEAK_DUPLICATE_KEY);
  CHECK(duplicate.index == WIDE - 1 && equal(duplicate.key, "x") && equal(duplicate.value, "v"));
  CHECK(put_wide(t, table, "two", "x", NULL) == TEAK_DUPLICATE_KEY);
  CHECK(teak_last_error(message, sizeof message) > 0 && strstr(message, "unique") != NULL);
  for (uint32_t n = 0; n < WIDE; n++) CHECK(entries_of(t, table, n) == 1);
  teak_row_change changes[WIDE];
  for (uint32_t n = 0; n < WIDE; n++) {
    teak_row_change one = { n, n != 0, n == WIDE - 1 ? NONE : text("one"), n == WIDE - 1 ? NONE : text("eins"), text("w") };
    changes[n] = one;
  }
  OK(teak_transaction_update(t, table, changes, WIDE, NULL));
  OK(teak_transaction_commit(t));
  t = begin(engine, TEAK_READ_COMMITTED);
  for (uint32_t n = 0; n < WIDE; n++) {
    teak_cursor *cursor = NULL;
    teak_row row;
    OK(teak_cursor_open(t, table, n, TEAK_LOCK_NONE, &cursor));
    OK(teak_cursor_last(cursor, &row));
    CHECK(equal(row.key, n == WIDE - 1 ? "x" : "eins") && equal(row.value, n == WIDE - 1 ? "v" : "w"));
    CHECK(teak_cursor_previous(cursor, &row) == TEAK_NOT_FOUND);
    teak_cursor_close(cursor);
  }
  OK(teak_transaction_commit(t));
  teak_table_close(table);
}

/* ---- wrong arguments change nothing ---- */

static void wrong_slices(teak_engine *engine) {
  teak_table *table = make_table(engine, "./db/wrong", 2, 1);
  teak_transaction *t = begin(engine, TEAK_REPEATABLE_READ);
  const teak_slice broken = { NULL, 3 };
  const teak_slice endless = { (const uint8_t *)"x", SIZE_MAX };
  teak_cursor *cursor = NULL;
  teak_row row;
  uint64_t entries = 0;
  bool exists = false;
  OK(put(t, table, "k", "v"));
  teak_row_entry good = { 0, false, text("n"), text("v") };
  teak_row_entry row_of_two[2] = { good, { 1, true, broken, NONE } };
  REFUSED(teak_transaction_insert(t, table, row_of_two, 2, NULL));
  row_of_two[1].key = endless;
  REFUSED(teak_transaction_insert(t, table, row_of_two, 2, NULL));
  row_of_two[1].key = text("n");
  row_of_two[1].index = 2;
  CHECK(teak_transaction_insert(t, table, row_of_two, 2, NULL) == TEAK_NO_SUCH_INDEX);
  REFUSED(teak_transaction_insert(t, table, &good, 0, NULL));
  REFUSED(teak_transaction_insert(t, table, &good, SIZE_MAX / 2, NULL));
  teak_row_change changed = { 0, false, text("k"), text("k"), broken };
  REFUSED(teak_transaction_update(t, table, &changed, 1, NULL));
  REFUSED(teak_transaction_update(t, table, &changed, 0, NULL));
  teak_row_entry gone = { 0, false, broken, NONE };
  REFUSED(teak_transaction_delete(t, table, &gone, 1));
  REFUSED(teak_transaction_delete(t, table, &gone, 0));
  OK(teak_cursor_open(t, table, 0, TEAK_LOCK_NONE, &cursor));
  REFUSED(teak_cursor_get(cursor, broken, &row));
  REFUSED(teak_cursor_get(cursor, endless, &row));
  REFUSED(teak_cursor_seek(cursor, broken, TEAK_SEEK_AT_OR_AFTER, &row));
  REFUSED(teak_cursor_set_bounds(cursor, broken, NONE));
  REFUSED(teak_cursor_set_bounds(cursor, NONE, broken));
  REFUSED(teak_cursor_set_prefix(cursor, broken));
  REFUSED(teak_index_estimate_entries(table, 0, broken, NONE, &entries));
  REFUSED(teak_index_estimate_prefix(table, 0, broken, &entries));
  REFUSED(teak_table_exists(engine, broken, &exists));
  const teak_slice not_utf8 = { (const uint8_t *)"\xc3(", 2 };
  REFUSED(teak_table_exists(engine, not_utf8, &exists));
  REFUSED(teak_table_exists(engine, text("../outside"), &exists));
  CHECK(teak_cursor_open(t, table, 2, TEAK_LOCK_NONE, &(teak_cursor *){ NULL }) == TEAK_NO_SUCH_INDEX);
  REFUSED(teak_cursor_open(t, table, 0, (teak_lock_mode)3, &(teak_cursor *){ NULL }));
  size_t count;
  REFUSED(teak_cursor_next_rows(cursor, 0, &row, 0, &count));
  REFUSED(teak_cursor_next_rows(cursor, 0, NULL, 1, &count));
  REFUSED(teak_cursor_next_rows(cursor, 0, &row, 1, NULL));
  REFUSED(teak_cursor_next_rows(cursor, 1, &row, 1, &count));
  /* An empty key is valid, even if its pointer is NULL. */
  CHECK(teak_cursor_get(cursor, NONE, &row) == TEAK_NOT_FOUND);
  OK(teak_cursor_first(cursor, &row));
  CHECK(equal(row.key, "k") && equal(row.value, "v"));
  CHECK(teak_cursor_next(cursor, &row) == TEAK_NOT_FOUND);
  teak_cursor_close(cursor);
  CHECK(entries_of(t, table, 1) == 0);

  size_t size = 64 << 20;
  uint8_t *large = calloc(size, 1);
  CHECK(large != NULL);
  teak_row_entry heavy = { 0, false, { large, size }, NONE };
  CHECK(teak_transaction_insert(t, table, &heavy, 1, NULL) == TEAK_TOO_LARGE);
  heavy.key = text("heavy");
  heavy.value.data = large;
  heavy.value.len = size;
  CHECK(teak_transaction_insert(t, table, &heavy, 1, NULL) == TEAK_TOO_LARGE);
  free(large);
  OK(teak_transaction_commit(t));
  teak_table_close(table);
}

static void short_buffers(teak_engine *engine) {
  char whole[200], part[200];
  bool exists = false;
  REFUSED(teak_table_exists(engine, text("../outside"), &exists));
  size_t length = teak_last_error(whole, sizeof whole);
  CHECK(length > 10 && length < sizeof whole && whole[length] == '\0');
  CHECK(teak_last_error(NULL, 100) == length);
  for (size_t capacity = 0; capacity <= length + 2; capacity++) {
    memset(part, '#', sizeof part);
    CHECK(teak_last_error(part, capacity) == length);
    size_t copied = capacity < length ? capacity : length;
    CHECK(memcmp(part, whole, copied) == 0);
    if (capacity > length) CHECK(part[length] == '\0');
    CHECK(part[capacity] == '#');
  }
}

/* ---- concurrent transactions ---- */

static void isolation(teak_engine *engine) {
  teak_table *table = make_table(engine, "./db/isolation", 1, 1);
  teak_transaction *writer = begin(engine, TEAK_REPEATABLE_READ);
  OK(put(writer, table, "k", "old"));
  OK(teak_transaction_commit(writer));
  teak_transaction *repeatable = begin(engine, TEAK_REPEATABLE_READ), *late = begin(engine, TEAK_REPEATABLE_READ);
  teak_transaction *committed = begin(engine, TEAK_READ_COMMITTED), *dirty = begin(engine, TEAK_READ_UNCOMMITTED);
  OK(teak_transaction_take_snapshot(repeatable));
  writer = begin(engine, TEAK_REPEATABLE_READ);
  OK(change(writer, table, "k", "new"));
  CHECK(reads(writer, table, "k", "new") && reads(repeatable, table, "k", "old"));
  CHECK(reads(committed, table, "k", "old") && reads(dirty, table, "k", "new"));
  /* A wait is reported when both transactions have owners. */
  int one, other, reported = waits_reported;
  OK(teak_transaction_set_owner(repeatable, &one));
  CHECK(change(repeatable, table, "k", "mine") == TEAK_LOCK_TIMEOUT);
  CHECK(waits_reported == reported);
  OK(teak_transaction_set_owner(writer, &other));
  CHECK(put(repeatable, table, "k", "mine") == TEAK_LOCK_TIMEOUT);
  CHECK(waits_reported == reported + 1 && last_waiter == &one && last_holder == &other);
  OK(teak_transaction_commit(writer));
  CHECK(reads(repeatable, table, "k", "old") && reads(late, table, "k", "new"));
  CHECK(reads(committed, table, "k", "old"));
  OK(teak_transaction_begin_statement(committed));
  CHECK(reads(committed, table, "k", "new"));
  CHECK(change(repeatable, table, "k", "mine") == TEAK_CONFLICT);
  OK(change(late, table, "k", "late"));
  uint64_t mark = 0;
  OK(teak_transaction_savepoint(late, &mark));
  OK(change(late, table, "k", "later"));
  OK(put(late, table, "m", "later"));
  OK(teak_transaction_rollback_to_savepoint(late, mark));
  CHECK(reads(late, table, "k", "late") && reads(late, table, "m", NULL));
  OK(teak_transaction_rollback(late));
  OK(teak_transaction_rollback(repeatable));
  OK(teak_transaction_rollback(dirty));
  OK(teak_transaction_begin_statement(committed));
  CHECK(reads(committed, table, "k", "new"));
  OK(teak_transaction_commit(committed));
  /* A row deleted after the snapshot is not found; with snapshot isolation, writing it is a conflict. */
  for (int refuses = 0; refuses < 2; refuses++) {
    const teak_row_entry gone = { 0, false, text("d"), NONE };
    writer = begin(engine, TEAK_REPEATABLE_READ);
    OK(put(writer, table, "d", "old"));
    OK(teak_transaction_commit(writer));
    repeatable = begin(engine, TEAK_REPEATABLE_READ);
    OK(teak_transaction_set_snapshot_isolation(repeatable, refuses));
    OK(teak_transaction_take_snapshot(repeatable));
    writer = begin(engine, TEAK_REPEATABLE_READ);
    OK(teak_transaction_delete(writer, table, &gone, 1));
    OK(teak_transaction_commit(writer));
    const teak_status expected = refuses ? TEAK_CONFLICT : TEAK_NOT_FOUND;
    CHECK(change(repeatable, table, "d", "mine") == expected);
    CHECK(teak_transaction_delete(repeatable, table, &gone, 1) == expected);
    CHECK(reads(repeatable, table, "d", "old"));
    OK(teak_transaction_rollback(repeatable));
  }
  teak_table_close(table);
}

typedef struct write_of_other {
  teak_transaction *transaction;
  teak_table *table;
  const char *key;
  bool insert;
  teak_status status;
} write_of_other;

static void *write_elsewhere(void *context) {
  write_of_other *own = context;
  own->status = own->insert ? put(own->transaction, own->table, own->key, "theirs")
                            : change(own->transaction, own->table, own->key, "theirs");
  return NULL;
}

static void waits(teak_engine *engine) {
  teak_table *table = make_table(engine, "./db/waits", 1, 1);
  teak_transaction *t = begin(engine, TEAK_READ_COMMITTED);
  OK(put(t, table, "a", "1"));
  OK(put(t, table, "b", "1"));
  OK(teak_transaction_commit(t));
  pthread_t thread;

  /* An insert that waits for another fails with a duplicate key if that one commits, and succeeds if it rolls back. */
  for (int commits = 0; commits < 2; commits++) {
    t = begin(engine, TEAK_READ_COMMITTED);
    OK(put(t, table, "c", "ours"));
    write_of_other other = { begin(engine, TEAK_READ_COMMITTED), table, "c", true, TEAK_INTERNAL };
    OK(teak_transaction_set_lock_timeout(other.transaction, 60000));
    CHECK(pthread_create(&thread, NULL, write_elsewhere, &other) == 0);
    usleep(20000); /* it probably waits now; otherwise the outcome is the same */
    OK(commits ? teak_transaction_commit(t) : teak_transaction_rollback(t));
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(other.status == (commits ? TEAK_DUPLICATE_KEY : TEAK_OK));
    OK(teak_transaction_rollback(other.transaction));
  }

  /* TEAK_NO_WAIT fails immediately; TEAK_NEVER waits without limit. */
  t = begin(engine, TEAK_READ_COMMITTED);
  OK(change(t, table, "a", "ours"));
  write_of_other patient = { begin(engine, TEAK_READ_COMMITTED), table, "a", false, TEAK_INTERNAL };
  OK(teak_transaction_set_lock_timeout(patient.transaction, TEAK_NO_WAIT));
  CHECK(change(patient.transaction, table, "a", "theirs") == TEAK_LOCK_TIMEOUT);
  OK(teak_transaction_set_lock_timeout(patient.transaction, TEAK_NEVER));
  CHECK(pthread_create(&thread, NULL, write_elsewhere, &patient) == 0);
  usleep(20000);
  OK(teak_transaction_commit(t));
  CHECK(pthread_join(thread, NULL) == 0);
  OK(patient.status);
  OK(teak_transaction_rollback(patient.transaction));

  /* An interrupt from this thread ends a wait of the other thread. */
  t = begin(engine, TEAK_READ_COMMITTED);
  OK(change(t, table, "a", "ours"));
  write_of_other stuck = { begin(engine, TEAK_READ_COMMITTED), table, "a", false, TEAK_INTERNAL };
  OK(teak_transaction_set_lock_timeout(stuck.transaction, 60000));
  CHECK(pthread_create(&thread, NULL, write_elsewhere, &stuck) == 0);
  usleep(20000);
  teak_transaction_interrupt(stuck.transaction);
  CHECK(pthread_join(thread, NULL) == 0);
  CHECK(stuck.status == TEAK_INTERRUPTED);
  OK(teak_transaction_rollback(stuck.transaction));

  /* Two transactions wait for each other: one gets TEAK_DEADLOCK and is rolled back, and the other continues. */
  write_of_other theirs = { begin(engine, TEAK_READ_COMMITTED), table, "a", false, TEAK_INTERNAL };
  OK(teak_transaction_set_lock_timeout(theirs.transaction, 60000));
  OK(teak_transaction_set_lock_timeout(t, 300));
  OK(change(theirs.transaction, table, "b", "theirs"));
  CHECK(pthread_create(&thread, NULL, write_elsewhere, &theirs) == 0);
  usleep(20000);
  teak_status ours = change(t, table, "b", "ours");
  if (ours != TEAK_OK) OK(teak_transaction_rollback(t));
  CHECK(pthread_join(thread, NULL) == 0);
  if (ours == TEAK_OK) OK(teak_transaction_commit(t));
  /* Completes the cycle. If the other thread is slow, its call may complete the cycle, and this one times out. */
  CHECK((ours == TEAK_DEADLOCK && theirs.status == TEAK_OK) ||
        (ours == TEAK_LOCK_TIMEOUT && (theirs.status == TEAK_DEADLOCK || theirs.status == TEAK_OK)));
  OK(theirs.status == TEAK_OK ? teak_transaction_commit(theirs.transaction) : teak_transaction_rollback(theirs.transaction));
  teak_table_close(table);
}

/* ---- after a crash ---- */

static uint64_t reserved_before_crash(const char *directory, uint64_t *counter) {
  int channel[2];
  uint64_t reported[2] = { 0, 0 };
  CHECK(pipe(channel) == 0);
  pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    teak_engine *engine = open_engine(directory);
    teak_table *table = make_table(engine, "./db/ids", 1, 1);
    teak_transaction *t = begin(engine, TEAK_READ_COMMITTED);
    OK(teak_table_reserve_row_ids(table, 7, &reported[0]));
    OK(teak_table_counter_advance(table, 0, 41));
    OK(put(t, table, "k", "v"));
    OK(teak_transaction_commit(t));
    OK(teak_table_reserve_row_ids(table, 7, &reported[0]));
    OK(teak_table_counter_get(table, 0, &reported[1]));
    CHECK(write(channel[1], reported, sizeof reported) == (ssize_t)sizeof reported);
    _exit(0);
  }
  int status = 1;
  CHECK(waitpid(child, &status, 0) == child && status == 0);
  CHECK(read(channel[0], reported, sizeof reported) == (ssize_t)sizeof reported);
  close(channel[0]);
  close(channel[1]);
  *counter = reported[1];
  return reported[0];
}

static void ids_after_crash(const char *directory) {
  uint64_t counter = 0, last = reserved_before_crash(directory, &counter), first = 0, value = 0;
  teak_engine *engine = open_engine(directory);
  teak_table *table = NULL;
  teak_engine_statistics found = { .struct_size = sizeof found };
  OK(teak_table_open(engine, text("./db/ids"), &table));
  OK(teak_table_reserve_row_ids(table, 1, &first));
  CHECK(first >= last);
  OK(teak_table_counter_get(table, 0, &value));
  CHECK(counter == 41 && value == 41);
  OK(teak_engine_get_statistics(engine, &found));
  CHECK(found.recovered_records > 0);
  teak_table_close(table);
  OK(teak_engine_close(engine));
}

/* ---- damage ---- */

static void overwrite_first_block(const char *directory, const char *table) {
  char path[1024];
  bool done = false;
  snprintf(path, sizeof path, "%s/db", directory);
  DIR *listing = opendir(path);
  CHECK(listing != NULL);
  for (struct dirent *entry; (entry = readdir(listing)) != NULL;) {
    if (strncmp(entry->d_name, table, strlen(table)) != 0) continue;
    snprintf(path, sizeof path, "%s/db/%s", directory, entry->d_name);
    FILE *file = fopen(path, "r+b");
    CHECK(file != NULL && fseek(file, 8192 + 48, SEEK_SET) == 0);
    CHECK(fwrite("damaged!", 1, 8, file) == 8 && fclose(file) == 0);
    done = true;
  }
  closedir(listing);
  CHECK(done);
}

static void damage(const char *directory) {
  teak_engine *engine = open_engine(directory);
  teak_table *table = make_table(engine, "./db/hurt", 1, 1);
  teak_index_statistics statistics = { .struct_size = sizeof statistics };
  teak_transaction *t = begin(engine, TEAK_READ_COMMITTED);
  char key[16];
  for (int n = 0; n < 500; n++) {
    snprintf(key, sizeof key, "k%03d", n);
    OK(put(t, table, key, "a value of some length"));
  }
  OK(teak_transaction_commit(t));
  OK(teak_engine_checkpoint(engine));
  OK(teak_index_get_statistics(table, 0, &statistics));
  CHECK(statistics.entries == 500 && statistics.disk_bytes > 8192 && statistics.raw_bytes > 500 * 20);
  CHECK(statistics.runs > 0 && statistics.memtable_bytes < 500 * 20 && statistics.codec == TEAK_CODEC_NONE);
  uint64_t entries = 0;
  OK(teak_index_estimate_entries(table, 0, text("k100"), text("k200"), &entries));
  CHECK(entries > 50 && entries < 200);
  teak_table_close(table);
  OK(teak_engine_close(engine));

  overwrite_first_block(directory, "hurt");
  engine = open_engine(directory);
  // Open the table without its files.
  OK(teak_table_open_lazily(engine, text("./db/hurt"), &table));
  OK(teak_index_get_statistics(table, 0, &statistics));
  CHECK(statistics.entries == 500 && statistics.disk_bytes > 8192 && statistics.memtable_bytes == 0);
  uint64_t when = 1;
  OK(teak_table_get_written_at(table, &when));
  CHECK(when == 0);
  OK(teak_table_set_written_at(table, 1700000000));
  OK(teak_table_get_written_at(table, &when));
  CHECK(when == 1700000000);
  OK(teak_table_open_files(table, NULL, NULL));
  bool damaged = true;
  size_t written = 0;
  char message[300];
  OK(teak_table_is_damaged(table, &damaged));
  CHECK(!damaged);
  CHECK(teak_table_verify(table, NULL, on_text, &written) == TEAK_CORRUPT);
  CHECK(written > 0);
  CHECK(teak_last_error(message, sizeof message) > 0 && strstr(message, "hurt") != NULL);
  OK(teak_table_is_damaged(table, &damaged));
  CHECK(damaged);
  t = begin(engine, TEAK_READ_COMMITTED);
  teak_cursor *cursor = NULL;
  teak_row row;
  OK(teak_cursor_open(t, table, 0, TEAK_LOCK_NONE, &cursor));
  CHECK(teak_cursor_first(cursor, &row) == TEAK_CORRUPT);
  teak_cursor_close(cursor);
  OK(teak_transaction_rollback(t));
  teak_table_close(table);
  OK(teak_table_drop(engine, text("./db/hurt")));
  OK(teak_engine_close(engine));
}

/* Only one engine of all processes can have a directory open. */
static void open_once(const char *directory) {
  teak_engine_options options;
  memset(&options, 0, sizeof options);
  options.struct_size = sizeof options;
  options.directory = text(directory);
  options.cache_bytes = 16 << 20;
  teak_engine *second = NULL;
  CHECK(teak_engine_open(&options, &second) == TEAK_IN_USE);
  CHECK(second == NULL);
  pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) _exit(teak_engine_open(&options, &second) == TEAK_IN_USE ? 0 : 1);
  int ended = 0;
  CHECK(waitpid(child, &ended, 0) == child && WIFEXITED(ended) && WEXITSTATUS(ended) == 0);
}

int main(int argc, char **argv) {
  CHECK(argc == 2);
  /* Runs first, because its child must not be forked while an engine is open. */
  ids_after_crash(argv[1]);
  teak_engine *engine = open_engine(argv[1]);
  open_once(argv[1]);
  versions(engine, argv[1]);
  seeks(engine);
  prefixes(engine);
  checked_keys(engine);
  wide_rows(engine);
  wrong_slices(engine);
  short_buffers(engine);
  isolation(engine);
  waits(engine);
  OK(teak_engine_close(engine));
  damage(argv[1]);
  puts("every edge held");
  return 0;
}
