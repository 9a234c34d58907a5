/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* RecordCopier: copies the first record of a table to that of the altered table. Bytes are copied unchecked, because rows
   may have a zero date that today's sql_mode refuses. */

#ifndef TEAK_ALTER_RECORD_COPIER_H
#define TEAK_ALTER_RECORD_COPIER_H

#include "base/server_version.h"

#include <vector>

namespace teak {

/* A copier without a match() copies nothing: the altered table is the table. */
class RecordCopier {
 public:
  /* Both tables must outlive the copier. Returns nullptr, or the reason why the server must copy the rows. */
  const char *match(const TABLE *table, const TABLE *altered, const Alter_inplace_info *alter);
  /* The column that would be NULL although it is NOT NULL, or nullptr. */
  Field *copy() const;

 private:
  struct Column {
    Field *from, *to;
  };
  std::vector<Column> columns_;
};

}  // namespace teak

#endif
