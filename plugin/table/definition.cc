/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* See definition.h. */

#include "table/definition.h"

#include "monitor/variables.h"

namespace teak {

namespace {

constexpr LEX_CSTRING ROW_INDEX_LABEL = {"main", 4};

teak_index_definition index_definition(const TABLE *form, const LEX_CSTRING &label) {
  const ha_table_option_struct &options = *form->s->option_struct;
  teak_index_definition definition;
  definition.label = {reinterpret_cast<const uint8_t *>(label.str), label.length};
  definition.codec = codec_of(options.compression);
  definition.page_bytes = static_cast<uint32_t>(options.page_bytes);
  definition.exact_lookups = false;
  definition.value_fixed_bytes = 0;
  definition.suffix = TEAK_SUFFIX_NONE;
  definition.suffix_bytes = 0;
  return definition;
}

/* The entries of a key that is not unique end with the primary key, see KeyCodec::append_primary(). Filters have the
   columns before it. */
void set_suffix(const TABLE *form, teak_index_definition *definition) {
  std::string error;
  const uint number = form->s->primary_key;
  const std::unique_ptr<KeyCodec> primary =
      number == MAX_KEY ? KeyCodec::create_hidden() : KeyCodec::create(form, number, nullptr, &error);
  if (primary == nullptr) return;
  if (!primary->has_fixed_length()) {
    definition->suffix = TEAK_SUFFIX_COUNTED;
  } else if (primary->length_max() <= UINT_MAX16) {
    definition->suffix = TEAK_SUFFIX_FIXED;
    definition->suffix_bytes = static_cast<uint32_t>(primary->length_max());
  }
}

}  // namespace

teak_index_definition row_index_definition(const TABLE *form, const RowCodec &rows) {
  teak_index_definition definition = index_definition(form, ROW_INDEX_LABEL);
  definition.exact_lookups = true;
  definition.value_fixed_bytes = rows.fixed_bytes();
  return definition;
}

teak_index_definition key_index_definition(const TABLE *form, uint key) {
  teak_index_definition definition = index_definition(form, form->key_info[key].name);
  definition.exact_lookups = enforced_by_engine(form->key_info[key]);
  if (!definition.exact_lookups) set_suffix(form, &definition);
  return definition;
}

std::unique_ptr<KeyCodec> create_checked_key_codec(const TABLE *form, uint number, const KeyCodec *primary,
                                                   std::string *error) {
  std::unique_ptr<KeyCodec> codec = KeyCodec::create(form, number, primary, error);
  if (codec == nullptr) return codec;
  const size_t bytes = codec->length_max() + (primary == nullptr ? 0 : primary->length_max()) +
                       (codec->primary_varies() ? KeyCodec::PRIMARY_LENGTH_BYTES : 0);
  if (bytes <= TEAK_KEY_BYTES_MAX) return codec;
  const KEY &key = form->key_info[number];
  *error = "a key of up to " + std::to_string(bytes) + " bytes (" + std::string(key.name.str, key.name.length) +
           (primary == nullptr ? "" : " with the primary key") + ", in the order of their collations; at most " +
           std::to_string(TEAK_KEY_BYTES_MAX) + ")";
  return nullptr;
}

/* InnoDB's row formats are accepted as aliases of Teak's single format, because existing definitions use them. */
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
