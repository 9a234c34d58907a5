/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* The bytes of a TableMetadata. */

#include "table/table_metadata.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <new>

#include "base/engine.h"
#include "base/errors.h"
#include "base/table_name.h"

namespace teak {

namespace {

constexpr size_t HEAD_BYTES = 8 + MY_UUID_SIZE + 4 + 4 + 8;
constexpr uint8_t FORMAT = 4;
static_assert(MAX_KEY <= 64, "a bit for each key");

}  // namespace

bool TableMetadata::knows_version() const {
  return std::any_of(std::begin(version), std::end(version), [](uint8_t byte) { return byte != 0; });
}

/* Format, three zero bytes | schema version | version | bytes of the history | bytes of the uncompressed .frm | clustering
   keys | history | compressed .frm. Little-endian. */
std::vector<uint8_t> TableMetadata::encode() const {
  std::vector<uint8_t> bytes(HEAD_BYTES);
  if (!history.empty()) history.encode(&bytes);
  const size_t history_bytes = bytes.size() - HEAD_BYTES;
  bytes[0] = FORMAT;
  int4store(bytes.data() + 4, schema_version);
  memcpy(bytes.data() + 8, version, sizeof(version));
  int4store(bytes.data() + 8 + sizeof(version), static_cast<uint32_t>(history_bytes));
  int4store(bytes.data() + 12 + sizeof(version), frm.raw_bytes());
  int8store(bytes.data() + 16 + sizeof(version), clustering_keys);
  bytes.insert(bytes.end(), frm.stored().begin(), frm.stored().end());
  return bytes;
}

bool TableMetadata::decode(teak_slice bytes, TableMetadata *metadata, std::string *error) {
  if (bytes.len < HEAD_BYTES || bytes.data[0] != FORMAT) {
    *error = "the table was written by another version of Teak";
    return false;
  }
  metadata->schema_version = uint4korr(bytes.data + 4);
  memcpy(metadata->version, bytes.data + 8, sizeof(metadata->version));
  const size_t history_bytes = uint4korr(bytes.data + 8 + sizeof(metadata->version));
  const uint32_t frm_bytes = uint4korr(bytes.data + 12 + sizeof(metadata->version));
  metadata->clustering_keys = uint8korr(bytes.data + 16 + sizeof(metadata->version));
  const uint8_t *rest = bytes.data + HEAD_BYTES;
  const size_t rest_bytes = bytes.len - HEAD_BYTES;
  if (history_bytes > rest_bytes || (frm_bytes == 0) != (history_bytes == rest_bytes)) {
    *error = "the table's metadata is malformed";
    return false;
  }
  metadata->frm.set_stored(frm_bytes, {rest + history_bytes, rest_bytes - history_bytes});
  metadata->history = RowHistory();
  return history_bytes == 0 || RowHistory::decode(rest, history_bytes, &metadata->history, error);
}

teak_status TableMetadata::load(const char *path, TableMetadata *metadata, std::string *error) {
  teak_table *opened = nullptr;
  teak_slice bytes;
  teak_status status = teak_table_open_lazily(engine, EngineTableName(path), &opened);
  const std::unique_ptr<teak_table, decltype(&teak_table_close)> table(opened, teak_table_close);
  if (status == TEAK_OK) status = teak_table_get_metadata(opened, &bytes);
  if (status == TEAK_OK) return decode(bytes, metadata, error) ? TEAK_OK : TEAK_CORRUPT;
  *error = LastErrorText().c_str();
  return status;
}

/* Called after a crash: returns 0 if the table has this version. Partitions are altered together, so it is sufficient
   if one partition has it. */
int check_table_version(handlerton *, const char *path, const LEX_CUSTRING *version, ulonglong) {
  struct Search {
    size_t name_bytes;
    const LEX_CUSTRING *version;
    bool found;
  };
  const char *name = path;
  while (strncmp(name, "./", 2) == 0) name += 2;
  Search search = {strlen(name), version, false};
  auto look = [](void *context, teak_slice table, teak_slice bytes) {
    auto *search = static_cast<Search *>(context);
    const auto *rest = reinterpret_cast<const char *>(table.data) + search->name_bytes;
    const size_t rest_bytes = table.len - search->name_bytes;
    if (rest_bytes != 0 && (rest_bytes < 3 || strncasecmp(rest, "#p#", 3) != 0)) return;
    try {
      TableMetadata metadata;
      std::string error;
      search->found |= TableMetadata::decode(bytes, &metadata, &error) && metadata.has_version(*search->version);
    } catch (const std::bad_alloc &) {
      // As if the metadata could not be decoded.
    }
  };
  teak_status status =
      teak_table_list_metadata(engine, {reinterpret_cast<const uint8_t *>(path), strlen(path)}, look, &search);
  return status == TEAK_OK && search.found ? 0 : 1;
}

}  // namespace teak
