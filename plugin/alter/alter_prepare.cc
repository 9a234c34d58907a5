/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* See alter_prepare.h. */

#include "alter/alter_prepare.h"

#include <memory>
#include <string>
#include <vector>

#include "alter/alter_context.h"
#include "alter/altered_keys.h"
#include "base/engine.h"
#include "base/errors.h"
#include "base/table_name.h"
#include "table/definition.h"
#include "table/table_metadata.h"
#include "table/virtual_columns.h"

namespace teak {

namespace {

/* Maximum number of rows that a repair leaves out because of duplicates in one unique key. The primary keys of these
   rows are in memory. */
constexpr size_t DUPLICATES_MAX = 100000;

/* Whether the rows have the same order in the altered table. */
bool preserves_order(const TABLE *table, const TABLE *altered, const Alter_inplace_info *alter) {
  const uint key = altered->s->primary_key;
  if (key == MAX_KEY) return true;  // row ids are retained, or assigned in the order of reading
  const uint old_key = old_key_of(table, alter, key);
  return old_key != MAX_KEY && old_key == table->s->primary_key &&
         has_same_entries(table->key_info[old_key], altered->key_info[key]);
}

/* True: the error was raised. */
bool refuse(const char *reason) {
  my_error(ER_NOT_SUPPORTED_YET, MYF(0), reason);
  return true;
}

/* Determines the indexes of the altered table. */
class Preparation {
 public:
  Preparation(AlterContext &context, const TABLE *altered) : context_(context), altered_(altered) {}

  /* Plans to rewrite the rows and all keys. `in_order`: the order of the rows does not change. `alter` is nullptr if the
     definition does not change. True: an error was raised. */
  bool plan_rebuild(bool in_order, const Alter_inplace_info *alter) {
    const teak_index_definition rows = row_index_definition(altered_, *context_.rows.rows, &context_.columns);
    context_.indexes.push_back({true, 0, rows});
    added_.push_back({rows, true, in_order});
    new_primary_ = !in_order;
    for (uint key = 0; key < altered_->s->keys; key++) {
      if (key == altered_->s->primary_key) continue;
      const bool is_new = alter != nullptr && old_key_of(context_.open.table(), alter, key) == MAX_KEY;
      if (add_key(key, is_new)) return true;
    }
    return false;
  }

  /* Plans to write only the added keys. True: an error was raised. */
  bool plan_added_keys(const Alter_inplace_info *alter) {
    const OpenTable &open = context_.open;
    context_.indexes.push_back({false, 0, row_index_definition(altered_, *context_.rows.rows, &context_.columns)});
    for (uint key = 0; key < altered_->s->keys; key++) {
      if (key == altered_->s->primary_key) continue;
      const uint old_key = old_key_of(open.table(), alter, key);
      if (old_key == MAX_KEY) {
        if (add_key(key, true)) return true;
        continue;
      }
      if (open.share()->key(old_key).clustering) metadata_.set_clustering(key);
      context_.indexes.push_back({false, open.share()->index_of(old_key),
                                  key_index_definition(altered_, key, *context_.rows.rows, &context_.columns)});
    }
    if (!added_.empty() || (alter->handler_flags & ALTER_CHANGE_CREATE_OPTION) != 0)
      note_compressions(open.thd(), altered_->s);
    return false;
  }

  /* True: an error was raised. */
  bool begin() {
    metadata_.schema_version = context_.rows.rows->schema_version();
    metadata_.set_version(altered_->s->tabledef_version);
    metadata_.history = std::move(context_.rows.history);
    OpenTable &open = context_.open;
    if (read_frm(&metadata_.frm) != TEAK_OK)
      return open.raise_error(open.with_text(ERROR_OF_ENGINE, "the definition cannot be read"));
    context_.metadata = metadata_.encode();

    teak_status status = teak_alteration_begin(engine, open.share()->table(), added_.data(), added_.size(),
                                               is_alter_killed, open.thd(), &context_.alteration);
    if (status == TEAK_OK && !added_.empty())
      status = teak_alteration_get_index(context_.alteration, 0, &building_->first_index);
    return status == TEAK_OK ? false : open.raise_error(open.failure(status));
  }

  /* Makes writers maintain the added indexes. True: an error was raised. */
  bool share_indexes() {
    if (added_.empty()) return false;
    OpenTable &open = context_.open;
    const teak_status status = context_.reader.open(open.share()->table());
    if (status != TEAK_OK) return open.raise_error(open.failure(status));
    if (context_.rebuild) {
      // The objects of the context end with it, but a writer may still use these.
      AlteredRows rows;
      if (const char *reason = rows.plan_rebuild(altered_)) return refuse(reason);
      building_->rows.reset(new Share::BuildingRows{rows.primary, std::move(rows.rows), new_primary_});
    }
    context_.building_share = open.share();
    context_.building_share->set_building(std::move(building_));
    return false;
  }

 private:
  /* Reads the .frm file of the altered table, which the server has written under a temporary name. Partitions store no
     .frm file. For OPTIMIZE TABLE and REPAIR TABLE, which do not change the definition, copies the stored image. */
  teak_status read_frm(FrmImage *frm) const {
    const OpenTable &open = context_.open;
    const char *path = open.name().c_str();
    if (altered_ != open.table())
      return is_partition(path) ? TEAK_OK : frm->read_file(altered_->s->normalized_path.str);
    TableMetadata metadata;
    std::string error;
    const teak_status status = TableMetadata::load(path, &metadata, &error);
    *frm = std::move(metadata.frm);
    return status;
  }

  /* `is_new`: the table has no such key yet. True: an error was raised. */
  bool add_key(uint key, bool is_new) {
    const teak_index_definition definition =
        key_index_definition(altered_, key, *context_.rows.rows, &context_.columns);
    const KEY &server_key = altered_->key_info[key];
    AlterContext::AddedKey added_key;
    std::string error;
    added_key.codec = KeyCodec::create(altered_, key, context_.rows.primary.get(), &error);
    if (added_key.codec == nullptr) return refuse(error.c_str());
    added_key.clustering = is_clustering(altered_->s, key);
    context_.needs_rows |= added_key.clustering;
    if (added_key.clustering) metadata_.set_clustering(key);
    std::unique_ptr<KeyOriginals> originals;
    if (!added_key.clustering && !KeyOriginals::create(altered_, key, &originals, &error)) return refuse(error.c_str());
    added_key.originals = std::move(originals);
    added_key.key = key;
    added_key.unique = enforced_by_engine(server_key);
    added_key.nullable = (server_key.flags & HA_NULL_PART_KEY) != 0;
    added_key.index = static_cast<uint32_t>(added_.size());
    context_.needs_virtual_columns |= is_on_virtual_column(server_key);
    context_.indexes.push_back({true, added_key.index, definition});
    added_.push_back({definition, added_key.unique, false});
    building_->keys.push_back({added_key.codec, added_key.originals, added_key.clustering, added_key.unique,
                               added_key.nullable, added_key.unique && is_new, virtual_columns_of(altered_, key)});
    context_.added.push_back(std::move(added_key));
    return false;
  }

  AlterContext &context_;
  const TABLE *const altered_;
  TableMetadata metadata_;
  std::vector<teak_added_index> added_;
  bool new_primary_ = false;
  std::unique_ptr<Share::Building> building_ = std::make_unique<Share::Building>();
};

/* `admits_writers`: others may write the table from now on. */
bool prepare_rewrite(AlterContext &context, bool admits_writers) {
  context.rebuild = true;
  const TABLE *table = context.open.table();
  if (const char *reason = context.rows.plan_rebuild(table)) return refuse(reason);
  Preparation preparation(context, table);
  if (preparation.plan_rebuild(true, nullptr) || preparation.begin()) return true;
  return admits_writers && preparation.share_indexes();
}

}  // namespace

bool prepare_alter(OpenTable &open, TABLE *altered, Alter_inplace_info *alter) {
  const TABLE *table = open.table();
  auto *context = new AlterContext(open);
  alter->handler_ctx = context;
  // All partitions must have the same definition: if one needs to be rewritten, all are rewritten.
  const enum_alter_inplace_result how = alter->inplace_supported;
  context->rebuild = how == HA_ALTER_INPLACE_COPY_LOCK || how == HA_ALTER_INPLACE_COPY_NO_LOCK;
  const char *reason =
      context->rebuild ? context->rows.plan_rebuild(altered) : context->rows.plan(altered, alter, *open.share());
  if (reason == nullptr && context->rebuild) reason = context->copier.match(table, altered, alter);
  if (reason != nullptr) return refuse(reason);
  Preparation preparation(*context, altered);
  if (context->rebuild ? preparation.plan_rebuild(preserves_order(table, altered, alter), alter)
                       : preparation.plan_added_keys(alter))
    return true;
  if (preparation.begin()) return true;
  const bool admits_writers = how == HA_ALTER_INPLACE_NOCOPY_NO_LOCK || how == HA_ALTER_INPLACE_COPY_NO_LOCK;
  return admits_writers && preparation.share_indexes();
}

bool prepare_repair(AlterContext &context) {
  if (prepare_rewrite(context, false)) return true;
  const teak_status status = teak_alteration_repair(context.alteration, DUPLICATES_MAX);
  return status == TEAK_OK ? false : context.open.raise_error(context.open.failure(status));
}

bool prepare_optimize(AlterContext &context) { return prepare_rewrite(context, true); }

}  // namespace teak
