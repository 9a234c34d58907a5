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

#include "format/bytes.h"
#include "format/row_codec.h"

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

    /* Whether stored values of the other column can be read as this one. */
    bool takes(const Variable &other) const {
      return kind == other.kind && pad == other.pad && bytes_max >= other.bytes_max;
    }
  };
  struct Place {  // of a column in the record
    uint32_t offset;
    uint32_t width;  // or ColumnLayout::VARIABLE
    uint32_t null_offset;
    uint32_t variable;  // index among the variable columns
    uint8_t null_bit;   // 0: NOT NULL
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
  size_t run_bytes = 0;        // of all runs
  size_t fixed_bytes_max = 0;  // header, NULL area, runs, nullables
  ColumnLayout layout;
  std::vector<Place> places;  // of the layout's columns
  bool bits_in_null_area = false;

  static std::unique_ptr<RowPlan> create(const TABLE *table, std::shared_ptr<const KeyCodec> primary,
                                         uint32_t schema_version, std::string *error);
};

}  // namespace teak

#endif
