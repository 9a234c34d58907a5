/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* See create.h. */

#include "handler/create.h"

#include <memory>
#include <string>
#include <vector>

#include "base/encryption_keys.h"
#include "base/engine.h"
#include "base/errors.h"
#include "base/table_name.h"
#include "format/key_codec.h"
#include "format/row_codec.h"
#include "session/query_cache.h"
#include "table/definition.h"
#include "table/table_metadata.h"

namespace teak {

namespace {

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
  for (uint i = 0; i < form->s->keys; i++)
    if (const char *kind = special_kind(form->key_info[i])) return kind;
  return has_vector_key(form->s) ? "VECTOR KEY" : nullptr;
}

/* The codec of the rows, if the rows and all keys can be encoded. Otherwise nullptr, with a message in *error: CREATE TABLE
   fails, instead of the first INSERT. */
std::unique_ptr<RowCodec> create_codec(const TABLE *form, std::string *error) {
  std::shared_ptr<const KeyCodec> primary = form->s->primary_key == MAX_KEY
                                                ? KeyCodec::create_hidden()
                                                : create_checked_key_codec(form, form->s->primary_key, nullptr, error);
  if (primary == nullptr) return nullptr;
  for (uint i = 0; i < form->s->keys; i++)
    if (i != form->s->primary_key && create_checked_key_codec(form, i, primary.get(), error) == nullptr) return nullptr;
  return RowCodec::create(form, primary, TableMetadata().schema_version, nullptr, error);
}

/* The table's indexes in the engine: the rows first, then the secondary keys in the server's order. */
std::vector<teak_index_definition> index_definitions(const TABLE *form, const RowCodec &rows, ColumnLists *lists) {
  std::vector<teak_index_definition> indexes = {row_index_definition(form, rows, lists)};
  for (uint key = 0; key < form->s->keys; key++)
    if (key != form->s->primary_key) indexes.push_back(key_index_definition(form, key, rows, lists));
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

/* Writes the .frm file, because the server leaves this to engines with discovery, and reads it into *image. */
int write_frm(OpenTable &open, const TABLE *form, FrmImage *image) {
  teak_status status;
  if (const LEX_CUSTRING *frm = form->s->frm_image) {
    if (form->s->write_frm_image(frm->str, frm->length)) return HA_ERR_GENERIC;  // the error was raised
    status = image->set({frm->str, frm->length});
  } else {
    status = image->read_file(form->s->normalized_path.str);
  }
  return status == TEAK_OK ? 0 : open.with_text(ERROR_OF_ENGINE, "the definition of the new table cannot be read");
}

}  // namespace

int create_table(OpenTable &open, const TABLE *form, const HA_CREATE_INFO *info) {
  THD *thd = open.thd();
  if (const char *clause = refused_clause(form, info)) return refuse(clause);
  if (const char *format = unsupported_row_format(info)) {
    // A table that is converted from another engine has the clause even if this statement does not contain it.
    if ((info->used_fields & HA_CREATE_USED_ROW_FORMAT) && thd->is_strict_mode()) return refuse(format);
    push_warning_printf(thd, Sql_condition::WARN_LEVEL_WARN, ER_ILLEGAL_HA_CREATE_OPTION,
                        ER_THD(thd, ER_ILLEGAL_HA_CREATE_OPTION), "TEAK", format);
  }
  std::string error;
  const std::unique_ptr<RowCodec> rows = create_codec(form, &error);
  if (rows == nullptr) {
    my_error(ER_NOT_SUPPORTED_YET, MYF(0), error.c_str());
    return HA_WRONG_CREATE_OPTION;
  }
  if (form->s->option_struct == nullptr) return HA_ERR_INTERNAL_ERROR;  // the server allocates it for every table

  if (is_forbidden_plain(form->s)) return refuse("ENCRYPTED=NO (teak_encrypt_tables=FORCE)");
  const uint32_t key_id = encryption_key_of(form->s);
  if (key_id != 0 && newest_key_version(key_id) == 0)
    return refuse(("ENCRYPTION_KEY_ID=" + std::to_string(key_id) + " (the server has no such key)").c_str());
  note_compressions(thd, form->s);
  ColumnLists columns;
  const std::vector<teak_index_definition> indexes = index_definitions(form, *rows, &columns);
  const EngineTableName name(open.name().c_str());
  TableMetadata metadata;
  metadata.set_version(form->s->tabledef_version);
  for (uint key = 0; key < form->s->keys; key++)
    if (is_clustering(form->s, key)) metadata.set_clustering(key);
  if (!name.is_temporary() && !is_partition(open.name().c_str()))
    if (int failed = write_frm(open, form, &metadata.frm)) return failed;
  const std::vector<uint8_t> bytes = metadata.encode();
  const teak_table_definition definition = {
      sizeof(teak_table_definition), sizeof(teak_index_definition), name, indexes.data(), indexes.size(),
      {bytes.data(), bytes.size()}};
  teak_status status =
      name.is_temporary() ? teak_table_create_temporary(engine, &definition) : teak_table_create(engine, &definition);
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
