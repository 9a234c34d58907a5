/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* What ALTER TABLE can do without copying the table, and at what price:

     INSTANT  what the engine stores stays as it is: names, defaults, comments, longer VARCHAR, another collation, more
              values of an ENUM, virtual columns, the codec of new pages; or it is read in another way, see
              altered_rows.cc: columns are added, dropped or moved, or may be NULL
     NOCOPY   secondary keys are added or dropped, see alter_build.cc; writers go on unless a new key must be
              unique or is on a virtual column
     INPLACE  rows and keys are written anew, sorted and past the log, see alter_rebuild.cc; nobody else writes

   Everything else is copied by the server, and the reason is said. Whether rows can be read under the new definition is not
   guessed from the clauses: the codecs of both are compared. */

#include "alter/alter_context.h"
#include "base/errors.h"
#include "handler/ha_teak.h"
#include "table/definition.h"

#include <strings.h>

namespace teak {

namespace {

/* Nothing of this reaches the engine. */
constexpr alter_table_operations METADATA_OPERATIONS =
    ALTER_COLUMN_NAME | ALTER_RENAME_COLUMN | ALTER_CHANGE_COLUMN_DEFAULT | ALTER_COLUMN_DEFAULT | ALTER_COLUMN_OPTION |
    ALTER_COLUMN_COLUMN_FORMAT | ALTER_COLUMN_STORAGE_TYPE | ALTER_COLUMN_ORDER | ALTER_CHANGE_CREATE_OPTION |
    ALTER_OPTIONS | ALTER_DROP_CHECK_CONSTRAINT | ALTER_PARTITIONED | ALTER_RENAME | ALTER_RENAME_INDEX |
    ALTER_CHANGE_INDEX_COMMENT | ALTER_INDEX_IGNORABILITY | ALTER_INDEX_ORDER |
    // Columns whose bytes change are named besides.
    ALTER_CONVERT_TO;

/* The record changes, what is stored may not. */
constexpr alter_table_operations VIRTUAL_OPERATIONS =
    ALTER_ADD_VIRTUAL_COLUMN | ALTER_DROP_VIRTUAL_COLUMN | ALTER_VIRTUAL_COLUMN_ORDER | ALTER_VIRTUAL_GCOL_EXPR;
constexpr alter_table_operations WIDENING_OPERATIONS = ALTER_COLUMN_TYPE_CHANGE_BY_ENGINE | ALTER_COLUMN_INDEX_LENGTH;
constexpr alter_table_operations STORED_OPERATIONS =
    ALTER_ADD_STORED_BASE_COLUMN | ALTER_DROP_STORED_COLUMN | ALTER_STORED_COLUMN_ORDER | ALTER_COLUMN_NULLABLE;
constexpr alter_table_operations LAYOUT_OPERATIONS = VIRTUAL_OPERATIONS | WIDENING_OPERATIONS | STORED_OPERATIONS;

constexpr alter_table_operations ADD_KEY_OPERATIONS = ALTER_ADD_NON_UNIQUE_NON_PRIM_INDEX | ALTER_ADD_UNIQUE_INDEX;
constexpr alter_table_operations DROP_KEY_OPERATIONS = ALTER_DROP_NON_UNIQUE_NON_PRIM_INDEX | ALTER_DROP_UNIQUE_INDEX;
constexpr alter_table_operations KEY_OPERATIONS = ADD_KEY_OPERATIONS | DROP_KEY_OPERATIONS;

/* Rows are written anew. */
constexpr alter_table_operations REBUILD_OPERATIONS = ALTER_RECREATE | ALTER_ADD_PK_INDEX | ALTER_DROP_PK_INDEX |
                                                      ALTER_COLUMN_NOT_NULLABLE | ALTER_DROP_SYSTEM_VERSIONING;

struct Reason {
  alter_table_operations operations;
  const char *text;
};

constexpr const char *UNKNOWN_KEY_FORM = "a new key is of a kind that Teak does not have";
constexpr const char *PRIMARY_ORDER = "rows are kept in the order of the primary key";

/* Why an operation writes rows anew, or copies; the first that fits is said. */
constexpr Reason REASONS[] = {
    {ALTER_RECREATE, "FORCE and ENGINE write the table anew"},
    {ALTER_ORDER, "ORDER BY writes the rows in another order"},
    {ALTER_ADD_SYSTEM_VERSIONING | ALTER_DROP_SYSTEM_VERSIONING | ALTER_COLUMN_UNVERSIONED, "system versioning"},
    {ALTER_ADD_PK_INDEX | ALTER_DROP_PK_INDEX, PRIMARY_ORDER},
    {ALTER_ADD_FOREIGN_KEY | ALTER_DROP_FOREIGN_KEY, "FOREIGN KEY"},
    {ALTER_ADD_CHECK_CONSTRAINT, "the rows have to be checked against the new constraint"},
    {ALTER_ADD_STORED_GENERATED_COLUMN, "a stored generated column is computed for every row"},
    {ALTER_STORED_COLUMN_TYPE, "Cannot change column type"},
    // Its values may not fit the new one, which a copy finds out.
    {ALTER_VIRTUAL_COLUMN_TYPE, "Cannot change column type"},
    {ALTER_COLUMN_NOT_NULLABLE, "the rows have to be checked for NULL"},
    {ALTER_STORED_GCOL_EXPR | ALTER_COLUMN_VCOL, "values of a generated column are computed anew"},
    {ALTER_ADD_PERIOD | ALTER_DROP_PERIOD, "a period is added or dropped"},
};

const char *reason_of(alter_table_operations operations) {
  for (const Reason &reason : REASONS)
    if (operations & reason.operations) return reason.text;
  return nullptr;
}

const KEY *primary_of(const TABLE *table) {
  return table->s->primary_key == MAX_KEY ? nullptr : &table->key_info[table->s->primary_key];
}

bool on_virtual_column(const KEY &key) {
  for (uint i = 0; i < key.user_defined_key_parts; i++)
    if (!key.key_part[i].field->stored_in_db()) return true;
  return false;
}

bool in_a_key(const Field &field) {
  const TABLE_SHARE &share = *field.table->s;
  for (uint i = 0; i < share.keys; i++)
    for (uint part = 0; part < share.key_info[i].user_defined_key_parts; part++)
      if (share.key_info[i].key_part[part].field->field_index == field.field_index) return true;
  return false;
}

/* Whether a column may be of another character set or collation without a look at the rows: neither its bytes change, nor
   an order, a partition, a generated value or a constraint that depends on how they compare. */
bool may_be_read_in(const Field &field, const Column_definition &wanted) {
  return wanted.type_handler() == field.type_handler() &&
         Charset(field.charset()).encoding_allows_reinterpret_as(wanted.charset) && !in_a_key(field) &&
         !(field.flags & FIELD_IN_PART_FUNC_FLAG) && field.table->vfield == nullptr &&
         field.table->check_constraints == nullptr;
}

enum_alter_inplace_result copies(Alter_inplace_info *alter, const char *reason) {
  alter->unsupported_reason = reason;
  return HA_ALTER_INPLACE_NOT_SUPPORTED;
}

}  // namespace

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
    if (my_strcasecmp(system_charset_info, table->key_info[i].name.str, key->name.str) == 0) return i;
  return MAX_KEY;
}

/* Asked for EXCHANGE PARTITION alone. */
bool ha_teak::check_if_incompatible_data(HA_CREATE_INFO *info, uint table_changes) {
  return table_changes == IS_EQUAL_YES && info->data_file_name == nullptr && info->index_file_name == nullptr
             ? COMPATIBLE_DATA_YES
             : COMPATIBLE_DATA_NO;
}

enum_alter_inplace_result ha_teak::check_if_supported_inplace_alter(TABLE *altered, Alter_inplace_info *alter) {
  const alter_table_operations operations = alter->handler_flags;
  alter_table_operations possible = METADATA_OPERATIONS | LAYOUT_OPERATIONS | KEY_OPERATIONS | REBUILD_OPERATIONS;
  // Who turned the checks off asked for no look at the rows.
  if (ha_thd()->variables.option_bits & OPTION_NO_CHECK_CONSTRAINT_CHECKS) possible |= ALTER_ADD_CHECK_CONSTRAINT;
  if (operations & ~possible) return copies(alter, reason_of(operations & ~possible));
  if (alter->create_info->sequence || (alter->create_info->used_fields & HA_CREATE_USED_SEQUENCE))
    return copies(alter, "SEQUENCE");
  if (altered->versioned() && !table->versioned()) return copies(alter, "system versioning");
  // create() refuses it, or warns.
  if ((alter->create_info->used_fields & HA_CREATE_USED_ROW_FORMAT) &&
      foreign_row_format(alter->create_info) != nullptr)
    return copies(alter, "a ROW_FORMAT that Teak does not have");
  if (alter->create_info->data_file_name != nullptr || alter->create_info->index_file_name != nullptr)
    return copies(alter, "DATA DIRECTORY and INDEX DIRECTORY");

  const char *anew = reason_of(operations & REBUILD_OPERATIONS);  // why the rows are
  const KEY *old_primary = primary_of(table), *new_primary = primary_of(altered);
  if ((old_primary == nullptr) != (new_primary == nullptr) ||
      (new_primary != nullptr && old_key_of(table, alter, altered->s->primary_key) != table->s->primary_key))
    if (anew == nullptr) anew = PRIMARY_ORDER;

  const bool computes_anew = operations & ALTER_VIRTUAL_GCOL_EXPR;
  bool adds_unique = false, adds_on_virtual = false;
  const std::shared_ptr<const KeyCodec> primary = primary_codec_of(altered);
  if (primary == nullptr) return copies(alter, UNKNOWN_KEY_FORM);
  for (uint i = 0; i < altered->s->keys; i++) {
    const KEY &key = altered->key_info[i];
    const uint old_number = old_key_of(table, alter, i);
    if (old_number != MAX_KEY) {
      if (anew == nullptr && !has_same_entries(table->key_info[old_number], key))
        anew = "a key changes with a column of it";
      if (anew == nullptr && computes_anew && on_virtual_column(key))
        anew = "a key is on a generated column that changes";
      continue;
    }
    if (key.flags & HA_FULLTEXT) return copies(alter, "FULLTEXT KEY");
    if (key.flags & HA_SPATIAL) return copies(alter, "SPATIAL KEY");
    if (key.algorithm == HA_KEY_ALG_LONG_HASH) return copies(alter, "a unique key this long is checked row by row");
    if ((key.flags & HA_NOSAME) && alter->ignore)
      return copies(alter, my_get_err_msg(ER_ALTER_OPERATION_NOT_SUPPORTED_REASON_IGNORE));
    std::string error;
    if (i != altered->s->primary_key && fitting_codec(altered, i, primary.get(), &error) == nullptr)
      return copies(alter, UNKNOWN_KEY_FORM);
    adds_unique |= enforced_by_engine(key);
    adds_on_virtual |= on_virtual_column(key);
  }
  for (uint i = 0; i < table->s->keys; i++)
    if (table->key_info[i].algorithm == HA_KEY_ALG_LONG_HASH &&
        (anew != nullptr || (operations & (KEY_OPERATIONS | STORED_OPERATIONS))))
      return copies(alter, "a unique key this long comes with a column of its own");
  if (operations & ALTER_ADD_STORED_BASE_COLUMN) {
    if (alter->error_if_not_empty) return copies(alter, "a new column without a default may not be zero");
    if (const char *reason = evaluate_added_columns(ha_thd(), altered, alter)) return copies(alter, reason);
  }
  AlteredRows rows;
  if (anew == nullptr) anew = rows.work_out(altered, alter, *share_);
  if (anew != nullptr) {
    if (const char *reason = cannot_write_anew(altered, alter)) return copies(alter, reason);
    alter->unsupported_reason = anew;
    return HA_ALTER_INPLACE_COPY_LOCK;
  }

  if (!(operations & KEY_OPERATIONS)) return HA_ALTER_INPLACE_INSTANT;
  if (!(operations & ADD_KEY_OPERATIONS)) {
    alter->unsupported_reason = "DROP INDEX";
    return HA_ALTER_INPLACE_NOCOPY_NO_LOCK;
  }
  const char *lock_reason = nullptr;
  if (adds_unique)
    lock_reason = "a unique key is checked while nobody writes";
  else if (adds_on_virtual)
    lock_reason = "writers do not compute the generated columns of a key that is not there yet";
  else if (operations & LAYOUT_OPERATIONS)
    lock_reason = "columns change together with keys";
  const bool instant = alter->alter_info->algorithm(ha_thd()) == Alter_info::ALTER_TABLE_ALGORITHM_INSTANT;
  alter->unsupported_reason = instant || lock_reason == nullptr ? "ADD INDEX" : lock_reason;
  return lock_reason == nullptr ? HA_ALTER_INPLACE_NOCOPY_NO_LOCK : HA_ALTER_INPLACE_NOCOPY_LOCK;
}

/* nullptr, or why the rows cannot be written anew but by the server. */
const char *ha_teak::cannot_write_anew(TABLE *altered, const Alter_inplace_info *alter) {
  if (alter->ignore) return my_get_err_msg(ER_ALTER_OPERATION_NOT_SUPPORTED_REASON_IGNORE);
  if (alter->handler_flags & ALTER_DROP_PK_INDEX && altered->s->primary_key == MAX_KEY)
    return my_get_err_msg(ER_ALTER_OPERATION_NOT_SUPPORTED_REASON_NOPK);
  // A copy makes another value of NULL then, and warns.
  if (alter->handler_flags & ALTER_COLUMN_NOT_NULLABLE && !ha_thd()->is_strict_mode())
    return my_get_err_msg(ER_ALTER_OPERATION_NOT_SUPPORTED_REASON_NOT_NULL);
  return AlteredRows().work_out_anew(table, altered, alter);
}

/* A longer VARCHAR is stored like a shorter one: a length and its bytes. */
bool ha_teak::can_convert_nocopy(const Field &field, const Column_definition &wanted) const {
  if (field.type_handler()->type_handler_for_implicit_upgrade() != field.type_handler()) return false;
  if (!wanted.compression_method() != !field.compression_method() || field.compression_method()) return false;
  const bool other_charset = wanted.charset != field.charset();
  if (other_charset && !may_be_read_in(field, wanted)) return false;
  if (field.flags & BLOB_FLAG) return other_charset && wanted.pack_length == field.pack_length();
  if (wanted.real_field_type() != field.real_type() || wanted.length < field.field_length) return false;
  if (field.real_type() == MYSQL_TYPE_STRING) return other_charset && wanted.char_length == field.char_length();
  return field.real_type() == MYSQL_TYPE_VARCHAR && wanted.char_length >= field.char_length();
}

/* The entries of a key on a VARCHAR that becomes longer stay as they are: what a key encodes ends itself. */
Compare_keys ha_teak::compare_key_parts(const Field &old_field, const Column_definition &new_field,
                                        const KEY_PART_INFO &old_part, const KEY_PART_INFO &new_part) const {
  if (old_field.is_equal(new_field)) return handler::compare_key_parts(old_field, new_field, old_part, new_part);
  if (!can_convert_nocopy(old_field, new_field)) return Compare_keys::NotEqual;
  const bool old_whole = old_part.length == old_field.key_length(), new_whole = new_part.length == new_field.length;
  if (old_whole != new_whole) return Compare_keys::NotEqual;
  if (old_part.length == new_part.length) return Compare_keys::Equal;
  return old_whole ? Compare_keys::EqualButKeyPartLength : Compare_keys::NotEqual;
}

}  // namespace teak
