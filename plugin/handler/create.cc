/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* See create.h. */

#include "handler/create.h"

#include <string>
#include <vector>

#include "base/engine.h"
#include "base/table_name.h"
#include "format/key_codec.h"
#include "format/row_codec.h"
#include "monitor/variables.h"
#include "session/query_cache.h"
#include "table/definition.h"
#include "table/table_metadata.h"

namespace teak {

namespace {

teak_slice slice_of(const char *text, size_t length) { return {reinterpret_cast<const uint8_t *>(text), length}; }

int refuse(const char *what) {
  my_error(ER_ILLEGAL_HA_CREATE_OPTION, MYF(0), "TEAK", what);
  return HA_WRONG_CREATE_OPTION;
}

bool declares_foreign_key(const HA_CREATE_INFO *info) {
  if (info->alter_info == nullptr) return false;
  List_iterator_fast<Key> keys(info->alter_info->key_list);
  while (const Key *key = keys++)
    if (key->type == Key::FOREIGN_KEY && !key->old) return true;
  return false;
}

/* The first clause that Teak does not support, or nullptr. */
const char *refused_clause(const TABLE *form, const HA_CREATE_INFO *info) {
  if (declares_foreign_key(info)) return "FOREIGN KEY";
  if (info->data_file_name != nullptr) return "DATA DIRECTORY";
  if (info->index_file_name != nullptr) return "INDEX DIRECTORY";
  if (info->tablespace != nullptr) return "TABLESPACE";
  for (uint i = 0; i < form->s->keys; i++) {
    if (form->key_info[i].flags & HA_FULLTEXT) return "FULLTEXT KEY";
    if (form->key_info[i].flags & HA_SPATIAL) return "SPATIAL KEY";
  }
  return nullptr;
}

/* Whether keys and rows can be encoded. Otherwise CREATE TABLE fails, instead of the first INSERT. `fixed_bytes` receives
   RowCodec::fixed_bytes(). */
bool can_encode(const TABLE *form, uint32_t *fixed_bytes, std::string *error) {
  std::shared_ptr<const KeyCodec> primary = form->s->primary_key == MAX_KEY
                                                ? KeyCodec::create_hidden()
                                                : create_checked_key_codec(form, form->s->primary_key, nullptr, error);
  if (primary == nullptr) return false;
  for (uint i = 0; i < form->s->keys; i++)
    if (i != form->s->primary_key && create_checked_key_codec(form, i, primary.get(), error) == nullptr) return false;
  std::unique_ptr<RowCodec> rows = RowCodec::create(form, primary, TableMetadata().schema_version, nullptr, error);
  if (rows == nullptr) return false;
  *fixed_bytes = rows->fixed_bytes();
  return true;
}

/* The table's indexes in the engine: the rows first, then the secondary keys in the server's order. */
std::vector<teak_index_definition> index_definitions(const TABLE *form, uint32_t row_fixed_bytes) {
  const ha_table_option_struct &options = *form->s->option_struct;
  const uint hidden = form->s->primary_key == MAX_KEY ? 1 : 0;
  std::vector<teak_index_definition> indexes(form->s->keys + hidden);
  for (teak_index_definition &index : indexes) {
    index.codec = codec_of(options.compression);
    index.page_bytes = static_cast<uint32_t>(options.page_bytes);
    index.exact_lookups = false;
    index.value_fixed_bytes = 0;
  }
  indexes[0].label = slice_of(ROW_INDEX_LABEL.str, ROW_INDEX_LABEL.length);
  indexes[0].exact_lookups = true;
  indexes[0].value_fixed_bytes = row_fixed_bytes;
  for (uint i = 0; i < form->s->keys; i++) {
    if (i == form->s->primary_key) continue;
    const KEY &key = form->key_info[i];
    indexes[i + hidden].label = slice_of(key.name.str, key.name.length);
    indexes[i + hidden].exact_lookups = enforced_by_engine(key);
  }
  return indexes;
}

teak_status set_auto_increment(const EngineTableName &name, ulonglong value) {
  teak_table *table = nullptr;
  teak_status status = teak_table_open(engine, name, &table);
  if (status != TEAK_OK) return status;
  status = teak_table_counter_set(table, AutoIncrementCounter::NUMBER, value);
  teak_table_close(table);
  return status;
}

}  // namespace

int create_table(OpenTable &open, const TABLE *form, const HA_CREATE_INFO *info) {
  THD *thd = open.thd();
  if (const char *clause = refused_clause(form, info)) return refuse(clause);
  if (const char *format = unsupported_row_format(info)) {
    // A table that is converted from another engine has the clause without anyone having asked for it here.
    if ((info->used_fields & HA_CREATE_USED_ROW_FORMAT) && thd->is_strict_mode()) return refuse(format);
    push_warning_printf(thd, Sql_condition::WARN_LEVEL_WARN, ER_ILLEGAL_HA_CREATE_OPTION,
                        ER_THD(thd, ER_ILLEGAL_HA_CREATE_OPTION), "TEAK", format);
  }
  std::string error;
  uint32_t fixed_bytes = 0;
  if (!can_encode(form, &fixed_bytes, &error)) {
    my_error(ER_NOT_SUPPORTED_YET, MYF(0), error.c_str());
    return HA_WRONG_CREATE_OPTION;
  }
  if (form->s->option_struct == nullptr) return HA_ERR_INTERNAL_ERROR;  // the server makes one for every table

  const std::vector<teak_index_definition> indexes = index_definitions(form, fixed_bytes);
  TableMetadata metadata;
  metadata.set_version(form->s->tabledef_version);
  const std::vector<uint8_t> bytes = metadata.encode();
  const EngineTableName name(open.name().c_str());
  const teak_table_definition definition = {
      sizeof(teak_table_definition), sizeof(teak_index_definition), name, indexes.data(), indexes.size(),
      {bytes.data(), bytes.size()}};
  teak_status status = teak_table_create(engine, &definition);
  if (status != TEAK_OK) return open.failure(status);
  query_cache_use::table_changed(open.name().c_str());

  if (form->found_next_number_field == nullptr || info->auto_increment_value <= 1) return 0;
  status = set_auto_increment(name, info->auto_increment_value);
  if (status == TEAK_OK) return 0;
  const int failed = open.failure(status);
  teak_table_drop(engine, name);
  return failed;
}

}  // namespace teak
