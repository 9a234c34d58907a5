/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* See optimize_table.h. */

#include "alter/optimize_table.h"

#include "alter/alter_commit.h"
#include "alter/alter_context.h"
#include "alter/alter_prepare.h"
#include "alter/build_keys.h"
#include "alter/optimize_lock.h"
#include "alter/rebuild_table.h"
#include "monitor/progress.h"

namespace teak {

namespace {

/* As in ALTER TABLE: a bad value of a virtual column causes a warning, which strict mode turns into an error. */
class StrictValues {
 public:
  explicit StrictValues(THD *thd)
      : thd_(thd), abort_before_(thd->abort_on_warning), count_before_(thd->count_cuted_fields) {
    thd->abort_on_warning = thd->is_strict_mode();
    thd->count_cuted_fields = CHECK_FIELD_WARN;
  }
  ~StrictValues() {
    thd_->abort_on_warning = abort_before_;
    thd_->count_cuted_fields = count_before_;
  }
  StrictValues(const StrictValues &) = delete;
  StrictValues &operator=(const StrictValues &) = delete;

 private:
  THD *const thd_;
  const bool abort_before_;
  const enum_check_fields count_before_;
};

/* The statement reads and writes no more than background jobs may, and lets other statements read first. */
class BackgroundIo {
 public:
  explicit BackgroundIo(teak_alteration *alteration) { teak_alteration_begin_io(alteration, &scope_); }
  ~BackgroundIo() { teak_alteration_end_io(scope_); }
  BackgroundIo(const BackgroundIo &) = delete;
  BackgroundIo &operator=(const BackgroundIo &) = delete;

 private:
  teak_background_io *scope_ = nullptr;
};

/* True: an error was raised. */
bool rewrite(AlterContext &context, THD *thd, TABLE *table) {
  const StrictValues strict(thd);
  table->use_all_columns();
  const ProgressReport progress(thd, BUILD_STAGES);
  const BackgroundIo io(context.alteration);
  return rebuild_table(context, table);
}

}  // namespace

bool optimize_table(OpenTable &open, THD *thd) {
  OptimizeLock lock(thd, open.table());
  AlterContext context(open);
  if (prepare_optimize(context)) return true;
  lock.admit_others();
  if (rewrite(context, thd, open.table()) || lock.exclude_others()) return true;
  if (report_late_duplicates(context, open.table()) || commit_alter(open, {&context})) return true;
  open.share()->forget_row_history(std::move(context.rows.rows));
  return false;
}

}  // namespace teak
