/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* ALTER TABLE in place that writes the rows anew: under another primary key, or because they are to lie as if they had just been
   loaded. The rows become the entries of an added index like any other; the record that commits the ALTER makes it the
   table's first. A row that keeps its place is written while it is read; others, and the entries of keys, are sorted first. */

#include <memory>

#include "alter/alter_context.h"
#include "base/errors.h"
#include "handler/ha_teak.h"

namespace teak {

namespace {

/* Reads the rows of a table into the record of the altered one. */
class RowsAnew {
 public:
  RowsAnew(THD *thd, TABLE *table, TABLE *altered, const AlterContext &context, const Share &share)
      : thd_(thd), table_(table), altered_(altered), context_(context), share_(share) {}

  teak_status open(const Alter_inplace_info *alter) {
    if (copier_.match(table_, altered_, alter) != nullptr) return TEAK_INVALID_ARGUMENT;
    return reader_.open(share_.table());
  }

  enum class Outcome { Row, End, Failed, Malformed, Raised };
  /* The key of the row as it stands now is in `old_key`. Failed: `status` says how. Raised: the statement has its error. */
  Outcome next(teak_slice *old_key, teak_status *status) {
    for (;;) {
      teak_row row;
      *status = reader_.next(&row);
      if (*status == TEAK_NOT_FOUND) return Outcome::End;
      if (*status != TEAK_OK) return Outcome::Failed;
      // Here, for history rows may be left out for long.
      if (++rows_ % LOOK_ROWS == 0 && is_killed(thd_)) {
        *status = TEAK_INTERRUPTED;
        return Outcome::Failed;
      }
      if (!share_.rows().decode(row.value.data, row.value.len, row.key.data, row.key.len, table_->record[0], nullptr,
                                nullptr))
        return Outcome::Malformed;
      // What was is dropped with the versioning.
      if (table_->versioned() && !altered_->versioned() && !table_->vers_end_field()->is_max()) continue;
      if (Field *null = copier_.copy()) {
        null->set_warning(Sql_condition::WARN_LEVEL_WARN, WARN_DATA_TRUNCATED, 1, static_cast<ulong>(rows_));
        my_error(ER_INVALID_USE_OF_NULL, MYF(0));
        return Outcome::Raised;
      }
      if (context_.needs_virtual_columns && compute_added(thd_, altered_, context_)) return Outcome::Raised;
      *old_key = row.key;
      return Outcome::Row;
    }
  }

  uint64_t rows() const { return rows_; }

 private:
  THD *const thd_;
  TABLE *const table_, *const altered_;
  const AlterContext &context_;
  const Share &share_;
  RecordCopier copier_;
  RowReader reader_;
  uint64_t rows_ = 0;
};

}  // namespace

bool ha_teak::read_rows_anew(TABLE *altered, Alter_inplace_info *alter) {
  auto *context = static_cast<AlterContext *>(alter->handler_ctx);
  THD *thd = ha_thd();
  // One partition's rows leave nothing of theirs in the columns that are new.
  if (alter->handler_flags & ALTER_ADD_STORED_BASE_COLUMN)
    if (const char *reason = evaluate_added_columns(thd, altered, alter)) {
      my_error(ER_NOT_SUPPORTED_YET, MYF(0), reason);
      return true;
    }
  altered->in_use = thd;
  RowsAnew rows(thd, table, altered, *context, *share_);
  teak_status status = rows.open(alter);
  if (status != TEAK_OK) return raise_error(failure(status));
  teak_index_statistics figures{};
  figures.struct_size = sizeof(figures);
  status = teak_index_get_statistics(share_->table(), 0, &figures);
  if (status != TEAK_OK) return raise_error(failure(status));

  const bool keeps_row_ids = share_->hidden_primary(), gives_row_ids = context->rows.primary->hidden();
  ByteBuffer primary, row;
  for (;;) {
    teak_slice old_key;
    const RowsAnew::Outcome outcome = rows.next(&old_key, &status);
    if (outcome == RowsAnew::Outcome::End) break;
    if (outcome == RowsAnew::Outcome::Failed) return raise_error(failure(status));
    if (outcome == RowsAnew::Outcome::Malformed) return raise_error(corrupt("a row is malformed"));
    if (outcome == RowsAnew::Outcome::Raised) return true;
    primary.clear();
    if (!gives_row_ids) {
      context->rows.primary->encode_record(altered->record[0], &primary);
    } else if (keeps_row_ids) {
      primary.append(old_key.data, old_key.len);
    } else {
      if (int error = give_row_id()) return raise_error(error);
      primary.append(row_id_, sizeof(row_id_));
    }
    row.clear();
    context->rows.rows->encode(altered->record[0], &row);
    if (primary.failed() || row.failed()) return raise_error(out_of_memory());
    status = teak_alteration_add_entry(context->alteration, 0, slice(primary), slice(row));
    if (status != TEAK_OK) return raise_error(failure(status));
    if (add_entries(altered, context, slice(primary))) return true;
    if (rows.rows() % LOOK_ROWS == 0)
      thd_progress_report(thd, rows.rows(), std::max<uint64_t>(rows.rows(), figures.entries));
  }

  thd_progress_next_stage(thd);
  teak_duplicate duplicate;
  status = teak_alteration_build(context->alteration, report_alter_progress, thd, &duplicate);
  if (status == TEAK_OK) return false;
  if (status != TEAK_DUPLICATE_KEY) return raise_error(failure(status));
  return report_duplicate_anew(altered, alter, duplicate.index,
                               std::string(reinterpret_cast<const char *>(duplicate.key.data), duplicate.key.len));
}

/* The message shows the key's columns: a row that has them is looked for. */
bool ha_teak::report_duplicate_anew(TABLE *altered, Alter_inplace_info *alter, uint32_t index, const std::string &key) {
  auto *context = static_cast<AlterContext *>(alter->handler_ctx);
  // The rows are the first of the added.
  const KeyCodec &codec = index == 0 ? *context->rows.primary : *context->added[index - 1].codec;
  const uint number = index == 0 ? altered->s->primary_key : context->added[index - 1].key;
  RowsAnew rows(ha_thd(), table, altered, *context, *share_);
  teak_status status = rows.open(alter);
  if (status != TEAK_OK) return raise_error(failure(status));
  teak_slice old_key;
  for (;;) {
    const RowsAnew::Outcome outcome = rows.next(&old_key, &status);
    if (outcome == RowsAnew::Outcome::Raised) return true;
    if (outcome == RowsAnew::Outcome::Failed) return raise_error(failure(status));
    if (outcome != RowsAnew::Outcome::Row) return raise_error(corrupt("no row has the key that was met twice"));
    context->key.clear();
    codec.encode_record(altered->record[0], &context->key);
    if (context->key.failed()) return raise_error(out_of_memory());
    const teak_slice found = slice(context->key);
    if (found.len == key.size() && memcmp(found.data, key.data(), found.len) == 0) break;
  }
  print_keydup_error(altered, &altered->key_info[number], MYF(0));
  return true;
}

}  // namespace teak
