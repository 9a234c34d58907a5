/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* See alter_context.h. */

#include "alter/alter_context.h"

#include <algorithm>

#include "format/entry_codec.h"
#include "monitor/progress.h"
#include "session/cursor.h"
#include "table/virtual_columns.h"

namespace teak {

namespace {

/* Rows between two reports of progress and checks for KILL. */
constexpr uint64_t ROWS_PER_REPORT = 256;

}  // namespace

bool is_alter_killed(void *thd) { return thd_kill_level(static_cast<THD *>(thd)) != THD_IS_NOT_KILLED; }

void AlterContext::end() {
  reader.close();
  // Writers must stop writing to the added indexes before the engine rejects such entries.
  if (building_share != nullptr) building_share->set_building(nullptr);
  building_share = nullptr;
  teak_alteration_end(alteration);
  alteration = nullptr;
}

bool AlterContext::compute_virtual_columns(TABLE *altered) const {
  if (!needs_virtual_columns) return false;
  altered->in_use = open.thd();
  for (const AddedKey &added_key : added)
    if (teak::compute_virtual_columns(altered, added_key.key, false)) return true;
  return false;
}

bool AlterContext::add_entries(const TABLE *altered, teak_slice primary, teak_slice encoded_row) {
  const uchar *record = altered->record[0];
  if (needs_rows && encoded_row.data == nullptr) {
    row.clear();
    rows.rows->encode(record, &row);
    if (row.failed()) return open.raise_error(open.out_of_memory());
    encoded_row = slice(row);
  }
  for (const AddedKey &added_key : added) {
    const EntryForm form = {*added_key.codec, added_key.originals.get(), added_key.clustering, added_key.unique,
                            added_key.nullable};
    const bool unique = encode_entry(form, {record, primary, encoded_row}, &key, &value);
    if (unique && value.empty()) value.append(primary.data, primary.len);
    if (key.failed() || value.failed()) return open.raise_error(open.out_of_memory());
    const teak_status status = teak_alteration_add_entry(alteration, added_key.index, slice(key),
                                                         value.empty() ? teak_slice{primary.data, 0} : slice(value));
    if (status == TEAK_DUPLICATE_KEY) found_duplicate = true;
    if (found_duplicate) return false;
    if (status != TEAK_OK) return open.raise_error(open.failure(status));
  }
  return false;
}

bool AlterContext::report_rows_read(uint64_t rows_read, uint64_t rows_estimated) const {
  if (rows_read % ROWS_PER_REPORT != 0) return false;
  THD *thd = open.thd();
  if (is_alter_killed(thd)) return open.raise_error(HA_ERR_ABORTED_BY_USER);
  thd_progress_report(thd, rows_read, std::max(rows_read, rows_estimated));
  return false;
}

teak_status AlterContext::build(teak_duplicate *duplicate) {
  THD *thd = open.thd();
  thd_progress_next_stage(thd);
  const teak_status status = teak_alteration_build(alteration, ProgressReport::report, thd, duplicate);
  if (status != TEAK_OK || building_share == nullptr) return status;
  return teak_alteration_verify(alteration, reader.transaction(), duplicate);
}

}  // namespace teak
