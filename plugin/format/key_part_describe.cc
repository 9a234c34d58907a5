/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* Reads the server's description of a key part and chooses its encoding (key_part.h). The order to preserve is that of
   Field::cmp(), which the server uses for key comparisons. */

#include <my_global.h>

#include "sql_class.h"

#include "field.h"
#include "table.h"

#include "format/field_types.h"
#include "format/key_part.h"

namespace teak {

namespace {

std::string refusal(const Field *field, const char *why) {
  return "column " + std::string(field->field_name.str, field->field_name.length) + " cannot be part of a key: " + why;
}

void take_integer(KeyPart *part, uint32_t width, bool with_sign) {
  part->form = KeyPart::Form::Integer;
  part->width = width;
  part->sign = with_sign ? 1ULL << (8 * width - 1) : 0;
  part->decodable = true;
}

void take_raw(KeyPart *part, uint32_t width) {
  part->form = KeyPart::Form::Raw;
  part->width = width;
  part->decodable = true;
}

/* Times with fractions are stored big-endian with an offset; times without fractions as little-endian integers. */
void take_time(KeyPart *part, const Field *field, uint32_t width, bool with_sign) {
  if (field->decimals() > 0)
    take_raw(part, field->pack_length());
  else
    take_integer(part, width, with_sign);
}

void take_bit(KeyPart *part, const Field *field, const uchar *record) {
  auto *bit = static_cast<const Field_bit *>(field);
  part->form = KeyPart::Form::Bit;
  part->bit_length = static_cast<uint8_t>(bit->bit_len);
  part->bit_offset = bit->bit_ofs;
  part->bit_position = bit->bit_len != 0 ? static_cast<uint32_t>(bit->bit_ptr - record) : 0;
  part->width = bit->bytes_in_rec + (bit->bit_len != 0 ? 1 : 0);
  part->decodable = true;
}

bool take_string(KeyPart *part, const KEY_PART_INFO &server_part, const Field *field, std::string *error) {
  part->collation = field->charset();
  part->width = server_part.length;
  part->field_bytes_max = field->field_length;
  auto column = StringCodec::Column::Variable;
  if (field->flags & BLOB_FLAG) {
    part->form = KeyPart::Form::Blob;
    part->length_bytes = static_cast<uint8_t>(static_cast<const Field_blob *>(field)->pack_length_no_ptr());
    part->prefix = true;
  } else if (is_varchar(field)) {
    part->form = KeyPart::Form::Varchar;
    part->length_bytes = static_cast<uint8_t>(static_cast<const Field_varstring *>(field)->length_bytes);
    part->prefix = server_part.length != field->field_length;
  } else if (part->collation == &my_charset_bin) {
    take_raw(part, server_part.length);
    part->prefix = server_part.length != field->field_length;
    return true;
  } else {
    part->form = KeyPart::Form::Char;
    part->prefix = server_part.length != field->field_length;
    column = part->prefix ? StringCodec::Column::FixedPrefix : StringCodec::Column::Fixed;
  }
  /* A CHAR is padded after its characters. The padding is significant if trailing spaces are, and may end within a
     multi-byte space. */
  if (part->prefix || (part->form == KeyPart::Form::Char && part->collation->mbmaxlen > 1 &&
                       ((part->collation->state & MY_CS_NOPAD) != 0 || part->collation->mbminlen > 1)))
    part->characters_max = server_part.length / part->collation->mbmaxlen;
  part->string = StringCodec::create(part->collation, column, part->width, error);
  if (part->string == nullptr) return false;
  part->decodable = part->string->decodable();
  return true;
}

}  // namespace

bool KeyPart::describe(const KEY_PART_INFO &server_part, const Field *field, const uchar *record, KeyPart *part,
                       std::string *error) {
  part->column = field->field_index;
  part->offset = static_cast<uint32_t>(field->ptr - record);
  part->nullable = field->null_ptr != nullptr;
  if (part->nullable) {
    part->null_offset = static_cast<uint32_t>(field->null_ptr - record);
    part->null_bit = field->null_bit;
  }
  part->inverted = server_part.key_part_flag & HA_REVERSE_SORT ? 0xFF : 0;
  const bool with_sign = (field->flags & UNSIGNED_FLAG) == 0;
  switch (field->real_type()) {
    case MYSQL_TYPE_TINY:
      take_integer(part, 1, with_sign);
      break;
    case MYSQL_TYPE_SHORT:
      take_integer(part, 2, with_sign);
      break;
    case MYSQL_TYPE_INT24:
      take_integer(part, 3, with_sign);
      break;
    case MYSQL_TYPE_LONG:
      take_integer(part, 4, with_sign);
      break;
    case MYSQL_TYPE_LONGLONG:
      take_integer(part, 8, with_sign);
      break;
    case MYSQL_TYPE_YEAR:
      take_integer(part, 1, false);
      break;
    case MYSQL_TYPE_DATE:
      take_integer(part, 4, false);
      break;
    case MYSQL_TYPE_NEWDATE:
      take_integer(part, 3, false);
      break;
    case MYSQL_TYPE_TIME:
      take_time(part, field, 3, true);
      break;
    case MYSQL_TYPE_DATETIME:
      take_time(part, field, 8, false);
      break;
    case MYSQL_TYPE_TIMESTAMP:
      take_time(part, field, 4, false);
      break;
    case MYSQL_TYPE_ENUM:
    case MYSQL_TYPE_SET:
      take_integer(part, field->pack_length(), false);
      break;
    case MYSQL_TYPE_FLOAT:
      part->form = Form::Float;
      part->width = 4;
      break;
    case MYSQL_TYPE_DOUBLE:
      part->form = Form::Double;
      part->width = 8;
      break;
    case MYSQL_TYPE_NEWDECIMAL:
    case MYSQL_TYPE_TIME2:
    case MYSQL_TYPE_DATETIME2:
    case MYSQL_TYPE_TIMESTAMP2:
      take_raw(part, field->pack_length());
      break;
    case MYSQL_TYPE_BIT:
      take_bit(part, field, record);
      break;
    case MYSQL_TYPE_STRING:
    case MYSQL_TYPE_VAR_STRING:
      if (is_fixed_binary(field)) {
        take_raw(part, field->pack_length());
        break;
      }
      if (!is_char(field)) {
        *error = refusal(field, "its type is unknown to this version");
        return false;
      }
      [[fallthrough]];
    case MYSQL_TYPE_VARCHAR:
    case MYSQL_TYPE_TINY_BLOB:
    case MYSQL_TYPE_MEDIUM_BLOB:
    case MYSQL_TYPE_LONG_BLOB:
    case MYSQL_TYPE_BLOB:
    case MYSQL_TYPE_GEOMETRY:
      if (!take_string(part, server_part, field, error)) return false;
      break;
    default:
      *error = refusal(field, "its type is unknown to this version");
      return false;
  }
  if (part->prefix) part->decodable = false;
  if (!part->is_string() && !part->prefix && part->width != server_part.length) {
    *error = refusal(field, "the key holds less than its value");
    return false;
  }
  return true;
}

}  // namespace teak
