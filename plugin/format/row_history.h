/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* RowHistory: what ALTER TABLE has made of the rows' form without writing them anew. A row keeps the form, and the schema
   version, that it was written with; this says how the rows of each earlier version lie, in terms of the table as it is now.
   It is part of a table's metadata; its bytes are described in docs/file_format.md, 'Catalogue'. Plain data. */

#ifndef TEAK_FORMAT_ROW_HISTORY_H
#define TEAK_FORMAT_ROW_HISTORY_H

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace teak {

/* How the columns of a value lie in it, for readers that know no SQL: fixed widths in stored order, then variable. */
struct ColumnLayout {
  static constexpr uint32_t VARIABLE = UINT32_MAX;
  static constexpr uint32_t NEVER_NULL = UINT32_MAX;
  static constexpr uint32_t DROPPED = UINT32_MAX;
  struct Column {
    uint32_t column;    // position in the table; in a RowHistory DROPPED when the table has it no more
    uint32_t width;     // bytes, or VARIABLE
    uint32_t null_bit;  // bit in the null area (byte = bit / 8, least significant first), or NEVER_NULL
  };
  uint32_t null_area_bytes = 0;
  std::vector<Column> columns;  // fixed NOT NULL, fixed nullable, variable: the order of the value
};

struct RowHistory {
  static constexpr size_t VERSIONS_MAX = 255;

  struct Version {
    uint32_t version = 0;
    ColumnLayout layout;
  };
  /* What a column holds in rows of versions that lack it. */
  struct Fill {
    uint32_t column = 0;  // of the table as it is now
    bool null = false;
    std::vector<uint8_t> bytes;  // as a value stores them
  };

  std::vector<Version> versions;  // ascending
  std::vector<Fill> fills;        // ascending by column

  bool empty() const { return versions.empty(); }
  const Fill *fill_of(uint32_t column) const;

  /* Appends the bytes. */
  void encode(std::vector<uint8_t> *out) const;
  /* False, with a sentence, when the bytes are not those of a history. Whether it is that of a table, EarlierRows finds out. */
  static bool decode(const uint8_t *bytes, size_t length, RowHistory *history, std::string *error);
};

}  // namespace teak

#endif
