/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* See altered_columns.h. */

#include "alter/altered_columns.h"

#include "format/field_types.h"

namespace teak {

namespace {

/* Whether an expression has one value for all rows of a statement. */
bool is_one_value(const Virtual_column_info &value) {
  return (value.flags & static_cast<uint>(~(VCOL_SESSION_FUNC | VCOL_TIME_FUNC))) == 0 &&
         value.expr->used_tables() == 0;
}

/* Hides errors and warnings of a constraint that is only evaluated as a test. */
class ConditionCatcher final : public Internal_error_handler {
 public:
  bool caught = false;
  bool handle_condition(THD *, uint, const char *, Sql_condition::enum_warning_level *, const char *,
                        Sql_condition **) override {
    return caught = true;
  }
};

/* Whether the column's constraint reads only this column, and accepts the value in the record (is true or NULL) without
   a warning. */
bool satisfies_own_constraint(THD *thd, const TABLE *altered, const Field &field) {
  Item *constraint = field.check_constraint->expr;
  MY_BITMAP columns;
  std::vector<my_bitmap_map> words(bitmap_buffer_size(altered->s->fields) / sizeof(my_bitmap_map));
  my_bitmap_init(&columns, words.data(), altered->s->fields);
  bitmap_clear_all(&columns);
  constraint->walk(&Item::register_field_in_bitmap, true, &columns);
  bitmap_clear_bit(&columns, field.field_index);
  if (!bitmap_is_clear_all(&columns)) return false;
  ConditionCatcher catcher;
  thd->push_internal_handler(&catcher);
  const bool fails = !constraint->val_bool() && !constraint->null_value;
  thd->pop_internal_handler();
  return !fails && !catcher.caught;
}

bool is_string(const Field &field) { return is_char(&field) || is_varchar(&field) || (field.flags & BLOB_FLAG) != 0; }

/* Whether ALTER TABLE can change the one type to the other without a check of the values. */
bool is_same_family(const Field &from, const Field &to) {
  if (is_integer(from.real_type()))
    return is_integer(to.real_type()) && ((from.flags & UNSIGNED_FLAG) != 0 || (to.flags & UNSIGNED_FLAG) == 0);
  return from.real_type() == to.real_type() || (is_string(from) && is_string(to));
}

}  // namespace

const char *old_columns_of(const TABLE *altered, const Alter_inplace_info *alter, std::vector<uint32_t> *old_columns) {
  old_columns->assign(altered->s->fields, UINT32_MAX);
  List_iterator_fast<Create_field> definitions(alter->alter_info->create_list);
  for (uint column = 0; const Create_field *definition = definitions++; column++) {
    if (definition->field == nullptr || column >= altered->s->fields) continue;
    const Field *old_field = definition->field, *new_field = altered->field[column];
    if (!old_field->stored_in_db() && !new_field->stored_in_db()) continue;
    if (old_field->stored_in_db() != new_field->stored_in_db() || !is_same_family(*old_field, *new_field) ||
        !Charset(old_field->charset()).encoding_allows_reinterpret_as(new_field->charset()))
      return STORED_FORM_CHANGES;
    (*old_columns)[column] = old_field->field_index;
  }
  return nullptr;
}

const char *evaluate_added_columns(THD *thd, TABLE *altered, const Alter_inplace_info *alter) {
  const bool checks = !(thd->variables.option_bits & OPTION_NO_CHECK_CONSTRAINT_CHECKS);
  List_iterator_fast<Create_field> definitions(alter->alter_info->create_list);
  for (uint column = 0; const Create_field *definition = definitions++; column++) {
    Field *field = altered->field[column];
    if (definition->field != nullptr || !field->stored_in_db()) continue;
    if (field == altered->found_next_number_field) return "an AUTO_INCREMENT column is numbered row by row";
    if (field->default_value != nullptr && !is_one_value(*field->default_value))
      return "the default of a new column is not the same for all rows";
    if (field->type() == MYSQL_TYPE_GEOMETRY && !field->real_maybe_null() && field->default_value == nullptr)
      return "a GEOMETRY column that is NOT NULL has no default";
    // 0: stored unchanged; 3: a DATETIME was converted to a TIME or DATE.
    const int stored = field->set_default();
    if (stored != 0 && stored != 3) return "the default of a new column does not fit the column";
    if (checks && field->check_constraint != nullptr && !satisfies_own_constraint(thd, altered, *field))
      return "existing rows must be checked against the new constraint";
  }
  return nullptr;
}

}  // namespace teak
