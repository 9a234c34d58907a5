/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* See column_change.h. */

#include "alter/column_change.h"

#include <cstring>
#include <vector>

#include "format/field_types.h"

namespace teak {

namespace {

/* What reading stored values as another type does. */
enum class Effect {
  Impossible,
  OtherValues,  // no information is lost, but expressions may have other values: a DATETIME gets a fraction
  SameValues,   // all expressions have the same values
};

Effect effect_on_integer(const Field &field, const Column_definition &wanted) {
  if (!is_integer(wanted.real_field_type()) || wanted.pack_length <= field.pack_length()) return Effect::Impossible;
  const bool was_unsigned = (field.flags & UNSIGNED_FLAG) != 0, is_unsigned = (wanted.flags & UNSIGNED_FLAG) != 0;
  if (is_unsigned && !was_unsigned) return Effect::Impossible;
  // A copy numbers rows that have 0.
  if ((wanted.flags & ~field.flags & AUTO_INCREMENT_FLAG) != 0) return Effect::Impossible;
  if (was_unsigned != is_unsigned || ((field.flags | wanted.flags) & ZEROFILL_FLAG) != 0) return Effect::OtherValues;
  return Effect::SameValues;
}

/* Members were appended to an ENUM or SET. If this does not change its width, the server does not ask. */
Effect effect_on_members(const Field &field, const Column_definition &wanted) {
  const TYPELIB *before = static_cast<const Field_enum &>(field).typelib, *after = wanted.interval;
  if (wanted.type_handler() != field.type_handler() || wanted.charset != field.charset() || after == nullptr ||
      wanted.pack_length < field.pack_length() || after->count < before->count)
    return Effect::Impossible;
  for (uint i = 0; i < before->count; i++)
    if (before->type_lengths[i] != after->type_lengths[i] ||
        memcmp(before->type_names[i], after->type_names[i], before->type_lengths[i]) != 0)
      return Effect::Impossible;
  return Effect::SameValues;
}

Effect effect_on_decimal(const Field &field, const Column_definition &wanted) {
  if (wanted.real_field_type() != MYSQL_TYPE_NEWDECIMAL) return Effect::Impossible;
  const bool was_unsigned = (field.flags & UNSIGNED_FLAG) != 0, is_unsigned = (wanted.flags & UNSIGNED_FLAG) != 0;
  const uint precision = my_decimal_length_to_precision(static_cast<uint>(wanted.length), wanted.decimals, is_unsigned);
  const auto &decimal = static_cast<const Field_new_decimal &>(field);
  const uint digits = decimal.dec, wanted_digits = wanted.decimals;  // after the point
  if (wanted_digits < digits || precision - wanted_digits < decimal.precision - digits) return Effect::Impossible;
  return is_unsigned && !was_unsigned ? Effect::Impossible : Effect::OtherValues;
}

Effect effect_on_time(const Field &field, const Column_definition &wanted) {
  return wanted.real_field_type() == field.real_type() && wanted.length > field.field_length ? Effect::OtherValues
                                                                                             : Effect::Impossible;
}

enum class StringKind { None, Char, Varchar, Blob };

StringKind kind_of(const Type_handler *handler, enum_field_types real_type) {
  if (handler == &type_handler_string || handler == &type_handler_var_string) return StringKind::Char;
  if (real_type == MYSQL_TYPE_VARCHAR) return StringKind::Varchar;
  switch (real_type) {
    case MYSQL_TYPE_TINY_BLOB:
    case MYSQL_TYPE_BLOB:
    case MYSQL_TYPE_MEDIUM_BLOB:
    case MYSQL_TYPE_LONG_BLOB:
      return StringKind::Blob;
    default:
      return StringKind::None;
  }
}

/* Whether a TEXT or BLOB of the wanted type can contain every value of the column. */
bool fits_blob(const Field &field, const Column_definition &wanted) {
  const uint length_bytes = wanted.pack_length - portable_sizeof_char_ptr;
  return length_bytes >= 4 || field.field_length < 1ULL << (8 * length_bytes);
}

Effect effect_on_string(const Field &field, const Column_definition &wanted) {
  const StringKind from = kind_of(field.type_handler(), field.real_type());
  const StringKind to = kind_of(wanted.type_handler(), wanted.real_field_type());
  if (from == StringKind::None || to == StringKind::None || to < from) return Effect::Impossible;
  if (!Charset(field.charset()).encoding_allows_reinterpret_as(wanted.charset)) return Effect::Impossible;
  const bool is_binary = field.charset() == &my_charset_bin;
  if (to == StringKind::Blob ? !fits_blob(field, wanted) : wanted.char_length < field.char_length())
    return Effect::Impossible;
  if (from == StringKind::Char && to != StringKind::Char && !is_binary) {
    // In this mode a value has its padding when the server copies it.
    const THD *thd = field.table->in_use;
    if (thd != nullptr && (thd->variables.sql_mode & MODE_PAD_CHAR_TO_FULL_LENGTH) != 0) return Effect::Impossible;
  }
  if (wanted.charset != field.charset()) return Effect::OtherValues;
  // A longer BINARY has more zeros.
  if (from == StringKind::Char && to == StringKind::Char && is_binary) return Effect::OtherValues;
  return Effect::SameValues;
}

Effect effect_of(const Field &field, const Column_definition &wanted) {
  const enum_field_types type = field.real_type();
  if (is_integer(type)) return effect_on_integer(field, wanted);
  if (has_fraction_behind(type)) return effect_on_time(field, wanted);
  switch (type) {
    case MYSQL_TYPE_ENUM:
    case MYSQL_TYPE_SET:
      return effect_on_members(field, wanted);
    case MYSQL_TYPE_NEWDECIMAL:
      return effect_on_decimal(field, wanted);
    default:
      return effect_on_string(field, wanted);
  }
}

bool is_longer_varchar(const Field &field, const Column_definition &wanted) {
  return field.real_type() == MYSQL_TYPE_VARCHAR && wanted.real_field_type() == MYSQL_TYPE_VARCHAR &&
         wanted.charset == field.charset();
}

/* Whether an expression of the table reads the column. */
bool reads(const Virtual_column_info &expression, const Field &field) {
  const uint fields = field.table->s->fields;
  MY_BITMAP columns;
  std::vector<my_bitmap_map> words(bitmap_buffer_size(fields) / sizeof(my_bitmap_map));
  my_bitmap_init(&columns, words.data(), fields);
  bitmap_clear_all(&columns);
  expression.expr->walk(&Item::register_field_in_bitmap, true, &columns);
  return bitmap_is_set(&columns, field.field_index) != 0;
}

/* Whether a generated column or a CHECK constraint depends on the values of the column. */
bool has_dependents(const Field &field) {
  for (Field **generated = field.table->vfield; generated != nullptr && *generated != nullptr; generated++)
    if (reads(*(*generated)->vcol_info, field)) return true;
  for (Virtual_column_info **check = field.table->check_constraints; check != nullptr && *check != nullptr; check++)
    if (reads(**check, field)) return true;
  return false;
}

/* Whether the column belongs to a long UNIQUE key, which the server implements with a hidden generated column. */
bool is_in_long_unique_key(const Field &field) {
  for (Field **generated = field.table->vfield; generated != nullptr && *generated != nullptr; generated++)
    if (((*generated)->flags & LONG_UNIQUE_HASH_FIELD) != 0 && reads(*(*generated)->vcol_info, field)) return true;
  return false;
}

}  // namespace

bool is_storage_compatible(const Field &field, const Column_definition &wanted) {
  if (field.type_handler()->type_handler_for_implicit_upgrade() != field.type_handler()) return false;
  if (!wanted.compression_method() != !field.compression_method() || field.compression_method()) return false;
  const Effect effect = effect_of(field, wanted);
  if (effect == Effect::Impossible) return false;
  if (is_longer_varchar(field, wanted)) return true;
  // A generated column may have values that were cut off. If it is only computed by reads, they then return the new value.
  if (field.vcol_info != nullptr)
    return !field.stored_in_db() && field.part_of_key.is_clear_all() && !has_dependents(field);
  // The number of the partition may depend on the bytes of a value.
  if ((field.flags & FIELD_IN_PART_FUNC_FLAG) != 0 || is_in_long_unique_key(field)) return false;
  return effect == Effect::SameValues || !has_dependents(field);
}

/* If a VARCHAR becomes longer, the entries of its keys do not change, because encoded keys are self-delimiting. Nor does
   the prefix of a TEXT. */
Compare_keys compare_changed_key_parts(const Field &field, const Column_definition &wanted,
                                       const KEY_PART_INFO &old_part, const KEY_PART_INFO &new_part) {
  if (!is_storage_compatible(field, wanted)) return Compare_keys::NotEqual;
  if ((field.flags & BLOB_FLAG) != 0)
    return wanted.charset == field.charset() && old_part.length == new_part.length ? Compare_keys::Equal
                                                                                   : Compare_keys::NotEqual;
  if (!is_longer_varchar(field, wanted)) return Compare_keys::NotEqual;
  const bool old_whole = old_part.length == field.key_length(), new_whole = new_part.length == wanted.length;
  if (old_whole != new_whole) return Compare_keys::NotEqual;
  if (old_part.length == new_part.length) return Compare_keys::Equal;
  return old_whole ? Compare_keys::EqualButKeyPartLength : Compare_keys::NotEqual;
}

}  // namespace teak
