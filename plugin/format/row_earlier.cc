/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* See row_earlier.h. */

#include "format/row_earlier.h"

#include <alloca.h>

#include <algorithm>

#include "format/row_values.h"

namespace teak {

std::unique_ptr<EarlierRows> EarlierRows::create(const RowPlan &plan, const RowHistory &history, std::string *error) {
  std::unique_ptr<EarlierRows> rows(new EarlierRows(plan, history));
  for (const RowHistory::Version &version : rows->history_.versions)
    if (!rows->add(version, error)) return nullptr;
  return rows;
}

bool EarlierRows::add(const RowHistory::Version &version, std::string *error) {
  auto refuse = [&](uint32_t column, const char *what) {
    *error = "the description of rows of schema version " + std::to_string(version.version) +
             " does not fit the table: column " + std::to_string(column) + " " + what;
    return false;
  };
  if (version.version >= plan_.schema_version) return refuse(0, "is of a later version");
  Form form;
  form.version = version.version;
  form.null_mask.resize(version.layout.null_area_bytes);
  std::vector<bool> found(plan_.places.size());
  for (const ColumnLayout::Column &stored : version.layout.columns) {
    Column column = {NONE, stored.width};
    if (stored.null_bit != ColumnLayout::NEVER_NULL) {
      column.null_byte = stored.null_bit / 8;
      column.null_bit = static_cast<uint8_t>(1U << stored.null_bit % 8);
      if (column.null_byte >= form.null_mask.size())
        return refuse(stored.column, "has a NULL bit outside of the NULL area");
      form.null_mask[column.null_byte] |= column.null_bit;
    }
    if (stored.column != ColumnLayout::DROPPED) {
      for (uint32_t i = 0; i < plan_.places.size() && column.place == NONE; i++)
        if (plan_.layout.columns[i].column == stored.column) column.place = i;
      if (column.place == NONE) return refuse(stored.column, "is not in the rows");
      if (found[column.place]) return refuse(stored.column, "appears twice");
      found[column.place] = true;
      column.conversion = ColumnConversion::between(stored.type, stored.width, plan_, plan_.places[column.place]);
      if (!column.conversion.is_possible()) return refuse(stored.column, "had another type");
      if (column.null_bit != 0 && plan_.places[column.place].null_bit == 0)
        return refuse(stored.column, "was nullable, but is NOT NULL now");
    }
    (stored.width == ColumnLayout::VARIABLE ? form.variable : form.fixed).push_back(column);
  }
  for (uint32_t i = 0; i < plan_.places.size(); i++) {
    if (found[i]) continue;
    const ColumnLayout::Column &column = plan_.layout.columns[i];
    const RowPlan::Place &place = plan_.places[i];
    const RowHistory::Fill *fill = history_.fill_of(column.column);
    if (fill == nullptr) return refuse(column.column, "has no value in them");
    if (fill->null && place.null_bit == 0) return refuse(column.column, "is NULL in them, but is NOT NULL now");
    const bool fits = column.width == ColumnLayout::VARIABLE
                          ? fill->bytes.size() <= plan_.variables[place.variable].bytes_max
                          : fill->bytes.size() == column.width;
    if (!fill->null && !fits) return refuse(column.column, "has a value of another width in them");
    form.fills.push_back(fill);
    form.filled_places.push_back(i);
  }
  forms_.push_back(std::move(form));
  return true;
}

const EarlierRows::Form *EarlierRows::form_of(uint32_t version) const {
  auto at = std::lower_bound(forms_.begin(), forms_.end(), version,
                             [](const Form &form, uint32_t wanted) { return form.version < wanted; });
  return at != forms_.end() && at->version == version ? &*at : nullptr;
}

void EarlierRows::set_null(const RowPlan::Place &place, uchar *record) const {
  record[place.null_offset] |= place.null_bit;
  if (place.width == ColumnLayout::VARIABLE)
    clear_variable(plan_.variables[place.variable], record);
  else
    memset(record + place.offset, 0, place.width);
}

/* Stores the bytes in a column. Those of a fixed width must have the width of the conversion. */
bool EarlierRows::set(const RowPlan::Place &place, const ColumnConversion &conversion, const uint8_t *bytes,
                      uint32_t length, uchar *record, const MY_BITMAP *read_set, BlobArena *blobs) const {
  const RowPlan::Variable *variable = plan_.variable_of(place);
  if (variable != nullptr && read_set != nullptr && !bitmap_is_set(read_set, variable->column)) return true;
  return conversion.set(place, variable, bytes, length, record, blobs);
}

bool EarlierRows::decode(const uint8_t *value, size_t length, uchar *record, const MY_BITMAP *read_set,
                         BlobArena *blobs) const {
  const uint8_t *from = value, *end = value + length;
  uint32_t version;
  if (!take_varint(&from, end, &version)) return false;
  const Form *form = form_of(version);
  if (form == nullptr || static_cast<size_t>(end - from) < form->null_mask.size()) return false;

  const uint8_t *nulls = from;
  for (uint8_t mask : form->null_mask)
    if ((*from++ & ~mask) != 0) return false;
  for (size_t i = 0; i < plan_.null_mask.size(); i++) record[i] = static_cast<uchar>(record[i] & ~plan_.null_mask[i]);
  auto stored_null = [nulls](const Column &column) { return (nulls[column.null_byte] & column.null_bit) != 0; };

  for (const Column &column : form->fixed) {
    if (column.null_bit != 0 && stored_null(column)) {
      if (column.place != NONE) set_null(plan_.places[column.place], record);
      continue;
    }
    if (static_cast<size_t>(end - from) < column.width) return false;
    if (column.place != NONE &&
        !set(plan_.places[column.place], column.conversion, from, column.width, record, read_set, blobs))
      return false;
    from += column.width;
  }

  const size_t variables = form->variable.size();
  auto *lengths = static_cast<uint32_t *>(alloca((variables + 1) * sizeof(uint32_t)));
  uint64_t total = 0;
  for (size_t i = 0; i < variables; i++) {
    const Column &column = form->variable[i];
    lengths[i] = 0;
    if (column.null_bit != 0 && stored_null(column)) continue;
    if (!take_varint(&from, end, &lengths[i])) return false;
    total += lengths[i];
  }
  if (total != static_cast<uint64_t>(end - from)) return false;
  for (size_t i = 0; i < variables; i++) {
    const Column &column = form->variable[i];
    if (column.place != NONE) {
      const RowPlan::Place &place = plan_.places[column.place];
      if (column.null_bit != 0 && stored_null(column))
        set_null(place, record);
      else if (!set(place, column.conversion, from, lengths[i], record, read_set, blobs))
        return false;
    }
    from += lengths[i];
  }

  for (size_t i = 0; i < form->fills.size(); i++) {
    const RowHistory::Fill &fill = *form->fills[i];
    const RowPlan::Place &place = plan_.places[form->filled_places[i]];
    static const uint8_t EMPTY = 0;  // data() of an empty vector may be nullptr: out of memory for set()
    const uint8_t *bytes = fill.bytes.empty() ? &EMPTY : fill.bytes.data();
    if (fill.null)
      set_null(place, record);
    else if (!set(place, ColumnConversion::none(), bytes, static_cast<uint32_t>(fill.bytes.size()), record, read_set,
                  blobs))
      return false;
  }
  return true;
}

}  // namespace teak
