/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* See optimize_lock.h. */

#include "alter/optimize_lock.h"

#include "table_cache.h"

namespace teak {

OptimizeLock::OptimizeLock(THD *thd, TABLE *table)
    : thd_(thd), table_(table->s->tmp_table == NO_TMP_TABLE ? table : nullptr),
      lowered_(thd->locked_tables_mode == LTM_NONE ? MDL_SHARED_UPGRADABLE : MDL_SHARED_NO_READ_WRITE),
      is_exclusive_(table_ != nullptr) {}

void OptimizeLock::admit_others() {
  if (!is_exclusive_) return;
  // The server has marked the table's definition as outdated, so others would wait until this connection closes the
  // table. This is unnecessary because OPTIMIZE does not change the definition. While the lock is exclusive, only this
  // connection can have set the mark; later, FLUSH TABLES may have set it.
  TDC_element *cached = table_->s->tdc;
  mysql_mutex_lock(&cached->LOCK_table_share);
  cached->flushed = false;
  mysql_mutex_unlock(&cached->LOCK_table_share);
  table_->mdl_ticket->downgrade_lock(lowered_);
  is_exclusive_ = false;
}

bool OptimizeLock::exclude_others() {
  if (table_ == nullptr) return false;
  if (thd_->mdl_context.upgrade_shared_lock(table_->mdl_ticket, MDL_EXCLUSIVE, thd_->variables.lock_wait_timeout))
    return true;
  is_exclusive_ = true;
  table_->s->tdc->flush(thd_, false);
  return false;
}

}  // namespace teak
