/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* RecordCopier: copies the first record of a table to that of the altered table. Bytes are copied unchecked, because
   rows may have a zero date that the current sql_mode rejects. */

#ifndef TEAK_ALTER_RECORD_COPIER_H
#define TEAK_ALTER_RECORD_COPIER_H

#include "base/server_version.h"

#include <vector>

namespace teak {

/* Copies nothing if match() was not called. OPTIMIZE TABLE does not call it, because its altered table is the
   table itself, with the same record. */
class RecordCopier {
 public:
  /* Both tables must outlive the copier. Returns nullptr, or the reason why the server must copy the rows. */
  const char *match(const TABLE *table, const TABLE *altered, const Alter_inplace_info *alter);
  /* Copies the record. Returns a NOT NULL column whose value would be NULL, or nullptr. */
  Field *copy() const;

 private:
  struct Column {
    Field *from, *to;
  };
  std::vector<Column> columns_;
};

}  // namespace teak

#endif
