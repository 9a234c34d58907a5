/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* See definition.h. */

#include "table/definition.h"

#include "base/core.h"

namespace teak {

std::unique_ptr<KeyCodec> create_checked_key_codec(const TABLE *form, uint number, const KeyCodec *primary,
                                                   std::string *error) {
  std::unique_ptr<KeyCodec> codec = KeyCodec::create(form, number, primary, error);
  if (codec == nullptr) return codec;
  const size_t bytes = codec->length_max() + (primary == nullptr ? 0 : primary->length_max());
  if (bytes <= TEAK_KEY_BYTES_MAX) return codec;
  const KEY &key = form->key_info[number];
  *error = "a key of up to " + std::to_string(bytes) + " bytes (" + std::string(key.name.str, key.name.length) +
           (primary == nullptr ? "" : " with the primary key") + ", in the order of their collations; at most " +
           std::to_string(TEAK_KEY_BYTES_MAX) + ")";
  return nullptr;
}

/* InnoDB's names are accepted as names of Teak's one format, because existing definitions use them. */
const char *unsupported_row_format(const HA_CREATE_INFO *info) {
  switch (info->row_type) {
    case ROW_TYPE_FIXED:
      return "ROW_FORMAT=FIXED";
    case ROW_TYPE_PAGE:
      return "ROW_FORMAT=PAGE";
    default:
      return nullptr;
  }
}

}  // namespace teak
