/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* See alter_inplace.h. */

#include "alter/alter_inplace.h"

#include "alter/alter_context.h"
#include "alter/altered_columns.h"
#include "alter/build_keys.h"
#include "alter/rebuild_table.h"
#include "monitor/progress.h"

namespace teak {

bool alter_in_place(TABLE *altered, Alter_inplace_info *alter) {
  auto *context = static_cast<AlterContext *>(alter->handler_ctx);
  if (context == nullptr || (context->added.empty() && !context->rebuild)) return false;
  THD *thd = context->open.thd();
  // The new columns of the altered table's record may still contain values that the previous partition has left.
  if (context->rebuild && (alter->handler_flags & ALTER_ADD_STORED_BASE_COLUMN))
    if (const char *reason = evaluate_added_columns(thd, altered, alter)) {
      my_error(ER_NOT_SUPPORTED_YET, MYF(0), reason);
      return true;
    }
  const ProgressReport progress(thd, BUILD_STAGES);
  return context->rebuild ? rebuild_table(*context, altered) : build_keys(*context, altered);
}

}  // namespace teak
