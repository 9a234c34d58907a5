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

/* What the bytes of a column mean, as far as ALTER TABLE can change it without writing the rows. */
struct StoredType {
  enum class Kind : uint8_t {
    Current = 0,  // only in a RowHistory: as in the current table
    // A RowHistory stores these.
    Unsigned = 1,  // a little-endian integer
    Decimal = 2,   // a packed decimal number; the parameter is its number of digits after the point
    Binary = 3,    // BINARY: the value has zeros up to the length in the parameter
    Char = 4,      // CHAR: spaces at the end do not belong to the value
    // These are never replaced by others.
    Signed,    // a little-endian integer in two's complement
    DateTime,  // seconds of as many bytes as the parameter says, and a fraction: two decimal digits for each byte
    Time,      // the same, but it may be negative
    Plain,
  };
  static constexpr uint32_t KINDS_STORED = 5;
  static constexpr uint32_t DIGITS_MAX = 38;
  static constexpr uint32_t BINARY_BYTES_MAX = 255;

  Kind kind = Kind::Current;
  uint32_t parameter = 0;

  bool is_storable() const { return static_cast<uint32_t>(kind) < KINDS_STORED; }
  /* Whether a table's metadata may have this parameter. */
  bool is_valid() const {
    if (kind == Kind::Decimal) return parameter <= DIGITS_MAX;
    if (kind == Kind::Binary) return parameter != 0 && parameter <= BINARY_BYTES_MAX;
    return parameter == 0;
  }
};

/* Layout of the columns of a value: fixed widths in stored order, then variable ones. */
struct ColumnLayout {
  static constexpr uint32_t VARIABLE = UINT32_MAX;
  static constexpr uint32_t NEVER_NULL = UINT32_MAX;
  static constexpr uint32_t DROPPED = UINT32_MAX;
  struct Column {
    uint32_t column;    // position in the table; in a RowHistory DROPPED for a dropped column
    uint32_t width;     // bytes, or VARIABLE
    uint32_t null_bit;  // bit in the null area (byte = bit / 8, least significant first), or NEVER_NULL
    StoredType type;    // in a RowHistory: if an ALTER TABLE has replaced it since
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
