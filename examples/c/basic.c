// Opens a database, writes two rows in a transaction, and reads them in order.
#include <stdio.h>
#include <stdlib.h>
#include <teak.h>

static void check(teak_status status) {
  char message[256];
  if (status == TEAK_OK) return;
  teak_last_error(message, sizeof message);
  fprintf(stderr, "error %d: %s\n", (int)status, message);
  exit(1);
}

int main(int argc, char **argv) {
  teak_engine *engine;
  teak_engine_options options = {.struct_size = sizeof options};
  options.directory = teak_string(argc > 1 ? argv[1] : "data");
  check(teak_engine_open(&options, &engine));

  teak_index_definition rows = {.label = teak_string("rows"), .exact_lookups = true};
  teak_table_definition fruit = {.struct_size = sizeof fruit,
                                 .index_struct_size = sizeof rows,
                                 .name = teak_string("fruit"),
                                 .indexes = &rows,
                                 .index_count = 1};
  check(teak_table_create(engine, &fruit));
  teak_table *table;
  check(teak_table_open(engine, fruit.name, &table));

  teak_transaction *transaction;
  check(teak_transaction_begin(engine, TEAK_REPEATABLE_READ, &transaction));
  teak_row_entry pear = {.key = teak_string("pear"), .value = teak_string("green")};
  teak_row_entry plum = {.key = teak_string("plum"), .value = teak_string("blue")};
  check(teak_transaction_insert(transaction, table, &pear, 1, NULL));
  check(teak_transaction_insert(transaction, table, &plum, 1, NULL));

  teak_cursor *cursor;
  teak_row row;
  check(teak_cursor_open(transaction, table, 0, TEAK_LOCK_NONE, &cursor));
  teak_status found = teak_cursor_first(cursor, &row);
  for (; found == TEAK_OK; found = teak_cursor_next(cursor, &row))
    printf("%.*s: %.*s\n", (int)row.key.len, row.key.data, (int)row.value.len, row.value.data);
  if (found != TEAK_NOT_FOUND) check(found);
  teak_cursor_close(cursor);
  check(teak_transaction_commit(transaction));  // durable when it returns

  teak_table_close(table);
  check(teak_engine_close(engine));
  return 0;
}
