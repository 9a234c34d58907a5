/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* Changes of the type of a column: whether the stored values can be read as values of the new type, and whether entries of
   keys remain. */

#ifndef TEAK_ALTER_COLUMN_CHANGE_H
#define TEAK_ALTER_COLUMN_CHANGE_H

#include "base/server_version.h"

namespace teak {

/* handler::can_convert_nocopy(): whether stored values of a column are valid in its new definition. */
bool is_storage_compatible(const Field &field, const Column_definition &wanted);

/* handler::compare_key_parts() of a column whose type changes. */
Compare_keys compare_changed_key_parts(const Field &field, const Column_definition &wanted,
                                       const KEY_PART_INFO &old_part, const KEY_PART_INFO &new_part);

}  // namespace teak

#endif
