/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* See record_copier.h. */

#include "alter/record_copier.h"

#include <cstdint>

#include "alter/altered_columns.h"

namespace teak {

const char *RecordCopier::match(const TABLE *table, const TABLE *altered, const Alter_inplace_info *alter) {
  std::vector<uint32_t> old_columns;
  if (const char *reason = old_columns_of(altered, alter, &old_columns)) return reason;
  columns_.clear();
  for (uint column = 0; column < altered->s->fields; column++) {
    if (old_columns[column] == UINT32_MAX) continue;
    Field *from = table->field[old_columns[column]], *to = altered->field[column];
    const bool same_length = from->real_type() == MYSQL_TYPE_VARCHAR ||
                             (from->pack_length() == to->pack_length() &&
                              (from->real_type() != MYSQL_TYPE_BIT || from->field_length == to->field_length));
    if (!same_length || !from->compression_method() != !to->compression_method()) return STORED_FORM_CHANGES;
    columns_.push_back({from, to});
  }
  return nullptr;
}

Field *RecordCopier::copy() const {
  for (const Column &column : columns_) {
    Field *from = column.from, *to = column.to;
    if (from->is_null()) {
      if (!to->real_maybe_null()) return to;
      to->reset();
      to->set_null();
      continue;
    }
    to->set_notnull();
    switch (from->real_type()) {
      case MYSQL_TYPE_VARCHAR:
      case MYSQL_TYPE_VARCHAR_COMPRESSED: {
        const uint from_bytes = static_cast<Field_varstring *>(from)->length_bytes;
        const uint to_bytes = static_cast<Field_varstring *>(to)->length_bytes;
        const uint length = from_bytes == 1 ? *from->ptr : uint2korr(from->ptr);
        if (to_bytes == 1)
          *to->ptr = static_cast<uchar>(length);
        else
          int2store(to->ptr, length);
        memcpy(to->ptr + to_bytes, from->ptr + from_bytes, length);
        break;
      }
      case MYSQL_TYPE_BIT:  // some of its bits may be among the NULL bits
        to->store(from->val_int(), true);
        break;
      default:
        memcpy(to->ptr, from->ptr, from->pack_length());
    }
  }
  return nullptr;
}

}  // namespace teak
