/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* ALTER TABLE in place, step by step:

     prepare  (nobody uses the table) the engine makes the files of new keys; writers to come are told of them
     inplace  (writers go on, unless the lock says otherwise) the rows of one snapshot are read, their entries sorted and
              written
     commit   (nobody uses the table) one record of the engine's log holds the new keys, the form of the rows, the new
              version of the definition and, of a partitioned table, all partitions

   The version is what the server asks for after a crash, to know whether the old or the new .frm is the table's. */

#include <memory>

#include "alter/alter_context.h"
#include "base/engine.h"
#include "base/errors.h"
#include "handler/ha_teak.h"
#include "monitor/variables.h"
#include "session/query_cache.h"
#include "table/definition.h"
#include "table/virtual_columns.h"

namespace teak {

namespace {

teak_slice slice_of(const LEX_CSTRING &text) { return {reinterpret_cast<const uint8_t *>(text.str), text.length}; }

/* Whether the altered table's rows stand in the order of the table's. */
bool keeps_order(const TABLE *table, const TABLE *altered, const Alter_inplace_info *alter) {
  const uint key = altered->s->primary_key;
  if (key == MAX_KEY) return true;  // row ids are kept, or given in the order of reading
  const uint old_key = old_key_of(table, alter, key);
  return old_key != MAX_KEY && old_key == table->s->primary_key &&
         has_same_entries(table->key_info[old_key], altered->key_info[key]);
}

/* How an index of the altered table is written. */
teak_index_definition definition_of(const TABLE *altered, uint key, uint32_t fixed_bytes) {
  const ha_table_option_struct *options = altered->s->option_struct;
  const bool rows = key == altered->s->primary_key || key == MAX_KEY;
  teak_index_definition definition;
  definition.label = rows ? slice_of(ROW_INDEX_LABEL) : slice_of(altered->key_info[key].name);
  definition.codec = codec_of(options->compression);
  definition.page_bytes = static_cast<uint32_t>(options->page_bytes);
  definition.exact_lookups = rows || enforced_by_engine(altered->key_info[key]);
  definition.value_fixed_bytes = rows ? fixed_bytes : 0;
  return definition;
}

}  // namespace

bool is_killed(void *thd) { return thd_kill_level(static_cast<THD *>(thd)) != THD_IS_NOT_KILLED; }

void report_alter_progress(void *thd, uint64_t done, uint64_t total) {
  thd_progress_report(static_cast<THD *>(thd), done, total == 0 ? 1 : total);
}

RowReader::~RowReader() {
  if (cursor_ != nullptr) teak_cursor_close(cursor_);
  if (transaction_ != nullptr) teak_transaction_rollback(transaction_);
}

teak_status RowReader::open(teak_table *table) {
  teak_status status = teak_transaction_begin(engine, TEAK_REPEATABLE_READ, &transaction_);
  if (status == TEAK_OK) status = teak_transaction_take_snapshot(transaction_);
  if (status == TEAK_OK) status = teak_cursor_open(transaction_, table, 0, TEAK_LOCK_NONE, &cursor_);
  return status;
}

teak_status RowReader::next(teak_row *row) {
  if (started_) return teak_cursor_next(cursor_, row);
  started_ = true;
  return teak_cursor_first(cursor_, row);
}

bool compute_added(THD *thd, TABLE *altered, const AlterContext &context) {
  altered->in_use = thd;
  for (const AlterContext::AddedKey &added : context.added)
    if (compute_virtual_columns(altered, added.key, false)) return true;
  return false;
}

bool ha_teak::raise_error(int error) {
  if (error == HA_ERR_ABORTED_BY_USER && thd_kill_level(ha_thd()) != THD_IS_NOT_KILLED)
    ha_thd()->send_kill_message();
  else
    print_error(error, MYF(0));
  return true;
}

bool ha_teak::prepare_inplace_alter_table(TABLE *altered, Alter_inplace_info *alter) {
  auto *context = new AlterContext(this);
  alter->handler_ctx = context;
  // Of a partitioned table one partition may need it, and all have one definition.
  context->anew = alter->inplace_supported == HA_ALTER_INPLACE_COPY_LOCK;
  const char *reason = context->anew ? context->rows.work_out_anew(table, altered, alter)
                                     : context->rows.work_out(altered, alter, *share_);
  if (reason != nullptr) {
    my_error(ER_NOT_SUPPORTED_YET, MYF(0), reason);
    return true;
  }

  const teak_index_definition rows = definition_of(altered, altered->s->primary_key, context->rows.rows->fixed_bytes());
  const uint hidden = altered->s->primary_key == MAX_KEY ? 1 : 0;
  std::vector<teak_added_index> added;
  auto building = std::make_unique<Share::Building>();
  context->indexes.push_back({context->anew, 0, rows});
  if (context->anew) added.push_back({rows, true, keeps_order(table, altered, alter)});
  for (uint i = 0; i < altered->s->keys; i++) {
    if (i == altered->s->primary_key) continue;
    const teak_index_definition definition = definition_of(altered, i, 0);
    const uint old_key = old_key_of(table, alter, i);
    if (old_key != MAX_KEY && !context->anew) {
      context->indexes.push_back({false, share_->index_of(old_key), definition});
      continue;
    }
    const KEY &key = altered->key_info[i];
    AlterContext::AddedKey added_key;
    std::string error;
    added_key.codec = KeyCodec::create(altered, i, context->rows.primary.get(), &error);
    if (added_key.codec == nullptr) {
      my_error(ER_NOT_SUPPORTED_YET, MYF(0), error.c_str());
      return true;
    }
    added_key.key = i;
    added_key.unique = enforced_by_engine(key);
    added_key.nullable = (key.flags & HA_NULL_PART_KEY) != 0;
    for (uint part = 0; part < key.user_defined_key_parts; part++)
      context->needs_virtual_columns |= !key.key_part[part].field->stored_in_db();
    added_key.index = static_cast<uint32_t>(added.size());
    context->indexes.push_back({true, added_key.index, definition});
    added.push_back({definition, added_key.unique, false});
    added_key.originals = KeyOriginals::create(altered, i);
    building->codecs.push_back(added_key.codec);
    building->originals.push_back(added_key.originals);
    context->added.push_back(std::move(added_key));
  }
  DBUG_ASSERT(context->indexes.size() == altered->s->keys + hidden);
  (void)hidden;

  TableMetadata metadata;
  metadata.schema_version = context->rows.rows->schema_version();
  metadata.set_version(altered->s->tabledef_version);
  metadata.history = std::move(context->rows.history);
  context->metadata = metadata.encode();

  teak_status status = teak_alteration_begin(engine, share_->table(), added.data(), added.size(), is_killed, ha_thd(),
                                             &context->alteration);
  if (status == TEAK_OK && !added.empty())
    status = teak_alteration_get_index(context->alteration, 0, &building->first_index);
  if (status != TEAK_OK) return raise_error(failure(status));
  if (!added.empty() && alter->inplace_supported == HA_ALTER_INPLACE_NOCOPY_NO_LOCK) {
    context->share = share_;
    share_->set_building(std::move(building));
  }
  return false;
}

bool ha_teak::inplace_alter_table(TABLE *altered, Alter_inplace_info *alter) {
  auto *context = static_cast<AlterContext *>(alter->handler_ctx);
  if (context == nullptr || (context->added.empty() && !context->anew)) return false;
  THD *thd = ha_thd();
  thd_progress_init(thd, 2);
  const bool failed = context->anew ? read_rows_anew(altered, alter) : read_rows(altered, context);
  thd_progress_end(thd);
  return failed;
}

/* Gives the entries of the row in the altered table's record to the new keys. */
bool ha_teak::add_entries(const TABLE *altered, AlterContext *context, teak_slice primary) {
  ByteBuffer &key = context->key, &value = context->value;
  for (const AlterContext::AddedKey &added : context->added) {
    key.clear();
    added.codec->encode_record(altered->record[0], &key);
    const bool unique = added.unique && !(added.nullable && added.codec->has_null(altered->record[0]));
    if (!unique) key.append(primary.data, primary.len);
    value.clear();
    if (unique) value.append(primary.data, primary.len);
    if (added.originals != nullptr) added.originals->encode(altered->record[0], &value);
    if (key.failed() || value.failed()) return raise_error(out_of_memory());
    teak_status status = teak_alteration_add_entry(context->alteration, added.index, slice(key),
                                                   value.empty() ? teak_slice{primary.data, 0} : slice(value));
    if (status != TEAK_OK) return raise_error(failure(status));
  }
  return false;
}

bool ha_teak::read_rows(TABLE *altered, AlterContext *context) {
  THD *thd = ha_thd();
  RowReader reader;
  teak_status status = reader.open(share_->table());
  if (status != TEAK_OK) return raise_error(failure(status));
  teak_index_statistics figures{};
  figures.struct_size = sizeof(figures);
  status = teak_index_get_statistics(share_->table(), 0, &figures);
  if (status != TEAK_OK) return raise_error(failure(status));

  auto decode = [&](const teak_row &row) {
    return context->rows.rows->decode(row.value.data, row.value.len, row.key.data, row.key.len, altered->record[0],
                                      nullptr, nullptr);
  };
  uint64_t rows = 0;
  teak_row row;
  for (status = reader.next(&row); status == TEAK_OK; status = reader.next(&row)) {
    if (!decode(row)) return raise_error(corrupt("a row is malformed"));
    if (context->needs_virtual_columns && compute_added(thd, altered, *context)) return true;
    if (add_entries(altered, context, row.key)) return true;
    if (++rows % LOOK_ROWS == 0) {
      if (is_killed(thd)) return raise_error(HA_ERR_ABORTED_BY_USER);
      thd_progress_report(thd, rows, std::max<uint64_t>(rows, figures.entries));
    }
  }
  if (status != TEAK_NOT_FOUND) return raise_error(failure(status));

  thd_progress_next_stage(thd);
  teak_duplicate duplicate;
  status = teak_alteration_build(context->alteration, report_alter_progress, thd, &duplicate);
  if (status == TEAK_OK) return false;
  if (status != TEAK_DUPLICATE_KEY) return raise_error(failure(status));
  // The value begins with the primary key of one of the rows; the message shows the key's columns.
  const uint duplicate_key = context->added[duplicate.index].key;
  teak_slice primary;
  if (!share_->primary_of_value(duplicate.value, &primary))
    return raise_error(corrupt("an entry of a key is malformed"));
  status = reader.get(primary, &row);
  if (status != TEAK_OK) return raise_error(failure(status));
  if (!decode(row)) return raise_error(corrupt("a row is malformed"));
  if (context->needs_virtual_columns && compute_added(thd, altered, *context)) return true;
  print_keydup_error(altered, &altered->key_info[duplicate_key], MYF(0));
  return true;
}

bool ha_teak::commit_inplace_alter_table(TABLE *altered, Alter_inplace_info *alter, bool commit) {
  if (!commit) {
    if (auto *context = static_cast<AlterContext *>(alter->handler_ctx)) context->end();
    return false;
  }
  std::vector<AlterContext *> contexts;
  if (alter->group_commit_ctx != nullptr)
    for (inplace_alter_handler_ctx **each = alter->group_commit_ctx; *each != nullptr; each++)
      contexts.push_back(static_cast<AlterContext *>(*each));
  else
    contexts.push_back(static_cast<AlterContext *>(alter->handler_ctx));
  alter->group_commit_ctx = nullptr;  // all of them are committed here
  for (AlterContext *context : contexts)
    if (context->handler->set_altered_auto_increment(alter)) return true;

  std::vector<teak_alteration *> alterations;
  std::vector<teak_alteration_plan> plans;
  for (AlterContext *context : contexts) {
    alterations.push_back(context->alteration);
    plans.push_back(
        {context->indexes.data(), context->indexes.size(), {context->metadata.data(), context->metadata.size()}});
  }
  (void)altered;
  teak_status status = teak_alteration_commit(alterations.data(), plans.data(), plans.size());
  for (AlterContext *context : contexts) {
    query_cache_use::table_changed(context->handler->name_.c_str());
    context->end();
  }
  return status == TEAK_OK ? false : raise_error(failure(status));
}

/* ALTER TABLE ... AUTO_INCREMENT = n. */
bool ha_teak::set_altered_auto_increment(const Alter_inplace_info *alter) {
  if (!(alter->create_info->used_fields & HA_CREATE_USED_AUTO) || table->found_next_number_field == nullptr ||
      table_share->next_number_keypart != 0)
    return false;
  ulonglong greatest = 0, wanted = alter->create_info->auto_increment_value;
  int error = greatest_auto_increment(&greatest);
  if (error == 0) {
    // Values that rows have are not given again.
    if (wanted <= greatest) wanted = greatest == ULONGLONG_MAX ? greatest : greatest + 1;
    teak_status status = share_->set_auto_increment(wanted == 0 ? 1 : wanted);
    if (status != TEAK_OK) error = failure(status);
  }
  if (error != 0) print_error(error, MYF(0));
  return error != 0;
}

}  // namespace teak
