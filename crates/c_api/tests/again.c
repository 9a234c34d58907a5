/* Transactions and cursors that are used again. Runs in the directory given as argument. */
#include "support.h"

/* A transaction and a cursor that are used again keep their settings, and nothing else. */
static void again(teak_engine *engine) {
  teak_table *table = make_table(engine, "./db/again", 1, 1), *other = make_table(engine, "./db/other", 1, 1);
  teak_transaction *t = begin(engine, TEAK_REPEATABLE_READ);
  OK(put(t, table, "k", "old"));
  OK(put(t, other, "k", "other"));
  CHECK(teak_transaction_begin_again(t, TEAK_REPEATABLE_READ) == TEAK_INTERNAL);
  CHECK(reads(t, table, "k", "old"));
  teak_cursor *cursor = NULL;
  teak_row row;
  OK(teak_cursor_open(t, table, 0, TEAK_LOCK_NONE, &cursor));
  OK(teak_cursor_set_bounds(cursor, text("a"), text("b")));
  CHECK(teak_cursor_first(cursor, &row) == TEAK_NOT_FOUND);
  REFUSED(teak_cursor_open_again(cursor, t, table, 0, TEAK_LOCK_NONE));
  CHECK(teak_cursor_first(cursor, &row) == TEAK_NOT_FOUND);
  teak_cursor_park(cursor);
  teak_cursor_park(cursor);
  teak_cursor_park(NULL);
  REFUSED(teak_cursor_first(cursor, &row));
  REFUSED(teak_cursor_get(cursor, text("k"), &row));
  REFUSED(teak_cursor_set_bounds(cursor, NONE, NONE));
  CHECK(!teak_cursor_is_unlocked(cursor));
  OK(teak_transaction_commit_and_keep(t));
  /* Ended: other calls fail. */
  teak_transaction_interrupt(t);
  CHECK(put(t, table, "m", "late") == TEAK_INTERNAL);
  CHECK(teak_transaction_commit_and_keep(t) == TEAK_INTERNAL);

  OK(teak_transaction_begin_again(t, TEAK_REPEATABLE_READ));
  CHECK(!teak_transaction_has_writes(t));
  REFUSED(teak_cursor_open_again(cursor, t, table, 0, 9));
  CHECK(teak_cursor_open_again(cursor, t, table, 7, TEAK_LOCK_NONE) == TEAK_NO_SUCH_INDEX);
  OK(teak_cursor_open_again(cursor, t, other, 0, TEAK_LOCK_EXCLUSIVE));
  OK(teak_cursor_first(cursor, &row));
  CHECK(equal(row.value, "other"));
  teak_cursor_park(cursor);
  OK(teak_transaction_commit_and_keep(t));
  OK(teak_transaction_rollback(t));
  teak_cursor_close(cursor);
  teak_table_close(table);
  teak_table_close(other);
}

int main(int argc, char **argv) {
  CHECK(argc == 2);
  teak_engine *engine = open_engine(argv[1]);
  again(engine);
  CHECK(messages == 0);
  OK(teak_engine_close(engine));
  return 0;
}
