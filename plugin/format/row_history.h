/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* RowHistory: the earlier row formats of a table. An instant ALTER TABLE writes no rows: each row remains in the
   format and schema version in which it was written. The history describes the rows of each earlier version in terms
   of the current table. It is part of a table's metadata; its bytes are specified in docs/design/format.md,
   'Catalogue'. Plain data. */

#ifndef TEAK_FORMAT_ROW_HISTORY_H
#define TEAK_FORMAT_ROW_HISTORY_H

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace teak {

/* Layout of the columns of a value, without SQL types: fixed widths in stored order, then variable ones. */
struct ColumnLayout {
  static constexpr uint32_t VARIABLE = UINT32_MAX;
  static constexpr uint32_t NEVER_NULL = UINT32_MAX;
  static constexpr uint32_t DROPPED = UINT32_MAX;
  struct Column {
    uint32_t column;    // position in the table; in a RowHistory DROPPED for a dropped column
    uint32_t width;     // bytes, or VARIABLE
    uint32_t null_bit;  // bit in the null area (byte = bit / 8, least significant first), or NEVER_NULL
  };
  uint32_t null_area_bytes = 0;
  std::vector<Column> columns;  // fixed NOT NULL, fixed nullable, variable: the order in the value
};

struct RowHistory {
  static constexpr size_t VERSIONS_MAX = 255;

  struct Version {
    uint32_t version = 0;
    ColumnLayout layout;
  };
  /* The value of a column for rows of versions that do not have the column. */
  struct Fill {
    uint32_t column = 0;  // of the current table
    bool null = false;
    std::vector<uint8_t> bytes;  // as stored in a value
  };

  std::vector<Version> versions;  // ascending
  std::vector<Fill> fills;        // ascending by column

  bool empty() const { return versions.empty(); }
  const Fill *fill_of(uint32_t column) const;

  void encode(std::vector<uint8_t> *out) const;
  /* Returns false, with a message, if the bytes are not a valid history. Does not check that it matches the table;
     EarlierRows does. */
  static bool decode(const uint8_t *bytes, size_t length, RowHistory *history, std::string *error);
};

}  // namespace teak

#endif
