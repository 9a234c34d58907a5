/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* Rows of tables of INFORMATION_SCHEMA. Each table is filled from one list of the engine. The tables require the PROCESS
   privilege, like InnoDB's. */

#ifndef TEAK_MONITOR_SCHEMA_TABLE_H
#define TEAK_MONITOR_SCHEMA_TABLE_H

#include "base/server_version.h"

#include <new>
#include <string>

#include "base/core.h"
#include "base/engine.h"
#include "base/errors.h"
#include "sql_acl.h"
#include "sql_i_s.h"
#include "sql_show.h"
#include "sql_time.h"
#include "tztime.h"

namespace teak {

inline std::string text_of(teak_slice bytes) {
  return std::string(reinterpret_cast<const char *>(bytes.data), bytes.len);
}

/* A row of the server's temporary table, filled column by column. */
class Row {
 public:
  Row(THD *thd, TABLE *table) : thd_(thd), table_(table) { restore_record(table, s->default_values); }

  void number(uint64_t value) { next()->store(static_cast<longlong>(value), true); }
  void number_or_null(uint64_t value, bool is_null) { is_null ? null() : number(value); }
  void text(const std::string &value) { next()->store(value.data(), value.size(), system_charset_info); }
  void text_or_null(const std::string &value, bool is_null) { is_null ? null() : text(value); }
  void time(uint64_t microseconds) {
    MYSQL_TIME when;
    thd_->variables.time_zone->gmt_sec_to_TIME(&when, static_cast<my_time_t>(microseconds / 1000000));
    next()->store_time_dec(&when, 0);
  }
  /* NULL if `of` is 0. */
  void ratio(uint64_t value, uint64_t of) {
    if (of == 0) return null();
    next()->store(static_cast<double>(value) / static_cast<double>(of));
  }
  void null() { next()->set_null(); }
  /* True: the row could not be stored. */
  bool store() { return schema_table_store_record(thd_, table_); }

 private:
  Field *next() {
    Field *field = table_->field[column_++];
    field->set_notnull();
    return field;
  }

  THD *const thd_;
  TABLE *const table_;
  uint column_ = 0;
};

struct Filling {
  THD *thd;
  TABLE *table;
  bool failed;
};

template <typename Info, void (*add)(Filling *, const Info *)> void try_to_add(void *context, const Info *info) {
  auto *filling = static_cast<Filling *>(context);
  if (filling->failed) return;
  try {
    add(filling, info);
  } catch (const std::bad_alloc &) {
    filling->failed = raise_out_of_memory();
  }
}

template <typename Info, teak_status (*list)(teak_engine *, void (*)(void *, const Info *), void *),
          void (*add)(Filling *, const Info *)>
int fill(THD *thd, TABLE_LIST *tables, Item *) {
  if (check_global_access(thd, PROCESS_ACL)) return 1;
  if (engine == nullptr) return 0;
  Filling filling = {thd, tables->table, false};
  teak_status status = list(engine, try_to_add<Info, add>, &filling);
  if (status != TEAK_OK) raise(thd, status, tables->table_name.str);
  return status != TEAK_OK || filling.failed;
}

inline int describe_schema_table(void *schema_table, ST_FIELD_INFO *fields,
                                 int (*fill_table)(THD *, TABLE_LIST *, Item *)) {
  auto *table = static_cast<ST_SCHEMA_TABLE *>(schema_table);
  table->fields_info = fields;
  table->fill_table = fill_table;
  return 0;
}

}  // namespace teak

#endif
