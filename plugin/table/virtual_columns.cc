/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* See virtual_columns.h. */

#include "table/virtual_columns.h"

namespace teak {

namespace {

/* Restores the table's temporary bitmap. The server's computation of a virtual column clears it, but a sort reads rows
   with it as the set of columns. */
class SavedTemporarySet {
 public:
  explicit SavedTemporarySet(TABLE *table) : set_(&table->tmp_set) {
    static_assert(sizeof(saved_) * 8 >= MAX_FIELDS, "the largest table must fit");
    memcpy(saved_, set_->bitmap, bytes());
  }
  ~SavedTemporarySet() { memcpy(set_->bitmap, saved_, bytes()); }
  SavedTemporarySet(const SavedTemporarySet &) = delete;
  SavedTemporarySet &operator=(const SavedTemporarySet &) = delete;

 private:
  size_t bytes() const { return no_words_in_map(set_) * sizeof(my_bitmap_map); }

  MY_BITMAP *const set_;
  my_bitmap_map saved_[MAX_FIELDS / 8 / sizeof(my_bitmap_map)];
};

}  // namespace

bool compute_virtual_columns(TABLE *table, uint key, bool quietly) {
  const SavedTemporarySet saved(table);
  const KEY &columns = table->key_info[key];
  for (uint part = 0; part < columns.user_defined_key_parts; part++) {
    // Uses the table's field, because the key part's field is shortened to the prefix.
    Field *field = table->field[columns.key_part[part].fieldnr - 1];
    if (!field->stored_in_db() && table->update_virtual_field(field, quietly)) return true;
  }
  return false;
}

std::vector<uint> virtual_columns_of(const TABLE *table, uint key) {
  std::vector<uint> fields;
  const KEY &columns = table->key_info[key];
  for (uint part = 0; part < columns.user_defined_key_parts; part++) {
    const uint field = columns.key_part[part].fieldnr - 1U;
    if (!table->field[field]->stored_in_db()) fields.push_back(field);
  }
  return fields;
}

void compute_virtual_columns(TABLE *table, const std::vector<uint> &fields, const uchar *record) {
  const SavedTemporarySet saved(table);
  // The expressions read the table's fields.
  const my_ptrdiff_t offset = record - table->record[0];
  const auto move_fields = [table](my_ptrdiff_t by) {
    if (by != 0)
      for (Field **field = table->field; *field != nullptr; field++) (*field)->move_field_offset(by);
  };
  move_fields(offset);
  for (uint field : fields) table->update_virtual_field(table->field[field], true);
  move_fields(-offset);
}

}  // namespace teak
