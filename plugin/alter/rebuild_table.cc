/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* See rebuild_table.h. */

#include "alter/rebuild_table.h"

#include <string>

#include "alter/build_keys.h"
#include "alter/snapshot_reader.h"
#include "session/cursor.h"

namespace teak {

namespace {

/* Reads the rows of a table into the record of the altered table. */
class RowConverter {
 public:
  RowConverter(const AlterContext &context, TABLE *altered, SnapshotReader &reader)
      : context_(context), open_(context.open), altered_(altered), reader_(reader) {}

  teak_status open() {
    teak_index_statistics rows;
    const teak_status status = open_.share()->index_statistics(0, &rows);
    rows_estimated_ = status == TEAK_OK ? rows.entries : 0;
    return status == TEAK_OK ? reader_.open(open_.share()->table()) : status;
  }

  enum class Outcome { Row, End, Raised };
  /* `old_key` receives the row's primary key before the ALTER. Raised: an error was raised. */
  Outcome next(teak_slice *old_key) {
    for (;;) {
      teak_row row;
      const teak_status status = reader_.next(&row);
      if (status == TEAK_NOT_FOUND) return Outcome::End;
      if (status != TEAK_OK) return raise(open_.failure(status));
      if (context_.report_rows_read(++rows_read_, rows_estimated_)) return Outcome::Raised;
      const TABLE *table = open_.table();
      if (!open_.share()->rows().decode(row.value.data, row.value.len, row.key.data, row.key.len, table->record[0],
                                        nullptr, nullptr))
        return raise(open_.corrupt("a row is malformed"));
      // DROP SYSTEM VERSIONING also drops the history rows.
      if (table->versioned() && !altered_->versioned() && !open_.table()->vers_end_field()->is_max()) continue;
      if (Field *null = context_.copier.copy()) {
        null->set_warning(Sql_condition::WARN_LEVEL_WARN, WARN_DATA_TRUNCATED, 1, static_cast<ulong>(rows_read_));
        my_error(ER_INVALID_USE_OF_NULL, MYF(0));
        return Outcome::Raised;
      }
      if (context_.compute_virtual_columns(altered_)) return Outcome::Raised;
      *old_key = row.key;
      return Outcome::Row;
    }
  }

 private:
  Outcome raise(int error) {
    open_.raise_error(error);
    return Outcome::Raised;
  }

  const AlterContext &context_;
  OpenTable &open_;
  TABLE *const altered_;
  SnapshotReader &reader_;
  uint64_t rows_read_ = 0, rows_estimated_ = 0;
};

class TableRebuild {
 public:
  TableRebuild(AlterContext &context, TABLE *altered) : context_(context), open_(context.open), altered_(altered) {}

  bool run() {
    altered_->in_use = open_.thd();
    if (write_rows()) return true;
    teak_duplicate duplicate;
    const teak_status status = context_.build(&duplicate);
    if (status == TEAK_OK) return false;
    return status == TEAK_DUPLICATE_KEY ? report_duplicate(duplicate) : fail(status);
  }

 private:
  bool write_rows() {
    RowConverter rows(context_, altered_, context_.reader);
    teak_status status = rows.open();
    if (status != TEAK_OK) return fail(status);
    ByteBuffer primary, row;
    for (;;) {
      teak_slice old_key;
      const RowConverter::Outcome outcome = rows.next(&old_key);
      if (outcome != RowConverter::Outcome::Row) return outcome == RowConverter::Outcome::Raised;
      if (encode_primary(old_key, &primary)) return true;
      row.clear();
      context_.rows.rows->encode(altered_->record[0], &row);
      if (primary.failed() || row.failed()) return open_.raise_error(open_.out_of_memory());
      status = teak_alteration_add_entry(context_.alteration, 0, slice(primary), slice(row));
      context_.found_duplicate |= status == TEAK_DUPLICATE_KEY;
      if (context_.found_duplicate) return false;
      if (status != TEAK_OK) return fail(status);
      if (context_.add_entries(altered_, slice(primary), slice(row))) return true;
    }
  }

  /* True: an error was raised. */
  bool encode_primary(teak_slice old_key, ByteBuffer *primary) {
    primary->clear();
    if (!context_.rows.primary->hidden()) {
      context_.rows.primary->encode_record(altered_->record[0], primary);
    } else if (open_.share()->hidden_primary()) {
      primary->append(old_key.data, old_key.len);
    } else {
      if (int error = open_.assign_row_id()) return open_.raise_error(error);
      primary->append(open_.row_id().data, open_.row_id().len);
    }
    return false;
  }

  /* Searches for a row with the duplicate key, because the message shows the columns of the key. */
  bool report_duplicate(const teak_duplicate &duplicate) {
    const std::string key(reinterpret_cast<const char *>(duplicate.key.data), duplicate.key.len);
    // Index 0 of the added indexes contains the rows.
    const bool of_rows = duplicate.index == 0;
    const KeyCodec &codec = of_rows ? *context_.rows.primary : *context_.added[duplicate.index - 1].codec;
    const uint number = of_rows ? altered_->s->primary_key : context_.added[duplicate.index - 1].key;
    SnapshotReader reader;
    RowConverter rows(context_, altered_, reader);
    const teak_status status = rows.open();
    if (status != TEAK_OK) return fail(status);
    for (;;) {
      teak_slice old_key;
      const RowConverter::Outcome outcome = rows.next(&old_key);
      if (outcome == RowConverter::Outcome::Raised) return true;
      if (outcome == RowConverter::Outcome::End) return report_written_duplicate(altered_->key_info[number]);
      context_.key.clear();
      codec.encode_record(altered_->record[0], &context_.key);
      if (context_.key.failed()) return open_.raise_error(open_.out_of_memory());
      const teak_slice found = slice(context_.key);
      if (found.len == key.size() && memcmp(found.data, key.data(), found.len) == 0) break;
    }
    print_keydup_error(altered_, &altered_->key_info[number], MYF(0));
    return true;
  }

  bool fail(teak_status status) { return open_.raise_error(open_.failure(status)); }

  AlterContext &context_;
  OpenTable &open_;
  TABLE *const altered_;
};

}  // namespace

bool rebuild_table(AlterContext &context, TABLE *altered) {
  const bool failed = TableRebuild(context, altered).run();
  context.reader.close();
  return failed;
}

}  // namespace teak
