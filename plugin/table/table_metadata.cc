/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* The bytes of a TableMetadata. */

#include "table/table_metadata.h"

#include <new>

#include "base/engine.h"

namespace teak {

namespace {

constexpr size_t HEAD_BYTES = 8 + MY_UUID_SIZE;
constexpr uint8_t FORMAT_PLAIN = 1;         // all rows have one schema version
constexpr uint8_t FORMAT_WITH_HISTORY = 2;  // an older version of Teak must not read these rows

}  // namespace

std::vector<uint8_t> TableMetadata::encode() const {
  std::vector<uint8_t> bytes(HEAD_BYTES);
  bytes[0] = history.empty() ? FORMAT_PLAIN : FORMAT_WITH_HISTORY;
  int4store(bytes.data() + 4, schema_version);
  memcpy(bytes.data() + 8, version, sizeof(version));
  if (!history.empty()) history.encode(&bytes);
  return bytes;
}

bool TableMetadata::decode(teak_slice bytes, TableMetadata *metadata, std::string *error) {
  if (bytes.len < HEAD_BYTES || (bytes.data[0] != FORMAT_PLAIN && bytes.data[0] != FORMAT_WITH_HISTORY)) {
    *error = "the table was written by another version of Teak";
    return false;
  }
  metadata->schema_version = uint4korr(bytes.data + 4);
  memcpy(metadata->version, bytes.data + 8, sizeof(metadata->version));
  metadata->history = RowHistory();
  return bytes.data[0] == FORMAT_PLAIN ||
         RowHistory::decode(bytes.data + HEAD_BYTES, bytes.len - HEAD_BYTES, &metadata->history, error);
}

/* Called after a crash: returns 0 if the table has this version. Partitions are altered together, so one is enough. */
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
