/* Shared by the C test programs: checks that print their line number, slices of strings, an engine and tables to test. */
#ifndef TEAK_TESTS_SUPPORT_H
#define TEAK_TESTS_SUPPORT_H

#include "../include/teak_server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static inline void fail(const char *what, int line) {
  char text[512] = "";
  teak_last_error(text, sizeof text);
  fprintf(stderr, "line %d: %s; last error: %s\n", line, what, text);
  exit(1);
}
#define CHECK(condition) do { if (!(condition)) fail(#condition, __LINE__); } while (0)
#define OK(call) CHECK((call) == TEAK_OK)
#define REFUSED(call) CHECK((call) == TEAK_INVALID_ARGUMENT)

static inline teak_slice text(const char *string) {
  teak_slice slice = { (const uint8_t *)string, strlen(string) };
  return slice;
}
static const teak_slice NONE = { NULL, 0 };

static inline bool equal(teak_slice slice, const char *string) {
  return slice.len == strlen(string) && memcmp(slice.data, string, slice.len) == 0;
}

static inline void on_message(void *context, teak_log_level level, const char *text, size_t len) {
  (void)level;
  *(int *)context += 1;
  fprintf(stderr, "engine: %.*s\n", (int)len, text);
}

/* A sink that counts its bytes. */
static inline void on_text(void *context, const char *text, size_t len) {
  (void)text;
  *(size_t *)context += len;
}

static int messages;

/* The owners of the last reported wait, and how many were reported. */
static void *last_waiter, *last_holder;
static int waits_reported;

static inline void on_wait(void *waiter, void *holder) {
  last_waiter = waiter;
  last_holder = holder;
  waits_reported++;
}

static inline teak_engine *open_engine(const char *directory) {
  teak_engine_options options;
  memset(&options, 0, sizeof options);
  options.directory = text(directory);
  options.cache_bytes = 16 << 20;
  options.background_threads = 2;
  options.struct_size = sizeof options;
  options.lock_timeout_milliseconds = 50;
  options.log_message = on_message;
  options.log_context = &messages;
  options.wait_begins = on_wait;
  teak_engine *engine = NULL;
  OK(teak_engine_open(&options, &engine));
  return engine;
}

static inline teak_table *make_table(teak_engine *engine, const char *name, uint32_t indexes, uint32_t unique) {
  teak_index_definition definitions[16];
  char labels[16][8];
  teak_table *table = NULL;
  memset(definitions, 0, sizeof definitions);
  for (uint32_t n = 0; n < indexes; n++) {
    snprintf(labels[n], sizeof labels[n], "i%u", n);
    definitions[n].label = text(labels[n]);
    definitions[n].codec = TEAK_CODEC_NONE + n % 6;
    definitions[n].exact_lookups = n < unique;
  }
  teak_table_definition definition = { sizeof definition, sizeof *definitions, text(name), definitions, indexes, NONE };
  OK(teak_table_create(engine, &definition));
  OK(teak_table_open(engine, text(name), &table));
  return table;
}

static inline teak_transaction *begin(teak_engine *engine, teak_isolation isolation) {
  teak_transaction *t = NULL;
  OK(teak_transaction_begin(engine, isolation, &t));
  return t;
}

static inline teak_status put(teak_transaction *t, teak_table *table, const char *key, const char *value) {
  teak_row_entry entry = { 0, false, text(key), text(value) };
  return teak_transaction_insert(t, table, &entry, 1, NULL);
}

static inline teak_status change(teak_transaction *t, teak_table *table, const char *key, const char *value) {
  teak_row_change changed = { 0, false, text(key), text(key), text(value) };
  return teak_transaction_update(t, table, &changed, 1, NULL);
}

static inline bool reads(teak_transaction *t, teak_table *table, const char *key, const char *value) {
  teak_cursor *cursor = NULL;
  teak_row row;
  OK(teak_cursor_open(t, table, 0, TEAK_LOCK_NONE, &cursor));
  teak_status status = teak_cursor_get(cursor, text(key), &row);
  bool as_expected = value ? status == TEAK_OK && equal(row.key, key) && equal(row.value, value)
                           : status == TEAK_NOT_FOUND;
  teak_cursor_close(cursor);
  return as_expected;
}

#endif
