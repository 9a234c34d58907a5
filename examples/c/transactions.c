// Two threads that add to the same numbers: row locks, deadlocks, retries and savepoints.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <teak.h>

enum { ROUNDS = 200 };

static teak_engine *engine;
static teak_table *table;

static void check(teak_status status) {
  char message[256];
  if (status == TEAK_OK) return;
  teak_last_error(message, sizeof message);
  fprintf(stderr, "error %d: %s\n", (int)status, message);
  exit(1);
}

// Adds to the number in a row. The row remains locked until the transaction ends.
static teak_status add(teak_transaction *transaction, const char *key, int amount) {
  teak_cursor *cursor;
  teak_row row;
  char text[20];
  teak_status status = teak_cursor_open(transaction, table, 0, TEAK_LOCK_EXCLUSIVE, &cursor);
  if (status != TEAK_OK) return status;
  status = teak_cursor_get(cursor, teak_string(key), &row);
  if (status == TEAK_OK) {
    snprintf(text, sizeof text, "%.*s", (int)row.value.len, (const char *)row.value.data);
    snprintf(text, sizeof text, "%d", atoi(text) + amount);
    const teak_row_change change = {.old_key = teak_string(key),
                                    .new_key = teak_string(key),
                                    .new_value = teak_string(text)};
    status = teak_transaction_update(transaction, table, &change, 1, NULL);
  }
  teak_cursor_close(cursor);
  return status;
}

// Adds one to both rows, in an order that can cause deadlocks. Returns the number of attempts.
static int add_to_both(const char *first, const char *second) {
  for (int attempt = 1;; attempt++) {
    teak_transaction *transaction;
    check(teak_transaction_begin(engine, TEAK_REPEATABLE_READ, &transaction));
    teak_status status = add(transaction, first, 1);
    if (status == TEAK_OK) status = add(transaction, second, 1);
    if (status == TEAK_OK) {
      check(teak_transaction_commit(transaction));
      return attempt;
    }
    check(teak_transaction_rollback(transaction));
    if (status != TEAK_DEADLOCK && status != TEAK_LOCK_TIMEOUT) check(status);
  }
}

static void *run(void *keys) {
  const char **order = keys;
  long attempts = 0;
  for (int round = 0; round < ROUNDS; round++) attempts += add_to_both(order[0], order[1]);
  return (void *)attempts;
}

int main(int argc, char **argv) {
  teak_engine_options options = {.struct_size = sizeof options};
  options.directory = teak_string(argc > 1 ? argv[1] : "data");
  options.commit_without_sync = true;
  check(teak_engine_open(&options, &engine));
  const teak_index_definition rows = {.label = teak_string("rows"), .exact_lookups = true};
  const teak_table_definition definition = {.struct_size = sizeof definition,
                                            .index_struct_size = sizeof rows,
                                            .name = teak_string("numbers"),
                                            .indexes = &rows,
                                            .index_count = 1};
  check(teak_table_create(engine, &definition));
  check(teak_table_open(engine, definition.name, &table));

  // A rollback to the savepoint undoes the second insert, and the transaction continues.
  teak_transaction *transaction;
  uint64_t savepoint;
  check(teak_transaction_begin(engine, TEAK_REPEATABLE_READ, &transaction));
  const char *keys[] = {"a", "wrong", "b"};
  for (int n = 0; n < 3; n++) {
    if (n == 1) check(teak_transaction_savepoint(transaction, &savepoint));
    const teak_row_entry entry = {.key = teak_string(keys[n]), .value = teak_string("0")};
    check(teak_transaction_insert(transaction, table, &entry, 1, NULL));
    if (n == 1) check(teak_transaction_rollback_to_savepoint(transaction, savepoint));
  }
  check(teak_transaction_commit(transaction));

  const char *orders[2][2] = {{"a", "b"}, {"b", "a"}};
  pthread_t threads[2];
  long attempts = 0;
  for (int n = 0; n < 2; n++) pthread_create(&threads[n], NULL, run, orders[n]);
  for (int n = 0; n < 2; n++) {
    void *made;
    pthread_join(threads[n], &made);
    attempts += (long)made;
  }
  printf("%d transactions took %ld attempts\n", 2 * ROUNDS, attempts);

  teak_cursor *cursor;
  teak_row row;
  check(teak_transaction_begin(engine, TEAK_REPEATABLE_READ, &transaction));
  check(teak_cursor_open(transaction, table, 0, TEAK_LOCK_NONE, &cursor));
  teak_status status = teak_cursor_first(cursor, &row);
  for (; status == TEAK_OK; status = teak_cursor_next(cursor, &row))
    printf("%.*s = %.*s\n", (int)row.key.len, (const char *)row.key.data, (int)row.value.len,
           (const char *)row.value.data);
  if (status != TEAK_NOT_FOUND) check(status);
  teak_cursor_close(cursor);
  check(teak_transaction_rollback(transaction));

  teak_table_close(table);
  check(teak_engine_close(engine));
  return 0;
}
