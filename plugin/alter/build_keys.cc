/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* See build_keys.h. */

#include "alter/build_keys.h"

#include "alter/snapshot_reader.h"

namespace teak {

namespace {

class KeyBuilder {
 public:
  KeyBuilder(AlterContext &context, TABLE *altered, SnapshotReader &reader)
      : context_(context), open_(context.open), altered_(altered), reader_(reader) {}

  bool run() {
    teak_status status = reader_.open(open_.share()->table());
    if (status != TEAK_OK) return fail(status);
    teak_index_statistics rows;
    status = open_.share()->index_statistics(0, &rows);
    if (status != TEAK_OK) return fail(status);
    status = choose_columns();
    if (status != TEAK_OK) return fail(status);
    if (read_rows(rows.entries)) return true;
    teak_duplicate duplicate;
    status = context_.build(&duplicate);
    if (status == TEAK_OK) return false;
    return status == TEAK_DUPLICATE_KEY ? report_duplicate(duplicate) : fail(status);
  }

  /* Raises the error of a duplicate that concurrent writers have found. */
  bool report_late(const teak_duplicate &duplicate) {
    const teak_status status = reader_.open(open_.share()->table());
    return status == TEAK_OK ? report_duplicate(duplicate) : fail(status);
  }

 private:
  /* Lets the reader return only the columns of the new keys, if their entries need no others. */
  teak_status choose_columns() {
    const RowCodec &codec = *context_.rows.rows;
    if (context_.needs_rows || context_.needs_virtual_columns ||
        codec.schema_version() != open_.share()->rows().schema_version())
      return TEAK_OK;
    needed_.init(altered_->s->fields);
    for (const AlterContext::AddedKey &added : context_.added) {
      const KEY &key = altered_->key_info[added.key];
      for (uint part = 0; part < key.user_defined_key_parts; part++) needed_.add(key.key_part[part].field->field_index);
    }
    reads_some_ = true;
    if (codec.needs_all(needed_.words().data(), needed_.words().size())) return TEAK_OK;
    const std::vector<uint64_t> bits = codec.columns_for(needed_.words());
    teak_columns *columns = nullptr;
    teak_status status =
        teak_columns_new(open_.share()->table(), 0, codec.beginning(), bits.data(), bits.size(), &columns);
    if (status != TEAK_OK) return status;
    status = reader_.set_columns(columns);
    teak_columns_free(columns);
    return status;
  }

  bool read_rows(uint64_t rows_estimated) {
    uint64_t rows_read = 0;
    teak_row row;
    teak_status status;
    for (status = reader_.next(&row); status == TEAK_OK && !context_.found_duplicate; status = reader_.next(&row)) {
      if (decode(row) || context_.add_entries(altered_, row.key, {})) return true;
      if (context_.report_rows_read(++rows_read, rows_estimated)) return true;
    }
    return status == TEAK_NOT_FOUND || status == TEAK_OK ? false : fail(status);
  }

  /* Decodes what the new keys need of the row into the altered table's record and computes their virtual columns. True: an
     error was raised. */
  bool decode(const teak_row &row) {
    if (!context_.rows.rows->decode(row.value.data, row.value.len, row.key.data, row.key.len, altered_->record[0],
                                    reads_some_ ? needed_.map() : nullptr, nullptr))
      return open_.raise_error(open_.corrupt("a row is malformed"));
    return context_.compute_virtual_columns(altered_);
  }

  /* Reads one of the rows with the duplicate key, because the message shows the columns of the key. The value of the
     row's entry contains its primary key. */
  bool report_duplicate(const teak_duplicate &duplicate) {
    const AlterContext::AddedKey &added = context_.added[duplicate.index];
    const uint key = added.key;
    teak_slice primary;
    if (!open_.share()->primary_of_value(added.clustering, duplicate.value, &primary))
      return open_.raise_error(open_.corrupt("an entry of a key is malformed"));
    teak_row row;
    const teak_status status = reader_.get(primary, &row);
    // A concurrent writer has inserted the row, or removed it.
    if (status == TEAK_NOT_FOUND) return report_written_duplicate(altered_->key_info[key]);
    if (status != TEAK_OK) return fail(status);
    if (decode(row)) return true;
    print_keydup_error(altered_, &altered_->key_info[key], MYF(0));
    return true;
  }

  bool fail(teak_status status) { return open_.raise_error(open_.failure(status)); }

  AlterContext &context_;
  OpenTable &open_;
  TABLE *const altered_;
  SnapshotReader &reader_;
  Share::ColumnSet needed_;
  bool reads_some_ = false;  // only the columns in needed_
};

}  // namespace

bool build_keys(AlterContext &context, TABLE *altered) {
  const bool failed = KeyBuilder(context, altered, context.reader).run();
  context.reader.close();
  return failed;
}

bool report_written_duplicate(const KEY &key) {
  my_printf_error(ER_DUP_ENTRY, "Concurrent statements have written the same value of the new unique key '%-.192s'",
                  MYF(0), key.name.str);
  return true;
}

bool report_late_duplicates(AlterContext &context, TABLE *altered) {
  if (context.building_share == nullptr) return false;
  teak_duplicate duplicate;
  const teak_status status = teak_alteration_verify(context.alteration, nullptr, &duplicate);
  if (status == TEAK_OK) return false;
  if (status == TEAK_DUPLICATE_KEY && !context.rebuild) {
    SnapshotReader reader;
    return KeyBuilder(context, altered, reader).report_late(duplicate);
  }
  if (status == TEAK_DUPLICATE_KEY) {
    const uint index = duplicate.index;
    const uint key = index == 0 ? altered->s->primary_key : context.added[index - 1].key;
    return report_written_duplicate(altered->key_info[key]);
  }
  return context.open.raise_error(context.open.failure(status));
}

}  // namespace teak
