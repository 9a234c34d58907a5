/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* See altered_rows.h. */

#include "alter/altered_rows.h"

#include <string>
#include <vector>

#include "alter/altered_columns.h"
#include "alter/altered_keys.h"
#include "table/definition.h"

namespace teak {

namespace {

/* Maximum length of a history. It is below the engine's limit for a table's metadata. */
constexpr size_t HISTORY_BYTES_MAX = 60 * 1024;

constexpr const char *CANNOT = "rows of the new definition cannot be stored";

}  // namespace

const char *AlteredRows::plan_rebuild(const TABLE *altered) {
  std::string error;
  primary = primary_codec_of(altered);
  if (primary == nullptr) return CANNOT;
  for (uint i = 0; i < altered->s->keys; i++)
    if (i != altered->s->primary_key && create_checked_key_codec(altered, i, primary.get(), &error) == nullptr)
      return CANNOT;
  history = RowHistory();
  rows = RowCodec::create(altered, primary, TableMetadata().schema_version, nullptr, &error);
  return rows == nullptr ? CANNOT : nullptr;
}

const char *AlteredRows::plan(const TABLE *altered, const Alter_inplace_info *alter, const Share &share) {
  std::string error;
  primary = primary_codec_of(altered);
  if (primary == nullptr) return CANNOT;
  const RowCodec &old_rows = share.rows();
  std::vector<uint32_t> old_columns;
  if (const char *reason = old_columns_of(altered, alter, &old_columns)) return reason;

  std::unique_ptr<RowCodec> plain = RowCodec::create(altered, primary, old_rows.schema_version(), nullptr, &error);
  if (plain == nullptr) return CANNOT;
  if (!plain->same_form(old_rows, old_columns))
    plain = RowCodec::create(altered, primary, old_rows.schema_version() + 1, nullptr, &error);
  if (plain == nullptr) return CANNOT;

  history = share.history();
  if (const char *reason = plain->inherit(old_rows, old_columns, altered->record[0], &history)) return reason;
  std::vector<uint8_t> bytes;
  history.encode(&bytes);
  if (bytes.size() > HISTORY_BYTES_MAX) return "the metadata of earlier row versions is too long";
  rows = RowCodec::create(altered, primary, plain->schema_version(), &history, &error);
  return rows == nullptr ? CANNOT : nullptr;
}

}  // namespace teak
