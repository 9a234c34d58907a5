/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* RowPlan: the steps of RowCodec for each column, computed once per table. Plain data. */

#ifndef TEAK_FORMAT_ROW_PLAN_H
#define TEAK_FORMAT_ROW_PLAN_H

#include <my_global.h>

#include <memory>
#include <string>
#include <vector>

#include <m_ctype.h>

#include "base/core.h"
#include "format/bytes.h"
#include "format/row_codec.h"

class Field;
struct TABLE;

namespace teak {

struct RowPlan {
  static constexpr uint32_t CHAR_FIXED_BYTES_MAX = 8;  // longer CHAR and BINARY are stored without padding

  struct Run {  // adjacent NOT NULL columns of the record
    uint32_t offset;
    uint32_t length;
  };
  struct Nullable {  // of fixed width
    uint32_t offset;
    uint32_t width;
    uint32_t null_offset;
    uint8_t null_bit;
  };
  enum class Kind : uint8_t { Varchar, Char, WideChar, Blob };
  struct Variable {
    Kind kind;
    uint8_t length_bytes;  // in the record; of a Blob, in front of the pointer
    uint8_t pad;           // of a Char
    uint8_t null_bit;      // 0: NOT NULL
    uint32_t null_offset;
    uint32_t offset;
    uint32_t bytes_max;
    uint32_t column;
    CHARSET_INFO *collation;  // of a WideChar
  };
  struct Place {  // of a column in the record
    uint32_t offset;
    uint32_t width;  // or ColumnLayout::VARIABLE
    uint32_t null_offset;
    uint32_t variable;  // index among the variable columns
    uint8_t null_bit;   // 0: NOT NULL
    StoredType type = {StoredType::Kind::Plain, 0};
    CHARSET_INFO *collation = nullptr;  // of a CHAR
  };

  std::shared_ptr<const KeyCodec> primary;  // nullptr when no column is decodable from the primary key
  std::vector<uint32_t> primary_columns;    // columns decoded from the primary key
  uint32_t schema_version = 0;
  uint8_t header[VARINT_BYTES_MAX];
  size_t header_bytes = 0;
  std::vector<uint8_t> null_mask;  // bits of the record's NULL area that belong to stored columns
  std::vector<Run> runs;
  std::vector<Nullable> nullables;
  std::vector<Variable> variables;
  size_t run_bytes = 0;                                // of all runs
  std::vector<teak_column> fixed_columns;              // header and NULL area, then the columns of the runs
  std::vector<teak_optional_column> optional_columns;  // the nullables
  std::vector<uint32_t> variable_columns;              // the NULL bits of the variables, as teak.h numbers them
  struct Stored {                                      // a column of these three lists, after header and NULL area
    uint32_t column;
    bool generated;
  };
  std::vector<Stored> stored_columns;
  /* The same columns for the readers of some of them. A bit for each column of the table that is stored and not generated,
     and the number of each column, counted as the bits of teak_columns_new(); 0: not stored. */
  std::vector<uint64_t> stored_bits;
  std::vector<uint16_t> stored_numbers;
  std::vector<uint64_t> always_read;  // bits of teak_columns_new()
  size_t fixed_bytes_max = 0;         // header, NULL area, runs, nullables
  ColumnLayout layout;
  std::vector<Place> places;  // of the layout's columns
  bool bits_in_null_area = false;

  /* The variable column at a place, or nullptr. */
  const Variable *variable_of(const Place &place) const {
    return place.width == ColumnLayout::VARIABLE ? &variables[place.variable] : nullptr;
  }

  /* Where a column is in the record, and its type. */
  static Place place_of(const Field *field, const uchar *record);
  /* Of a column of variable width. */
  static Variable variable_at(const Field *field, const Place &place);

  /* Called when all stored columns are known. `fields`: the number of the table's columns. */
  void number_stored_columns(uint32_t fields);

  static std::unique_ptr<RowPlan> create(const TABLE *table, std::shared_ptr<const KeyCodec> primary,
                                         uint32_t schema_version, std::string *error);
};

}  // namespace teak

#endif
