/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* Properties of an engine table that follow from the server's definition. */

#ifndef TEAK_TABLE_DEFINITION_H
#define TEAK_TABLE_DEFINITION_H

#include "base/server_version.h"

#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/core.h"
#include "format/key_codec.h"
#include "format/row_codec.h"

namespace teak {

/* Whether the engine enforces a key's uniqueness. A long unique key is checked by the server, because only a hash of it is
   stored and two values may have the same hash. */
inline bool enforced_by_engine(const KEY &key) {
  return (key.flags & HA_NOSAME) != 0 && key.algorithm != HA_KEY_ALG_LONG_HASH;
}

/* Whether the entries of a secondary key contain the whole row (CLUSTERING=YES). Primary keys always do. false while the
   server reads the definition, before it knows the key's options. */
bool is_clustering(const TABLE_SHARE *share, uint key);

/* The option COMPRESSION of a key, or that of the table, as a position in compression_typelib. `key`: MAX_KEY for the rows of
   a table without a primary key. */
uint compression_of(const TABLE_SHARE *share, uint key);

/* The key with which the table is encrypted; 0: it is not. A table with ENCRYPTED=DEFAULT is, if teak_encrypt_tables is ON. */
uint32_t encryption_key_of(const TABLE_SHARE *share);

/* Whether the table has ENCRYPTED=NO although teak_encrypt_tables is FORCE. */
bool is_forbidden_plain(const TABLE_SHARE *share);

/* Adds a note for each codec for which another one stands in. */
void note_compressions(THD *thd, const TABLE_SHARE *share);

/* The codec of a key. nullptr, with a message in *error, if Teak does not support the key, or if its maximum length
   (with the primary key, in a secondary index) exceeds the engine's limit. */
std::unique_ptr<KeyCodec> create_checked_key_codec(const TABLE *form, uint number, const KeyCodec *primary,
                                                   std::string *error);

/* The lists of columns to which definitions of indexes point. */
class ColumnLists {
 public:
  ColumnLists() = default;
  ColumnLists(const ColumnLists &) = delete;
  ColumnLists &operator=(const ColumnLists &) = delete;

  void set_key_columns(std::vector<teak_column> columns, teak_index_definition *definition);
  void set_value_columns(const RowCodec &rows, teak_index_definition *definition);

 private:
  const std::vector<teak_column> &add(std::vector<teak_column> columns) {
    return lists_.emplace_back(std::move(columns));
  }

  std::deque<std::vector<teak_column>> lists_;
  std::deque<std::vector<teak_optional_column>> optional_lists_;
  std::deque<std::vector<uint32_t>> variable_lists_;
};

/* The definitions of indexes in the engine: of the index that contains the rows, and of a secondary key's index. */
teak_index_definition row_index_definition(const TABLE *form, const RowCodec &rows, ColumnLists *lists);
teak_index_definition key_index_definition(const TABLE *form, uint key, const RowCodec &rows, ColumnLists *lists);

/* The ROW_FORMAT of a definition if Teak does not support it, otherwise nullptr. */
const char *unsupported_row_format(const HA_CREATE_INFO *info);

}  // namespace teak

#endif
