/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* ProgressReport: the progress of a statement, as SHOW PROCESSLIST and the client show it. */

#ifndef TEAK_MONITOR_PROGRESS_H
#define TEAK_MONITOR_PROGRESS_H

#include <cstdint>

#include "base/core.h"

namespace teak {

class ProgressReport {
 public:
  /* If the server reports the progress of the statement, this reports that of the server's current stage. */
  ProgressReport(THD *thd, uint stages) : thd_(thd), is_own_(thd->progress.arena != thd->stmt_arena) {
    if (is_own_) thd_progress_init(thd, stages);
  }
  ~ProgressReport() {
    if (is_own_) thd_progress_end(thd_);
  }
  ProgressReport(const ProgressReport &) = delete;
  ProgressReport &operator=(const ProgressReport &) = delete;

  /* Callback of the engine. */
  static void report(void *thd, uint64_t done, uint64_t total) {
    thd_progress_report(static_cast<THD *>(thd), done, total == 0 ? 1 : total);
  }

 private:
  THD *const thd_;
  const bool is_own_;
};

}  // namespace teak

#endif
