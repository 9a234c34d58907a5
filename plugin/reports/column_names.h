/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* ColumnNames: which columns of the table the engine's columns of keys and values are. They follow from the server's
   definition of the table. */

#ifndef TEAK_REPORTS_COLUMN_NAMES_H
#define TEAK_REPORTS_COLUMN_NAMES_H

#include "base/server_version.h"

#include <cstdint>
#include <string>
#include <vector>

#include "base/core.h"

namespace teak {

class ColumnNames {
 public:
  /* Replaces the names by those of this table. Without names if the definition cannot be read without waiting, for example
     while the table is altered. */
  void read(THD *thd, teak_slice table);

  /* The column of the table. nullptr: not known, or none. Values have no names while the table may have rows that were
     written before an ALTER TABLE changed their form. */
  const std::string *of_key(uint32_t index, uint32_t column) const;
  const std::string *of_value(uint32_t column) const;

 private:
  void set(const TABLE *table, const std::string &path);

  std::vector<std::vector<std::string>> keys_;  // of each index
  std::vector<std::string> values_;             // without the row's header
};

}  // namespace teak

#endif
