/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* TableMetadata: the plugin's data about a table in the engine's catalogue. CREATE and each in-place ALTER write it in
   the same log record as the change itself; discovery.cc updates the stored definition. The bytes are specified in
   docs/design/format.md, 'Catalogue'. */

#ifndef TEAK_TABLE_TABLE_METADATA_H
#define TEAK_TABLE_TABLE_METADATA_H

#include "base/server_version.h"

#include <string>
#include <vector>

#include "base/core.h"
#include "format/row_history.h"
#include "table/frm_image.h"

namespace teak {

struct TableMetadata {
  uint32_t schema_version = 1;  // of newly written rows
  /* Version of the server's definition; each ALTER has a new one. Zeros: unknown. */
  uint8_t version[MY_UUID_SIZE] = {};
  uint64_t clustering_keys = 0;  // a bit for each key whose entries contain the row
  RowHistory history;            // of rows of earlier schema versions
  FrmImage frm;                  // of this version; empty: unknown, or of a partition or a temporary table

  void set_version(const LEX_CUSTRING &wanted) {
    if (wanted.length == sizeof(version)) memcpy(version, wanted.str, sizeof(version));
  }
  bool has_version(const LEX_CUSTRING &wanted) const {
    return wanted.length == sizeof(version) && memcmp(version, wanted.str, sizeof(version)) == 0;
  }

  bool is_clustering(uint key) const { return (clustering_keys >> key & 1) != 0; }
  void set_clustering(uint key) { clustering_keys |= uint64_t{1} << key; }

  bool knows_version() const;
  void forget_version() { memset(version, 0, sizeof(version)); }

  /* Reads the metadata of the table with this path. After an error, *error contains the cause. */
  static teak_status load(const char *path, TableMetadata *metadata, std::string *error);
  std::vector<uint8_t> encode() const;
  /* Returns false, with a message, if the bytes are not valid metadata of this version of Teak. */
  static bool decode(teak_slice bytes, TableMetadata *metadata, std::string *error);
};

/* The handlerton's check_version. */
int check_table_version(handlerton *hton, const char *path, const LEX_CUSTRING *version, ulonglong created);

}  // namespace teak

#endif
