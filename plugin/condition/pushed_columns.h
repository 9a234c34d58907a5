/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* PushedColumns: the columns of a table that a pushed query reads, and what their numbers mean for the engine (see
   teak_aggregate_open() in teak_server.h). */

#ifndef TEAK_PUSHDOWN_PUSHED_COLUMNS_H
#define TEAK_PUSHDOWN_PUSHED_COLUMNS_H

#include "base/server_version.h"

#include <optional>
#include <vector>

#include "base/core.h"
#include "format/key_codec.h"
#include "format/row_codec.h"

namespace teak {

/* What the numbers of a column are. */
enum class NumberKind : uint8_t {
  None,          // the engine has no numbers, or they do not order as the server compares the values
  Integer,       // the value
  UnsignedLong,  // the value less 2^63
  Decimal,       // the value without its decimal point
  Time,          // DATE or DATETIME: bytes that order like the value
};

NumberKind number_kind(const Field *field);
/* Whether the numbers of two columns compare as the server compares the values. */
bool have_comparable_numbers(const Field *one, const Field *other);

/* Whether rows with the same value of the column have the same number or, with weights, byte string: then rows can be
   grouped by it. */
bool can_be_grouped(const Field *field);

bool has_floats(const Field *field);
/* Whether the column has byte strings, which can be grouped; has_blobs: which cannot (TEXT and BLOB). */
bool has_texts(const Field *field);
bool has_blobs(const Field *field);

class PushedColumns {
 public:
  PushedColumns(const TABLE *table, const RowCodec &rows, const KeyCodec &primary)
      : table_(table), rows_(rows), primary_(primary) {}

  /* The place of a column among those that the query reads; it is added if it is not there. Nothing if neither the values of
     rows contain it, nor their keys as an integer. */
  std::optional<uint32_t> place_of(const Field *field);
  /* As above, for an item that is a column. Sets the field. */
  std::optional<uint32_t> place_of(Item *item, const Field **field);

  /* Forgets all columns but the first `count`. */
  void forget_after(size_t count) { columns_.resize(count); }

  /* For each place the column. */
  const std::vector<teak_read_column> &columns() const { return columns_; }

 private:
  std::optional<teak_read_column> find(const Field *field) const;

  const TABLE *table_;
  const RowCodec &rows_;
  const KeyCodec &primary_;
  std::vector<teak_read_column> columns_;
};

/* The field of the table that an item is; nullptr: it is something else. */
const Field *field_of(Item *item, const TABLE *table);

}  // namespace teak

#endif
