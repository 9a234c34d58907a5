/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* The commit step of ALTER TABLE (see alter_prepare.h). */

#ifndef TEAK_ALTER_ALTER_COMMIT_H
#define TEAK_ALTER_ALTER_COMMIT_H

#include "base/server_version.h"

#include <vector>

#include "alter/alter_context.h"

namespace teak {

/* Returns the contexts to commit together: one for the table, or one for each partition. After this call the server
   does not commit the other partitions separately. */
std::vector<AlterContext *> take_alter_contexts(Alter_inplace_info *alter);

/* Commits the alterations of all contexts together, and ends them. Errors are raised for `open`. True: an error was
   raised. */
bool commit_alter(OpenTable &open, const std::vector<AlterContext *> &contexts);

void roll_back_alter(Alter_inplace_info *alter);

}  // namespace teak

#endif
