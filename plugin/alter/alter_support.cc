/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* See alter_support.h. */

#include "alter/alter_support.h"

#include <string>
#include <vector>

#include "alter/altered_columns.h"
#include "alter/altered_keys.h"
#include "alter/altered_rows.h"
#include "alter/record_copier.h"
#include "base/encryption_keys.h"
#include "table/definition.h"

namespace teak {

namespace {

/* Operations that change neither stored rows nor entries of keys. */
constexpr alter_table_operations METADATA_OPERATIONS =
    ALTER_COLUMN_NAME | ALTER_RENAME_COLUMN | ALTER_CHANGE_COLUMN_DEFAULT | ALTER_COLUMN_DEFAULT | ALTER_COLUMN_OPTION |
    ALTER_COLUMN_COLUMN_FORMAT | ALTER_COLUMN_STORAGE_TYPE | ALTER_COLUMN_ORDER | ALTER_CHANGE_CREATE_OPTION |
    ALTER_OPTIONS | ALTER_DROP_CHECK_CONSTRAINT | ALTER_PARTITIONED | ALTER_RENAME | ALTER_RENAME_INDEX |
    ALTER_CHANGE_INDEX_COMMENT | ALTER_INDEX_IGNORABILITY | ALTER_INDEX_ORDER |
    // If the bytes of a column change, another flag is set, too.
    ALTER_CONVERT_TO;

/* Operations that change the record, but not always the stored row. */
constexpr alter_table_operations VIRTUAL_OPERATIONS =
    ALTER_ADD_VIRTUAL_COLUMN | ALTER_DROP_VIRTUAL_COLUMN | ALTER_VIRTUAL_COLUMN_ORDER | ALTER_VIRTUAL_GCOL_EXPR;
constexpr alter_table_operations WIDENING_OPERATIONS = ALTER_COLUMN_TYPE_CHANGE_BY_ENGINE | ALTER_COLUMN_INDEX_LENGTH;
constexpr alter_table_operations STORED_OPERATIONS =
    ALTER_ADD_STORED_BASE_COLUMN | ALTER_DROP_STORED_COLUMN | ALTER_STORED_COLUMN_ORDER | ALTER_COLUMN_NULLABLE;
constexpr alter_table_operations LAYOUT_OPERATIONS = VIRTUAL_OPERATIONS | WIDENING_OPERATIONS | STORED_OPERATIONS;

constexpr alter_table_operations ADD_KEY_OPERATIONS = ALTER_ADD_NON_UNIQUE_NON_PRIM_INDEX | ALTER_ADD_UNIQUE_INDEX;
constexpr alter_table_operations DROP_KEY_OPERATIONS = ALTER_DROP_NON_UNIQUE_NON_PRIM_INDEX | ALTER_DROP_UNIQUE_INDEX;
constexpr alter_table_operations KEY_OPERATIONS = ADD_KEY_OPERATIONS | DROP_KEY_OPERATIONS;

constexpr alter_table_operations REBUILD_OPERATIONS = ALTER_RECREATE | ALTER_ADD_PK_INDEX | ALTER_DROP_PK_INDEX |
                                                      ALTER_COLUMN_NOT_NULLABLE | ALTER_DROP_SYSTEM_VERSIONING;

struct Reason {
  alter_table_operations operations;
  const char *text;
};

constexpr const char *UNKNOWN_KEY_FORM = "Teak does not support the type of a new key";
constexpr const char *KEY_IS_REBUILT = "a changed column requires a rebuild of its key";
constexpr const char *PRIMARY_ORDER = "rows are stored in primary key order";

/* The reasons why an operation rewrites rows or copies the table. The first one that applies is reported. */
constexpr Reason REASONS[] = {
    {ALTER_RECREATE, "FORCE and ENGINE rewrite the table"},
    {ALTER_ORDER, "ORDER BY changes the order of the rows"},
    {ALTER_ADD_SYSTEM_VERSIONING | ALTER_DROP_SYSTEM_VERSIONING | ALTER_COLUMN_UNVERSIONED, "system versioning"},
    {ALTER_ADD_PK_INDEX | ALTER_DROP_PK_INDEX, PRIMARY_ORDER},
    {ALTER_ADD_FOREIGN_KEY | ALTER_DROP_FOREIGN_KEY, "FOREIGN KEY"},
    {ALTER_ADD_CHECK_CONSTRAINT, "existing rows must be checked against the new constraint"},
    {ALTER_ADD_STORED_GENERATED_COLUMN, "a stored generated column is computed for every row"},
    {ALTER_STORED_COLUMN_TYPE, "Cannot change column type"},
    // The values may not fit the new type; only a copy checks this.
    {ALTER_VIRTUAL_COLUMN_TYPE, "Cannot change column type"},
    {ALTER_COLUMN_NOT_NULLABLE, "existing rows must be checked for NULL"},
    {ALTER_STORED_GCOL_EXPR | ALTER_COLUMN_VCOL, "the values of a generated column are recomputed"},
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

/* The place of a column in the record of its table: its bytes, and its NULL bit. */
struct Place {
  my_ptrdiff_t bytes, null_byte;
  uint null_bit;

  explicit Place(const Field &field) {
    const uchar *record = field.table->record[0];
    bytes = field.ptr - record;
    null_byte = field.real_maybe_null() ? field.null_ptr - record : -1;
    null_bit = field.real_maybe_null() ? field.null_bit : 0;
  }
  bool operator==(const Place &other) const {
    return bytes == other.bytes && null_byte == other.null_byte && null_bit == other.null_bit;
  }
};

/* Whether records of both tables have the same form and the same columns. */
bool has_same_record(const TABLE &table, const TABLE &altered, const Alter_inplace_info *alter) {
  std::vector<uint32_t> old_columns;
  if (table.s->fields != altered.s->fields || table.s->reclength != altered.s->reclength ||
      old_columns_of(&altered, alter, &old_columns) != nullptr)
    return false;
  for (uint i = 0; i < table.s->fields; i++) {
    const Field &from = *table.field[i], &to = *altered.field[i];
    // The order and the expressions of virtual columns have flags of their own.
    const bool same_column = from.stored_in_db() ? old_columns[i] == i : !to.stored_in_db();
    if (!same_column || !(Place(from) == Place(to)) || from.real_type() != to.real_type() ||
        from.pack_length() != to.pack_length() || from.compression_method() != to.compression_method())
      return false;
  }
  return true;
}

}  // namespace

enum_alter_inplace_result AlterSupport::check() {
  if (const alter_table_operations impossible = operations_ & ~possible_operations()) {
    alter_->unsupported_reason = reason_of(impossible);
    return HA_ALTER_INPLACE_NOT_SUPPORTED;
  }
  const char *copy_reason = copy_reason_of_clauses();
  rebuild_reason_ = reason_of(operations_ & REBUILD_OPERATIONS);
  if (rebuild_reason_ == nullptr && changes_primary_key()) rebuild_reason_ = PRIMARY_ORDER;
  if (copy_reason == nullptr) copy_reason = copy_reason_of_keys();
  if (copy_reason == nullptr) copy_reason = copy_reason_of_long_unique_keys();
  if (copy_reason == nullptr) copy_reason = copy_reason_of_added_columns();
  if (copy_reason == nullptr && !rebuilds()) rebuild_reason_ = AlteredRows().plan(altered_, alter_, *open_.share());
  if (copy_reason == nullptr && rebuilds()) copy_reason = copy_reason_of_rebuild();
  if (copy_reason != nullptr) {
    alter_->unsupported_reason = copy_reason;
    return HA_ALTER_INPLACE_NOT_SUPPORTED;
  }
  if (rebuilds()) {
    alter_->unsupported_reason = rebuild_reason_;
    return has_online_rebuild() ? HA_ALTER_INPLACE_COPY_NO_LOCK : HA_ALTER_INPLACE_COPY_LOCK;
  }
  return result_of_keys();
}

alter_table_operations AlterSupport::possible_operations() const {
  alter_table_operations possible = METADATA_OPERATIONS | LAYOUT_OPERATIONS | KEY_OPERATIONS | REBUILD_OPERATIONS;
  // If CHECK constraints are turned off, existing rows need no check.
  if (open_.thd()->variables.option_bits & OPTION_NO_CHECK_CONSTRAINT_CHECKS) possible |= ALTER_ADD_CHECK_CONSTRAINT;
  return possible;
}

const char *AlterSupport::copy_reason_of_clauses() const {
  const HA_CREATE_INFO &info = *alter_->create_info;
  if (info.sequence || (info.used_fields & HA_CREATE_USED_SEQUENCE)) return "SEQUENCE";
  if (altered_->versioned() && !table_->versioned()) return "system versioning";
  // CREATE TABLE rejects such a ROW_FORMAT in strict mode, and otherwise warns.
  if ((info.used_fields & HA_CREATE_USED_ROW_FORMAT) && unsupported_row_format(&info) != nullptr)
    return "Teak does not support this ROW_FORMAT";
  if (is_forbidden_plain(altered_->s)) return "ENCRYPTED=NO (teak_encrypt_tables=FORCE)";
  const uint32_t key_id = encryption_key_of(altered_->s);
  if (key_id != 0 && newest_key_version(key_id) == 0) return "ENCRYPTION_KEY_ID: the server has no such key";
  if (info.data_file_name != nullptr || info.index_file_name != nullptr) return "DATA DIRECTORY and INDEX DIRECTORY";
  return nullptr;
}

bool AlterSupport::changes_primary_key() const {
  const KEY *old_primary = primary_of(table_), *new_primary = primary_of(altered_);
  if ((old_primary == nullptr) != (new_primary == nullptr)) return true;
  return new_primary != nullptr && old_key_of(table_, alter_, altered_->s->primary_key) != table_->s->primary_key;
}

const char *AlterSupport::copy_reason_of_keys() {
  const std::shared_ptr<const KeyCodec> primary = primary_codec_of(altered_);
  if (primary == nullptr) return UNKNOWN_KEY_FORM;
  for (uint i = 0; i < altered_->s->keys; i++) {
    const KEY &key = altered_->key_info[i];
    const uint old_number = old_key_of(table_, alter_, i);
    if (old_number == MAX_KEY) {
      if (const char *reason = copy_reason_of_new_key(i, *primary)) return reason;
      continue;
    }
    if (!rebuilds() && !has_same_entries(table_->key_info[old_number], key)) rebuild_reason_ = KEY_IS_REBUILT;
    // The server does not notice a changed option of a key of a partitioned table.
    if (!rebuilds() && is_clustering(altered_->s, i) != open_.share()->key(old_number).clustering)
      rebuild_reason_ = "the option CLUSTERING of a key changes";
    if (!rebuilds() && (operations_ & ALTER_VIRTUAL_GCOL_EXPR) && is_on_virtual_column(key))
      rebuild_reason_ = "a key contains a generated column that changes";
  }
  return nullptr;
}

const char *AlterSupport::copy_reason_of_new_key(uint number, const KeyCodec &primary) {
  const KEY &key = altered_->key_info[number];
  if (const char *kind = special_kind(key)) return kind;
  if (key.algorithm == HA_KEY_ALG_LONG_HASH) return "a long UNIQUE key is checked row by row";
  if ((key.flags & HA_NOSAME) && alter_->ignore) return my_get_err_msg(ER_ALTER_OPERATION_NOT_SUPPORTED_REASON_IGNORE);
  std::string error;
  if (number != altered_->s->primary_key && create_checked_key_codec(altered_, number, &primary, &error) == nullptr)
    return UNKNOWN_KEY_FORM;
  return nullptr;
}

const char *AlterSupport::copy_reason_of_long_unique_keys() const {
  if (!rebuilds() && !(operations_ & (KEY_OPERATIONS | STORED_OPERATIONS))) return nullptr;
  for (uint i = 0; i < table_->s->keys; i++)
    if (table_->key_info[i].algorithm == HA_KEY_ALG_LONG_HASH) return "a long UNIQUE key has a hidden column";
  return nullptr;
}

const char *AlterSupport::copy_reason_of_added_columns() {
  if (!(operations_ & ALTER_ADD_STORED_BASE_COLUMN)) return nullptr;
  if (alter_->error_if_not_empty) return "a new column has no default, and zero is not a valid value";
  return evaluate_added_columns(open_.thd(), altered_, alter_);
}

/* Returns nullptr, or the reason why only the server can rewrite the rows. */
const char *AlterSupport::copy_reason_of_rebuild() {
  if (alter_->ignore) return my_get_err_msg(ER_ALTER_OPERATION_NOT_SUPPORTED_REASON_IGNORE);
  if (operations_ & ALTER_DROP_PK_INDEX && altered_->s->primary_key == MAX_KEY)
    return my_get_err_msg(ER_ALTER_OPERATION_NOT_SUPPORTED_REASON_NOPK);
  // Without strict mode, a copy replaces NULL by another value and warns.
  if (operations_ & ALTER_COLUMN_NOT_NULLABLE && !open_.thd()->is_strict_mode())
    return my_get_err_msg(ER_ALTER_OPERATION_NOT_SUPPORTED_REASON_NOT_NULL);
  if (const char *reason = AlteredRows().plan_rebuild(altered_)) return reason;
  return RecordCopier().match(table_, altered_, alter_);
}

/* Whether concurrent writers can encode the rows of the altered table: their record has the same form. */
bool AlterSupport::has_online_rebuild() const {
  constexpr alter_table_operations POSSIBLE =
      METADATA_OPERATIONS | KEY_OPERATIONS | ALTER_RECREATE | ALTER_ADD_PK_INDEX | ALTER_DROP_PK_INDEX;
  return !(operations_ & ~POSSIBLE) && has_same_record(*table_, *altered_, alter_);
}

/* The server drops and adds a key if its entries change with the type of a column. */
bool AlterSupport::rebuilds_key_of_changed_column() const {
  if (!(operations_ & ALTER_COLUMN_TYPE_CHANGE_BY_ENGINE)) return false;
  for (uint i = 0; i < alter_->index_add_count; i++)
    for (uint j = 0; j < alter_->index_drop_count; j++)
      if (is_same_name(alter_->key_info_buffer[alter_->index_add_buffer[i]].name, alter_->index_drop_buffer[j]->name))
        return true;
  return false;
}

enum_alter_inplace_result AlterSupport::result_of_keys() {
  if (!(operations_ & KEY_OPERATIONS)) return HA_ALTER_INPLACE_INSTANT;
  if (!(operations_ & ADD_KEY_OPERATIONS)) {
    alter_->unsupported_reason = "DROP INDEX";
    return HA_ALTER_INPLACE_NOCOPY_NO_LOCK;
  }
  const char *lock_reason = nullptr;
  if (operations_ & LAYOUT_OPERATIONS) lock_reason = "columns and keys change in one statement";
  if (rebuilds_key_of_changed_column()) {
    alter_->unsupported_reason = KEY_IS_REBUILT;
    return HA_ALTER_INPLACE_NOCOPY_LOCK;
  }
  const bool instant = alter_->alter_info->algorithm(open_.thd()) == Alter_info::ALTER_TABLE_ALGORITHM_INSTANT;
  alter_->unsupported_reason = instant || lock_reason == nullptr ? "ADD INDEX" : lock_reason;
  return lock_reason == nullptr ? HA_ALTER_INPLACE_NOCOPY_NO_LOCK : HA_ALTER_INPLACE_NOCOPY_LOCK;
}

}  // namespace teak
