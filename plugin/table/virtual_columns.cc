/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* See virtual_columns.h. */

#include "table/virtual_columns.h"

namespace teak {

bool compute_virtual_columns(TABLE *table, uint key, bool quietly) {
  const KEY &columns = table->key_info[key];
  for (uint part = 0; part < columns.user_defined_key_parts; part++) {
    // Uses the table's field, because the key part's field is shortened to the prefix.
    Field *field = table->field[columns.key_part[part].fieldnr - 1];
    if (!field->stored_in_db() && table->update_virtual_field(field, quietly)) return true;
  }
  return false;
}

}  // namespace teak
