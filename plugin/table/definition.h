/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* What a table of the engine takes from the server's definition of it. */

#ifndef TEAK_TABLE_DEFINITION_H
#define TEAK_TABLE_DEFINITION_H

#include "base/server_version.h"

#include <memory>
#include <string>

#include "format/key_codec.h"

namespace teak {

/* The label of the index that holds the rows. */
constexpr LEX_CSTRING ROW_INDEX_LABEL = {"main", 4};

/* Whether a key is unique for the engine too. A long unique key is checked by the server: what is stored of it is a hash,
   and two values may have the same. */
inline bool enforced_by_engine(const KEY &key) {
  return (key.flags & HA_NOSAME) != 0 && key.algorithm != HA_KEY_ALG_LONG_HASH;
}

/* The codec of a key whose every entry, the primary key behind it included, is a key that the engine takes; nullptr with a
   sentence in *error when there is none. */
std::unique_ptr<KeyCodec> fitting_codec(const TABLE *form, uint number, const KeyCodec *primary, std::string *error);

/* The ROW_FORMAT of a definition if Teak has none of that name, or nullptr. */
const char *foreign_row_format(const HA_CREATE_INFO *info);

}  // namespace teak

#endif
