/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* Columns that ALTER TABLE adds, drops, moves or lets be NULL: whether the rows that there are can be read under the new
   definition without being written anew, and what the table has to remember for that; or how they get their new form. */

#include "alter/alter_context.h"
#include "handler/ha_teak.h"
#include "table/definition.h"

namespace teak {

namespace {

/* What a table's metadata may take in the engine, but for a reserve. */
constexpr size_t HISTORY_BYTES_MAX = 60 * 1024;

constexpr const char *OTHER_FORM = "the stored form of a column changes";
constexpr const char *CANNOT = "rows of the new definition cannot be stored";

/* Whether an expression has one value for all rows of a statement. */
bool is_one_value(const Virtual_column_info &value) {
  return (value.flags & static_cast<uint>(~(VCOL_SESSION_FUNC | VCOL_TIME_FUNC))) == 0 &&
         value.expr->used_tables() == 0;
}

/* Errors and warnings met while a constraint is tried are not the statement's. */
class Complaints final : public Internal_error_handler {
 public:
  bool met = false;
  bool handle_condition(THD *, uint, const char *, Sql_condition::enum_warning_level *, const char *,
                        Sql_condition **) override {
    return met = true;
  }
};

/* Whether the column's own constraint looks at it alone and holds for what stands in the record. */
bool keeps_its_constraint(THD *thd, const TABLE *altered, const Field &field) {
  Item *constraint = field.check_constraint->expr;
  MY_BITMAP columns;
  std::vector<my_bitmap_map> words(bitmap_buffer_size(altered->s->fields) / sizeof(my_bitmap_map));
  my_bitmap_init(&columns, words.data(), altered->s->fields);
  bitmap_clear_all(&columns);
  constraint->walk(&Item::register_field_in_bitmap, true, &columns);
  bitmap_clear_bit(&columns, field.field_index);
  if (!bitmap_is_clear_all(&columns)) return false;
  Complaints complaints;
  thd->push_internal_handler(&complaints);
  const bool fails = !constraint->val_bool() && !constraint->null_value;
  thd->pop_internal_handler();
  return !fails && !complaints.met;
}

/* Which column of the old table each of the altered one was; UINT32_MAX: none. nullptr, or why they are not the same. */
const char *old_columns_of(const TABLE *altered, const Alter_inplace_info *alter, std::vector<uint32_t> *old_columns) {
  old_columns->assign(altered->s->fields, UINT32_MAX);
  List_iterator_fast<Create_field> definitions(alter->alter_info->create_list);
  for (uint column = 0; const Create_field *definition = definitions++; column++) {
    if (definition->field == nullptr || column >= altered->s->fields) continue;
    const Field *old_field = definition->field, *new_field = altered->field[column];
    if (!old_field->stored_in_db() && !new_field->stored_in_db()) continue;
    if (old_field->stored_in_db() != new_field->stored_in_db() || old_field->real_type() != new_field->real_type() ||
        !Charset(old_field->charset()).encoding_allows_reinterpret_as(new_field->charset()))
      return OTHER_FORM;
    (*old_columns)[column] = old_field->field_index;
  }
  return nullptr;
}

}  // namespace

std::shared_ptr<const KeyCodec> primary_codec_of(const TABLE *altered) {
  std::string error;
  if (altered->s->primary_key == MAX_KEY) return KeyCodec::create_hidden();
  return fitting_codec(altered, altered->s->primary_key, nullptr, &error);
}

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
    if (!same_length || !from->compression_method() != !to->compression_method()) return OTHER_FORM;
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
      case MYSQL_TYPE_BIT:  // some of its bits may stand among the NULL bits
        to->store(from->val_int(), true);
        break;
      default:
        memcpy(to->ptr, from->ptr, from->pack_length());
    }
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
      return "the default of a new column is not one value for all rows";
    if (field->type() == MYSQL_TYPE_GEOMETRY && !field->real_maybe_null() && field->default_value == nullptr)
      return "a GEOMETRY column that is NOT NULL has no default";
    // 0: as given; 3: a DATETIME became a TIME or DATE.
    const int stored = field->set_default();
    if (stored != 0 && stored != 3) return "the default of a new column does not fit it";
    if (checks && field->check_constraint != nullptr && !keeps_its_constraint(thd, altered, *field))
      return "the rows have to be checked against the new constraint";
  }
  return nullptr;
}

const char *AlteredRows::work_out_anew(const TABLE *table, const TABLE *altered, const Alter_inplace_info *alter) {
  std::string error;
  primary = primary_codec_of(altered);
  if (primary == nullptr) return CANNOT;
  for (uint i = 0; i < altered->s->keys; i++)
    if (i != altered->s->primary_key && fitting_codec(altered, i, primary.get(), &error) == nullptr) return CANNOT;
  history = RowHistory();
  rows = RowCodec::create(altered, primary, TableMetadata().schema_version, nullptr, &error);
  return rows == nullptr ? CANNOT : RecordCopier().match(table, altered, alter);
}

const char *AlteredRows::work_out(const TABLE *altered, const Alter_inplace_info *alter, const Share &share) {
  std::string error;
  primary = primary_codec_of(altered);
  if (primary == nullptr) return CANNOT;
  const RowCodec &old_rows = share.rows();
  std::vector<uint32_t> old_columns;
  if (const char *reason = old_columns_of(altered, alter, &old_columns)) return reason;

  std::unique_ptr<RowCodec> plain = RowCodec::create(altered, primary, old_rows.schema_version(), nullptr, &error);
  if (plain == nullptr) return CANNOT;
  if (!plain->same_form(old_rows, old_columns))
    plain = RowCodec::create(altered, primary, old_rows.schema_version() + 1, nullptr, &error);
  if (plain == nullptr) return CANNOT;

  history = share.history();
  if (const char *reason = plain->inherit(old_rows, old_columns, altered->record[0], &history)) return reason;
  std::vector<uint8_t> bytes;
  history.encode(&bytes);
  if (bytes.size() > HISTORY_BYTES_MAX) return "what has to be remembered of earlier forms of rows is too long";
  rows = RowCodec::create(altered, primary, plain->schema_version(), &history, &error);
  return rows == nullptr ? CANNOT : nullptr;
}

}  // namespace teak
