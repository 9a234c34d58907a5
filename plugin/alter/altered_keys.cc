/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* See altered_keys.h. */

#include "alter/altered_keys.h"

#include <string>

#include "format/field_types.h"
#include "table/definition.h"

namespace teak {

bool has_same_entries(const KEY &old_key, const KEY &new_key) {
  if (enforced_by_engine(old_key) != enforced_by_engine(new_key) ||
      old_key.user_defined_key_parts != new_key.user_defined_key_parts)
    return false;
  for (uint i = 0; i < old_key.user_defined_key_parts; i++) {
    const KEY_PART_INFO &old_part = old_key.key_part[i], &new_part = new_key.key_part[i];
    const Field *old_field = old_part.field, *new_field = new_part.field;
    if (old_field->real_type() != new_field->real_type() || old_field->charset() != new_field->charset() ||
        (old_field->null_ptr == nullptr) != (new_field->null_ptr == nullptr) ||
        (old_part.key_part_flag & HA_REVERSE_SORT) != (new_part.key_part_flag & HA_REVERSE_SORT) ||
        (old_part.key_part_flag & HA_PART_KEY_SEG) != (new_part.key_part_flag & HA_PART_KEY_SEG) ||
        old_field->stored_in_db() != new_field->stored_in_db())
      return false;
    if (old_field->real_type() == MYSQL_TYPE_NEWDECIMAL && old_field->decimals() != new_field->decimals()) return false;
    if (((old_field->flags ^ new_field->flags) & UNSIGNED_FLAG) != 0 && is_integer(new_field->real_type()))
      return false;
    if (old_field->pack_length() != new_field->pack_length() && !(old_field->flags & BLOB_FLAG) &&
        old_field->real_type() != MYSQL_TYPE_VARCHAR)
      return false;
  }
  return true;
}

uint old_key_of(const TABLE *table, const Alter_inplace_info *alter, uint new_key) {
  for (uint i = 0; i < alter->index_add_count; i++)
    if (alter->index_add_buffer[i] == new_key) return MAX_KEY;
  const KEY *key = &alter->key_info_buffer[new_key];
  for (size_t i = 0; i < alter->rename_keys.size(); i++)
    if (alter->rename_keys.at(i).new_key == key)
      return static_cast<uint>(alter->rename_keys.at(i).old_key - table->key_info);
  for (uint i = 0; i < table->s->keys; i++)
    if (is_same_name(table->key_info[i].name, key->name)) return i;
  return MAX_KEY;
}

bool is_on_virtual_column(const KEY &key) {
  for (uint i = 0; i < key.user_defined_key_parts; i++)
    if (!key.key_part[i].field->stored_in_db()) return true;
  return false;
}

std::shared_ptr<const KeyCodec> primary_codec_of(const TABLE *altered) {
  std::string error;
  if (altered->s->primary_key == MAX_KEY) return KeyCodec::create_hidden();
  return create_checked_key_codec(altered, altered->s->primary_key, nullptr, &error);
}

}  // namespace teak
