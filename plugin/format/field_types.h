/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* Properties of column types that Field::real_type() does not distinguish. Include after the server's headers. */

#ifndef TEAK_FORMAT_FIELD_TYPES_H
#define TEAK_FORMAT_FIELD_TYPES_H

#include <my_global.h>

#include "sql_class.h"

#include "field.h"

namespace teak {

/* CHAR or BINARY. Types from plugins (UUID, INET6, INET4) are MYSQL_TYPE_STRING too. */
inline bool is_char(const Field *field) {
  return field->type_handler() == &type_handler_string || field->type_handler() == &type_handler_var_string;
}

inline bool is_varchar(const Field *field) {
  return field->real_type() == MYSQL_TYPE_VARCHAR || field->real_type() == MYSQL_TYPE_VARCHAR_COMPRESSED;
}

/* An integer that is stored little-endian, as the server writes it to the record. */
inline bool is_integer(enum_field_types real_type) {
  switch (real_type) {
    case MYSQL_TYPE_TINY:
    case MYSQL_TYPE_SHORT:
    case MYSQL_TYPE_INT24:
    case MYSQL_TYPE_LONG:
    case MYSQL_TYPE_LONGLONG:
      return true;
    default:
      return false;
  }
}

/* A time that is stored in the bytes of its whole seconds, then those of its fraction. */
inline bool has_fraction_behind(enum_field_types real_type) {
  return real_type == MYSQL_TYPE_DATETIME2 || real_type == MYSQL_TYPE_TIMESTAMP2 || real_type == MYSQL_TYPE_TIME2;
}

/* A type from a plugin with values of fixed width that compare by memcmp in the record. */
inline bool is_fixed_binary(const Field *field) {
  const LEX_CSTRING name = field->type_handler()->name().lex_cstring();
  for (const char *known : {"inet4", "inet6", "uuid"})
    if (strlen(known) == name.length && strncasecmp(known, name.str, name.length) == 0) return true;
  return false;
}

}  // namespace teak

#endif
