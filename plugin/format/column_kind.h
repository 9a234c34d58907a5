/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* What the bytes of columns mean, for the engine, which encodes them by type. */

#ifndef TEAK_FORMAT_COLUMN_KIND_H
#define TEAK_FORMAT_COLUMN_KIND_H

#include <my_global.h>

#include "base/core.h"
#include "field.h"

namespace teak {

constexpr uint32_t COLUMN_INTEGER_BYTES_MAX = 8;

/* Bytes that order like an unsigned big-endian integer. */
inline teak_column big_endian_column(uint32_t width) {
  return {width <= COLUMN_INTEGER_BYTES_MAX ? TEAK_COLUMN_UNSIGNED_BIG : TEAK_COLUMN_BYTES, width, 0, 0};
}

constexpr uint32_t DECIMAL_DIGITS_MAX = 18;

inline teak_column decimal_column(const Field_new_decimal *field, uint32_t width) {
  if (field->precision > DECIMAL_DIGITS_MAX || width > COLUMN_INTEGER_BYTES_MAX) return big_endian_column(width);
  return {TEAK_COLUMN_DECIMAL, width, field->precision, field->dec};
}

/* A column of fixed width as it is in the record. */
inline teak_column column_in_record(const Field *field, uint32_t width) {
  const auto integer = [width](bool with_sign) -> teak_column {
    if (width > COLUMN_INTEGER_BYTES_MAX) return {TEAK_COLUMN_BYTES, width, 0, 0};
    return {with_sign ? TEAK_COLUMN_SIGNED_LITTLE : TEAK_COLUMN_UNSIGNED_LITTLE, width, 0, 0};
  };
  switch (field->real_type()) {
    case MYSQL_TYPE_TINY:
    case MYSQL_TYPE_SHORT:
    case MYSQL_TYPE_INT24:
    case MYSQL_TYPE_LONG:
    case MYSQL_TYPE_LONGLONG:
      return integer((field->flags & UNSIGNED_FLAG) == 0);
    case MYSQL_TYPE_YEAR:
    case MYSQL_TYPE_DATE:
    case MYSQL_TYPE_NEWDATE:
    case MYSQL_TYPE_ENUM:
    case MYSQL_TYPE_SET:
      return integer(false);
    case MYSQL_TYPE_TIME:
    case MYSQL_TYPE_DATETIME:
    case MYSQL_TYPE_TIMESTAMP:
      // With fractions they are stored big-endian.
      return field->decimals() > 0 ? big_endian_column(width) : integer(false);
    case MYSQL_TYPE_FLOAT:
    case MYSQL_TYPE_DOUBLE:
      return {TEAK_COLUMN_FLOAT, width, 0, 0};
    case MYSQL_TYPE_NEWDECIMAL:
      return decimal_column(static_cast<const Field_new_decimal *>(field), width);
    case MYSQL_TYPE_TIME2:
    case MYSQL_TYPE_DATETIME2:
    case MYSQL_TYPE_TIMESTAMP2:
    case MYSQL_TYPE_BIT:
      return big_endian_column(width);
    default:
      return {TEAK_COLUMN_BYTES, width, 0, 0};
  }
}

}  // namespace teak

#endif
