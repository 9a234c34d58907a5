/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* See record_copier.h. */

#include "alter/record_copier.h"

#include <cstdint>

#include "alter/altered_columns.h"
#include "format/field_types.h"
#include "format/row_values.h"

namespace teak {

RecordCopier::Side RecordCopier::side_of(const TABLE *table, Field *field) {
  Side side = {field, RowPlan::place_of(field, table->record[0]), {}};
  if (side.place.width == ColumnLayout::VARIABLE) side.variable = RowPlan::variable_at(field, side.place);
  return side;
}

const char *RecordCopier::match(const TABLE *table, const TABLE *altered, const Alter_inplace_info *alter) {
  std::vector<uint32_t> old_columns;
  if (const char *reason = old_columns_of(altered, alter, &old_columns)) return reason;
  columns_.clear();
  for (uint number = 0; number < altered->s->fields; number++) {
    if (old_columns[number] == UINT32_MAX) continue;
    Field *from = table->field[old_columns[number]], *to = altered->field[number];
    Column column = {side_of(table, from), side_of(altered, to), {}};
    // The record has the padding of a CHAR.
    if (is_char(from)) column.from.place.width = from->pack_length();
    if (is_char(to)) column.to.place.width = to->pack_length();
    bool matches = from->field_length == to->field_length;
    if (from->real_type() != MYSQL_TYPE_BIT) {
      column.conversion = ColumnConversion::between(column.from.place.type, column.from.place.width, column.to.place,
                                                    column.to.variable_or_null());
      matches = column.conversion.is_possible();
    }
    if (!matches || !from->compression_method() != !to->compression_method()) return STORED_FORM_CHANGES;
    columns_.push_back(column);
  }
  return nullptr;
}

Field *RecordCopier::copy() const {
  for (const Column &column : columns_) {
    Field *from = column.from.field, *to = column.to.field;
    if (from->is_null()) {
      if (!to->real_maybe_null()) return to;
      to->reset();
      to->set_null();
      continue;
    }
    to->set_notnull();
    if (from->real_type() == MYSQL_TYPE_BIT) {  // some of its bits may be among the NULL bits
      to->store(from->val_int(), true);
      continue;
    }
    const RowPlan::Variable *variable = column.from.variable_or_null();
    Slice value = {from->ptr, column.from.place.width};
    if (variable != nullptr) value = slice_of(*variable, from->table->record[0]);
    static const uint8_t EMPTY = 0;
    // The value fits, because the column is not shorter than before.
    column.conversion.set(column.to.place, column.to.variable_or_null(), value.length == 0 ? &EMPTY : value.bytes,
                          static_cast<uint32_t>(value.length), to->table->record[0], nullptr);
  }
  return nullptr;
}

}  // namespace teak
