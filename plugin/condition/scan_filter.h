/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* ScanFilter: a condition by which a scan of a table passes over pages without matching rows. The server checks each row that
   the scan returns, so parts of the condition that the engine cannot evaluate are left out. */

#ifndef TEAK_CONDITION_SCAN_FILTER_H
#define TEAK_CONDITION_SCAN_FILTER_H

#include "base/server_version.h"

#include "base/core.h"
#include "condition/pushed_columns.h"
#include "condition/pushed_condition.h"

namespace teak {

class ScanFilter {
 public:
  ScanFilter(TABLE *table, const RowCodec &rows, const KeyCodec &primary)
      : rows_(rows), columns_(table, rows, primary) {}
  ~ScanFilter();
  ScanFilter(const ScanFilter &) = delete;
  ScanFilter &operator=(const ScanFilter &) = delete;

  /* Opens the filter for scans of the table's rows. False: the engine can evaluate no part of the condition, or cannot open the
     filter; then the scan returns all rows. */
  bool open(teak_table *table, const COND *condition);
  /* Appends the parts of the condition that the engine evaluates, as the server prints them. */
  void describe(String *text) const;
  /* Evaluates conditions of strings in the table's row buffer. */
  teak_page_filter *engine_filter() const { return filter_; }

 private:
  static bool accepts(void *context, size_t condition, teak_slice text);

  const RowCodec &rows_;
  PushedColumns columns_;
  PushedCondition condition_{&columns_};
  teak_page_filter *filter_ = nullptr;
};

}  // namespace teak

#endif
