// A table of users with a unique index of e-mail addresses and an index of cities.
//
// A row has an entry in every index. The key of an entry in an index that is not unique ends with
// the primary key, so that no two rows have the same entry; here a NUL separates the city and the
// primary key. Such a key need not be checked.
#include <stdio.h>
#include <stdlib.h>
#include <teak.h>

enum { ROWS, BY_EMAIL, BY_CITY, INDEXES };

typedef struct user {
  const char *id, *email, *city;
} user;

static void check(teak_status status) {
  char message[256];
  if (status == TEAK_OK) return;
  teak_last_error(message, sizeof message);
  fprintf(stderr, "error %d: %s\n", (int)status, message);
  exit(1);
}

static teak_slice city_key(const user *user, char *buffer, size_t capacity) {
  int length = snprintf(buffer, capacity, "%s%c%s", user->city, '\0', user->id);
  return (teak_slice){(const uint8_t *)buffer, (size_t)length};
}

static teak_status add(teak_transaction *transaction, teak_table *table, const user *user) {
  char buffer[200];
  const teak_slice id = teak_string(user->id), email = teak_string(user->email);
  const teak_row_entry entries[INDEXES] = {
      {.index = ROWS, .key = id, .value = email},
      {.index = BY_EMAIL, .key = email, .value = id},
      {.index = BY_CITY, .unchecked = true, .key = city_key(user, buffer, sizeof buffer)},
  };
  teak_duplicate duplicate;
  teak_status status =
      teak_transaction_insert(transaction, table, entries, INDEXES, &duplicate);
  if (status == TEAK_DUPLICATE_KEY)
    printf("%s refused by index %u\n", user->id, (unsigned)duplicate.index);
  return status;
}

// Changes the city of a user: the row's value does not change; the entry of the city is replaced.
static void move(teak_transaction *transaction, teak_table *table, user *user,
                 const char *city) {
  char old_buffer[200], new_buffer[200];
  const teak_slice id = teak_string(user->id);
  teak_row_change changes[] = {
      {.index = ROWS, .old_key = id, .new_key = id, .new_value = teak_string(user->email)},
      {.index = BY_CITY,
       .unchecked = true,
       .old_key = city_key(user, old_buffer, sizeof old_buffer)},
  };
  user->city = city;
  changes[1].new_key = city_key(user, new_buffer, sizeof new_buffer);
  check(teak_transaction_update(transaction, table, changes, 2, NULL));
}

static void print_city(teak_transaction *transaction, teak_table *table, const char *city) {
  char lower[200], upper[200];
  const int length = snprintf(lower, sizeof lower, "%s%c", city, 0);
  snprintf(upper, sizeof upper, "%s%c", city, 1);
  teak_cursor *cursor, *rows;
  check(teak_cursor_open(transaction, table, BY_CITY, TEAK_LOCK_NONE, &cursor));
  check(teak_cursor_open(transaction, table, ROWS, TEAK_LOCK_NONE, &rows));
  check(teak_cursor_set_bounds(cursor, (teak_slice){(const uint8_t *)lower, (size_t)length},
                               (teak_slice){(const uint8_t *)upper, (size_t)length}));
  teak_row entry, row;
  teak_status status = teak_cursor_first(cursor, &entry);
  for (; status == TEAK_OK; status = teak_cursor_next(cursor, &entry)) {
    const teak_slice id = {entry.key.data + length, entry.key.len - (size_t)length};
    check(teak_cursor_get(rows, id, &row));
    printf("in %s: %.*s\n", city, (int)row.value.len, (const char *)row.value.data);
  }
  if (status != TEAK_NOT_FOUND) check(status);
  teak_cursor_close(rows);
  teak_cursor_close(cursor);
}

int main(int argc, char **argv) {
  teak_engine *engine;
  teak_engine_options options = {.struct_size = sizeof options};
  options.directory = teak_string(argc > 1 ? argv[1] : "data");
  check(teak_engine_open(&options, &engine));

  const teak_index_definition indexes[INDEXES] = {
      {.label = teak_string("rows"), .exact_lookups = true},
      {.label = teak_string("by_email"), .exact_lookups = true},
      {.label = teak_string("by_city")},
  };
  const teak_table_definition definition = {.struct_size = sizeof definition,
                                            .index_struct_size = sizeof *indexes,
                                            .name = teak_string("users"),
                                            .indexes = indexes,
                                            .index_count = INDEXES};
  check(teak_table_create(engine, &definition));
  teak_table *table;
  check(teak_table_open(engine, definition.name, &table));

  teak_transaction *transaction;
  user ada = {"1", "ada@example.org", "London"}, bob = {"2", "bob@example.org", "Paris"};
  const user eve = {"3", "ada@example.org", "Rome"};
  check(teak_transaction_begin(engine, TEAK_REPEATABLE_READ, &transaction));
  check(add(transaction, table, &ada));
  check(add(transaction, table, &bob));
  if (add(transaction, table, &eve) != TEAK_DUPLICATE_KEY) return 1;
  move(transaction, table, &bob, "London");
  check(teak_transaction_commit(transaction));

  check(teak_transaction_begin(engine, TEAK_REPEATABLE_READ, &transaction));
  print_city(transaction, table, "London");
  print_city(transaction, table, "Paris");
  check(teak_transaction_rollback(transaction));

  teak_table_close(table);
  check(teak_engine_close(engine));
  return 0;
}
