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
  KeyBuilder(AlterContext &context, TABLE *altered) : context_(context), open_(context.open), altered_(altered) {}

  bool run() {
    teak_status status = reader_.open(open_.share()->table());
    if (status != TEAK_OK) return fail(status);
    teak_index_statistics rows;
    status = open_.share()->index_statistics(0, &rows);
    if (status != TEAK_OK) return fail(status);
    if (read_rows(rows.entries)) return true;
    teak_duplicate duplicate;
    status = context_.build(&duplicate);
    if (status == TEAK_OK) return false;
    return status == TEAK_DUPLICATE_KEY ? report_duplicate(duplicate) : fail(status);
  }

 private:
  bool read_rows(uint64_t rows_estimated) {
    uint64_t rows_read = 0;
    teak_row row;
    teak_status status;
    for (status = reader_.next(&row); status == TEAK_OK; status = reader_.next(&row)) {
      if (decode(row) || context_.add_entries(altered_, row.key)) return true;
      if (context_.report_rows_read(++rows_read, rows_estimated)) return true;
    }
    return status == TEAK_NOT_FOUND ? false : fail(status);
  }

  /* Decodes the row into the altered table's record and computes the virtual columns of the new keys. True: an error
     was raised. */
  bool decode(const teak_row &row) {
    if (!context_.rows.rows->decode(row.value.data, row.value.len, row.key.data, row.key.len, altered_->record[0],
                                    nullptr, nullptr))
      return open_.raise_error(open_.corrupt("a row is malformed"));
    return context_.compute_virtual_columns(altered_);
  }

  /* Reads one of the rows with the duplicate key, because the message shows the columns of the key. The value of the
     row's entry contains its primary key. */
  bool report_duplicate(const teak_duplicate &duplicate) {
    const uint key = context_.added[duplicate.index].key;
    teak_slice primary;
    if (!open_.share()->primary_of_value(duplicate.value, &primary))
      return open_.raise_error(open_.corrupt("an entry of a key is malformed"));
    teak_row row;
    const teak_status status = reader_.get(primary, &row);
    if (status != TEAK_OK) return fail(status);
    if (decode(row)) return true;
    print_keydup_error(altered_, &altered_->key_info[key], MYF(0));
    return true;
  }

  bool fail(teak_status status) { return open_.raise_error(open_.failure(status)); }

  AlterContext &context_;
  OpenTable &open_;
  TABLE *const altered_;
  SnapshotReader reader_;
};

}  // namespace

bool build_keys(AlterContext &context, TABLE *altered) { return KeyBuilder(context, altered).run(); }

}  // namespace teak
