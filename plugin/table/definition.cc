/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* See definition.h. */

#include "table/definition.h"

#include "base/compression.h"
#include "monitor/variables.h"

namespace teak {

namespace {

constexpr LEX_CSTRING ROW_INDEX_LABEL = {"main", 4};

/* `key`: MAX_KEY for the rows of a table without a primary key. */
teak_index_definition index_definition(const TABLE *form, uint key, const LEX_CSTRING &label) {
  const ha_table_option_struct &options = *form->s->option_struct;
  teak_index_definition definition;
  definition.label = {reinterpret_cast<const uint8_t *>(label.str), label.length};
  definition.codec = codec_of(compression_of(form->s, key));
  definition.page_bytes = static_cast<uint32_t>(options.page_bytes);
  definition.encryption_key = encryption_key_of(form->s);
  definition.exact_lookups = false;
  definition.value_fixed_bytes = 0;
  definition.suffix = TEAK_SUFFIX_NONE;
  definition.suffix_bytes = 0;
  definition.key_columns = definition.value_columns = nullptr;
  definition.key_column_count = definition.value_column_count = 0;
  definition.optional_columns = nullptr;
  definition.variable_columns = nullptr;
  definition.optional_column_count = definition.variable_column_count = 0;
  return definition;
}

std::unique_ptr<KeyCodec> primary_codec(const TABLE *form) {
  std::string error;
  const uint number = form->s->primary_key;
  return number == MAX_KEY ? KeyCodec::create_hidden() : KeyCodec::create(form, number, nullptr, &error);
}

void set_value(const RowCodec &rows, ColumnLists *lists, teak_index_definition *definition) {
  definition->value_fixed_bytes = rows.fixed_bytes();
  lists->set_value_columns(rows, definition);
}

/* The entries of a key that is not unique end with the primary key, see KeyCodec::append_primary(). Filters have the
   columns before it. */
void set_suffix(const KeyCodec &primary, teak_index_definition *definition) {
  if (!primary.has_fixed_length()) {
    definition->suffix = TEAK_SUFFIX_COUNTED;
  } else if (primary.length_max() <= UINT_MAX16) {
    definition->suffix = TEAK_SUFFIX_FIXED;
    definition->suffix_bytes = static_cast<uint32_t>(primary.length_max());
  }
}

}  // namespace

void ColumnLists::set_key_columns(std::vector<teak_column> columns, teak_index_definition *definition) {
  const std::vector<teak_column> &list = add(std::move(columns));
  definition->key_columns = list.data();
  definition->key_column_count = list.size();
}

void ColumnLists::set_value_columns(const RowCodec &rows, teak_index_definition *definition) {
  const std::vector<teak_column> &fixed = add(rows.fixed_columns());
  definition->value_columns = fixed.data();
  definition->value_column_count = fixed.size();
  const std::vector<teak_optional_column> &optional = optional_lists_.emplace_back(rows.optional_columns());
  definition->optional_columns = optional.data();
  definition->optional_column_count = optional.size();
  const std::vector<uint32_t> &variable = variable_lists_.emplace_back(rows.variable_columns());
  definition->variable_columns = variable.data();
  definition->variable_column_count = variable.size();
}

teak_index_definition row_index_definition(const TABLE *form, const RowCodec &rows, ColumnLists *lists) {
  teak_index_definition definition = index_definition(form, form->s->primary_key, ROW_INDEX_LABEL);
  definition.exact_lookups = true;
  set_value(rows, lists, &definition);
  const std::unique_ptr<KeyCodec> primary = primary_codec(form);
  if (primary == nullptr || !primary->has_fixed_length()) return definition;
  std::vector<teak_column> columns;
  primary->append_columns(&columns);
  lists->set_key_columns(std::move(columns), &definition);
  return definition;
}

teak_index_definition key_index_definition(const TABLE *form, uint key, const RowCodec &rows, ColumnLists *lists) {
  teak_index_definition definition = index_definition(form, key, form->key_info[key].name);
  if (is_clustering(form->s, key)) set_value(rows, lists, &definition);
  definition.exact_lookups = enforced_by_engine(form->key_info[key]);
  const std::unique_ptr<KeyCodec> primary = primary_codec(form);
  if (primary == nullptr) return definition;
  if (!definition.exact_lookups) set_suffix(*primary, &definition);
  std::string error;
  const std::unique_ptr<KeyCodec> codec = KeyCodec::create(form, key, primary.get(), &error);
  const bool has_primary = !definition.exact_lookups;
  if (codec == nullptr || !codec->has_fixed_length() || (has_primary && !primary->has_fixed_length()))
    return definition;
  std::vector<teak_column> columns;
  codec->append_columns(&columns);
  if (has_primary) primary->append_columns(&columns);
  lists->set_key_columns(std::move(columns), &definition);
  return definition;
}

uint compression_of(const TABLE_SHARE *share, uint key) {
  const ha_index_option_struct *options = key == MAX_KEY ? nullptr : share->key_info[key].option_struct;
  if (options == nullptr || options->compression == 0) return share->option_struct->compression;
  return options->compression - 1;
}

uint32_t encryption_key_of(const TABLE_SHARE *share) {
  const ha_table_option_struct &options = *share->option_struct;
  const bool is_default = options.encrypted == ENCRYPTED_DEFAULT;
  const bool is_encrypted = is_default ? encrypt_tables() != ENCRYPT_OFF : options.encrypted == ENCRYPTED_YES;
  return is_encrypted ? options.encryption_key_id : 0;
}

bool is_forbidden_plain(const TABLE_SHARE *share) {
  return share->option_struct->encrypted == ENCRYPTED_NO && encrypt_tables() == ENCRYPT_FORCE;
}

void note_compressions(THD *thd, const TABLE_SHARE *share) {
  note_compression(thd, share->option_struct->compression);
  for (uint key = 0; key < share->keys; key++)
    if (compression_of(share, key) != share->option_struct->compression)
      note_compression(thd, compression_of(share, key));
}

bool is_clustering(const TABLE_SHARE *share, uint key) {
  const ha_index_option_struct *options = share->key_info[key].option_struct;
  return key != share->primary_key && options != nullptr && options->clustering;
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
