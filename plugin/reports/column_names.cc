/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* See column_names.h. The definition is read as the server's own tables of INFORMATION_SCHEMA read it: from the cache of
   definitions or the .frm file, without opening the table. */

#include "reports/column_names.h"

#include <memory>
#include <new>

#include "sql_class.h"

#include "field.h"
#include "format/key_codec.h"
#include "format/row_codec.h"
#include "sql_base.h"
#include "sql_show.h"
#include "table.h"
#include "table/table_metadata.h"
#include "table_cache.h"

namespace teak {

namespace {

std::string decoded(const std::string &part) {
  char text[NAME_LEN * 2 + 1];
  const size_t length = filename_to_tablename(part.c_str(), text, sizeof(text), true);
  return std::string(text, length);
}

/* The names of the database and of the table, which is that of its table for a partition. */
bool split(const std::string &path, std::string *database, std::string *table) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return false;
  *database = decoded(path.substr(0, slash));
  std::string name = path.substr(slash + 1);
  for (const char *mark : {"#P#", "#p#"}) name = name.substr(0, name.find(mark));
  if (name.empty() || name.find('#') != std::string::npos) return false;
  *table = decoded(name);
  return true;
}

/* Releases locks on metadata that were acquired since. */
class MetadataLocks {
 public:
  explicit MetadataLocks(THD *thd) : thd_(thd), before_(thd->mdl_context.mdl_savepoint()) {}
  ~MetadataLocks() { thd_->mdl_context.rollback_to_savepoint(before_); }

  /* False if it would have to wait. */
  bool try_lock(TABLE_LIST *table) {
    return !thd_->mdl_context.try_acquire_lock(&table->mdl_request) && table->mdl_request.ticket != nullptr;
  }

 private:
  THD *const thd_;
  const MDL_savepoint before_;
};

/* Errors of reading a definition are not errors of the statement. */
class WithoutErrors {
 public:
  explicit WithoutErrors(THD *thd) : thd_(thd) { thd->push_internal_handler(&handler_); }
  ~WithoutErrors() { thd_->pop_internal_handler(); }

 private:
  THD *const thd_;
  Dummy_error_handler handler_;
};

/* Expressions of the definition are allocated in an arena of their own. */
class DefinitionArena {
 public:
  explicit DefinitionArena(THD *thd)
      : thd_(thd), arena_(&root_, Query_arena::STMT_CONVENTIONAL_EXECUTION), statement_(thd->stmt_arena) {
    init_sql_alloc(PSI_NOT_INSTRUMENTED, &root_, TABLE_ALLOC_BLOCK_SIZE, 0, MYF(0));
    thd->stmt_arena = &arena_;
    thd->set_n_backup_active_arena(&arena_, &backup_);
  }
  ~DefinitionArena() {
    thd_->restore_active_arena(&arena_, &backup_);
    thd_->stmt_arena = statement_;
    arena_.free_items();
    free_root(&root_, MYF(0));
  }

 private:
  THD *const thd_;
  MEM_ROOT root_;
  Query_arena arena_, backup_;
  Query_arena *const statement_;
};

std::string name_of(const TABLE *table, uint column) {
  const LEX_CSTRING &name = table->field[column]->field_name;
  return std::string(name.str, name.length);
}

void add_parts(const TABLE *table, const KeyCodec &codec, std::vector<std::string> *names) {
  // The hidden row id is a column of the key, but not of the table.
  if (codec.hidden()) names->emplace_back();
  for (uint part = 0; part < codec.parts(); part++) names->push_back(name_of(table, codec.column(part)));
}

const std::string *at(const std::vector<std::string> &names, uint32_t number) {
  return number < names.size() && !names[number].empty() ? &names[number] : nullptr;
}

}  // namespace

void ColumnNames::set(const TABLE *table, const std::string &path) {
  TableMetadata metadata;
  std::string error;
  if (TableMetadata::load(path.c_str(), &metadata, &error) != TEAK_OK) return;
  // The definition may be newer or older than the engine's table.
  if (metadata.knows_version() && !metadata.has_version(table->s->tabledef_version)) return;
  const uint primary_key = table->s->primary_key;
  std::shared_ptr<const KeyCodec> primary =
      primary_key == MAX_KEY ? KeyCodec::create_hidden() : KeyCodec::create(table, primary_key, nullptr, &error);
  if (primary == nullptr) return;
  std::vector<std::string> names;
  add_parts(table, *primary, &names);
  keys_.push_back(names);
  for (uint key = 0; key < table->s->keys; key++) {
    if (key == primary_key) continue;
    names.clear();
    if (std::unique_ptr<KeyCodec> codec = KeyCodec::create(table, key, primary.get(), &error)) {
      add_parts(table, *codec, &names);
      add_parts(table, *primary, &names);
    }
    keys_.push_back(names);
  }
  if (!metadata.history.empty()) return;
  const std::unique_ptr<RowCodec> rows = RowCodec::create(table, primary, metadata.schema_version, nullptr, &error);
  if (rows == nullptr) return;
  for (uint32_t column : rows->stored_columns()) values_.push_back(name_of(table, column));
}

void ColumnNames::read(THD *thd, teak_slice table) {
  keys_.clear();
  values_.clear();
  const std::string path(reinterpret_cast<const char *>(table.data), table.len);
  std::string database, name;
  if (!split(path, &database, &name)) return;
  const LEX_CSTRING database_name = {database.c_str(), database.size()}, table_name = {name.c_str(), name.size()};
  TABLE_LIST list;
  list.init_one_table(&database_name, &table_name, nullptr, TL_READ);
  list.mdl_request.set_type(MDL_SHARED_HIGH_PRIO);
  const WithoutErrors without_errors(thd);
  MetadataLocks locks(thd);
  if (!locks.try_lock(&list)) return;
  const DefinitionArena arena(thd);
  TABLE_SHARE *share = tdc_acquire_share(thd, &list, GTS_TABLE);
  if (share == nullptr) return;
  auto definition = std::make_unique<TABLE>();
  bzero(static_cast<void *>(definition.get()), sizeof(TABLE));
  if (open_table_from_share(thd, share, &table_name, 0, EXTRA_RECORD | OPEN_FRM_FILE_ONLY, thd->open_options,
                            definition.get(), false) == OPEN_FRM_OK) {
    definition->s = share;
    bool is_out_of_memory = false;
    try {
      set(definition.get(), path);
    } catch (const std::bad_alloc &) {
      is_out_of_memory = true;
    }
    closefrm(definition.get());
    tdc_release_share(share);
    if (is_out_of_memory) throw std::bad_alloc();
    return;
  }
  tdc_release_share(share);
}

const std::string *ColumnNames::of_key(uint32_t index, uint32_t column) const {
  return index < keys_.size() ? at(keys_[index], column) : nullptr;
}

const std::string *ColumnNames::of_value(uint32_t column) const {
  return column == 0 ? nullptr : at(values_, column - 1);
}

}  // namespace teak
