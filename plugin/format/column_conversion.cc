/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* See column_conversion.h. */

#include "format/column_conversion.h"

#include <algorithm>

#include "format/row_values.h"

namespace teak {

namespace {

using Kind = StoredType::Kind;

constexpr uint8_t SIGN = 0x80;
constexpr uint32_t GROUP_DIGITS = 9, GROUP_BYTES = 4;
/* The bytes of a group of so many decimal digits. */
constexpr uint8_t BYTES_OF_DIGITS[GROUP_DIGITS + 1] = {0, 1, 1, 2, 2, 3, 3, 4, 4, 4};
constexpr uint32_t DECIMAL_BYTES_MAX = 32;
constexpr uint32_t TIME_BYTES_MAX = 8;

constexpr uint32_t fraction_bytes(uint32_t digits) {
  return digits / GROUP_DIGITS * GROUP_BYTES + BYTES_OF_DIGITS[digits % GROUP_DIGITS];
}

uint64_t load_big(const uint8_t *bytes, uint32_t length) {
  uint64_t value = 0;
  for (uint32_t i = 0; i < length; i++) value = value << 8 | bytes[i];
  return value;
}

void store_big(uint8_t *bytes, uint32_t length, uint64_t value) {
  for (uint32_t i = length; i > 0; i--, value >>= 8) bytes[i - 1] = static_cast<uint8_t>(value);
}

/* Appends zeros to a fraction of two decimal digits for each byte. Of a negative time, the seconds are rounded down and
   the fraction is stored as its difference to 256 to the power of its bytes. */
void extend_fraction(const uint8_t *bytes, uint32_t stored, uint32_t whole, bool may_be_negative, uint8_t *to,
                     uint32_t width) {
  const uint32_t digits_before = stored - whole, digits_after = width - whole;
  uint64_t fraction = load_big(bytes + whole, digits_before);
  const bool inverted = may_be_negative && (bytes[0] & SIGN) == 0 && fraction != 0;
  if (inverted) fraction = (uint64_t{1} << 8 * digits_before) - fraction;
  for (uint32_t i = stored; i < width; i++) fraction *= 100;
  if (inverted) fraction = (uint64_t{1} << 8 * digits_after) - fraction;
  memcpy(to, bytes, whole);
  store_big(to + whole, digits_after, fraction);
}

/* Adds zeros in front of a packed decimal number, and behind it. The highest bit is the inverted sign; all bits of a
   negative number are inverted. The digits before and after the point are in groups of nine that begin at the point. */
void extend_decimal(const uint8_t *bytes, uint32_t stored, uint32_t digits, uint8_t *to, uint32_t width,
                    uint32_t to_digits) {
  const uint8_t mask = (bytes[0] & SIGN) != 0 ? 0 : 0xff;
  uint8_t value[DECIMAL_BYTES_MAX];
  for (uint32_t i = 0; i < stored; i++) value[i] = bytes[i] ^ mask;
  value[0] ^= SIGN;

  const uint32_t whole = stored - fraction_bytes(digits), to_whole = width - fraction_bytes(to_digits);
  const uint32_t groups = digits / GROUP_DIGITS * GROUP_BYTES;  // bytes of the full groups after the point
  const uint32_t rest = digits % GROUP_DIGITS;
  memset(to, 0, width);
  memcpy(to + to_whole - whole, value, whole + groups);
  if (rest != 0) {
    const uint32_t to_rest = std::min(GROUP_DIGITS, to_digits - digits + rest);
    uint64_t last = load_big(value + whole + groups, BYTES_OF_DIGITS[rest]);
    for (uint32_t i = rest; i < to_rest; i++) last *= 10;
    store_big(to + to_whole + groups, BYTES_OF_DIGITS[to_rest], last);
  }
  to[0] ^= SIGN;
  for (uint32_t i = 0; i < width; i++) to[i] ^= mask;
}

bool extends_decimal(uint32_t digits, uint32_t width, uint32_t to_digits, uint32_t to_width) {
  if (digits > to_digits || to_digits > StoredType::DIGITS_MAX || width == 0 || to_width > DECIMAL_BYTES_MAX)
    return false;
  const uint32_t bytes = fraction_bytes(digits), to_bytes = fraction_bytes(to_digits);
  return width >= bytes && to_width >= to_bytes && width - bytes <= to_width - to_bytes;
}

}  // namespace

ColumnConversion ColumnConversion::between(StoredType from, uint32_t width, const RowPlan::Place &place,
                                           const RowPlan::Variable *variable) {
  if (from.kind == Kind::Current) from = place.type;
  ColumnConversion conversion;
  conversion.parameter_ = from.parameter;
  if (variable != nullptr)
    conversion.choose_variable(from, width, place, *variable);
  else if (width != ColumnLayout::VARIABLE)
    conversion.choose_fixed(from, width, place);
  return conversion;
}

void ColumnConversion::choose_fixed(StoredType from, uint32_t width, const RowPlan::Place &place) {
  const Kind to = place.type.kind;
  if (from.kind == Kind::Decimal && to == Kind::Decimal) {
    if (from.parameter == place.type.parameter && width == place.width)
      step_ = Step::Copy;
    else if (extends_decimal(from.parameter, width, place.type.parameter, place.width))
      step_ = Step::Decimal;
    return;
  }
  if (from.kind == to && width == place.width) step_ = Step::Copy;
  if (width == 0 || width >= place.width) return;
  if (from.kind == Kind::Unsigned && (to == Kind::Unsigned || to == Kind::Signed)) {
    step_ = Step::Padding;
  } else if (from.kind != to) {
    return;
  } else if (to == Kind::Signed) {
    step_ = Step::Signed;
  } else if (to == Kind::DateTime || to == Kind::Time) {
    if (width >= from.parameter && place.width <= TIME_BYTES_MAX)
      step_ = to == Kind::Time ? Step::TimeFraction : Step::Fraction;
  } else if (to == Kind::Binary) {
    step_ = Step::Padding;
  } else if (to == Kind::Char) {
    step_ = place.collation->mbminlen > 1 ? Step::Spaces : Step::Padding;
    padding_ = ' ';
  }
}

void ColumnConversion::choose_variable(StoredType from, uint32_t width, const RowPlan::Place &place,
                                       const RowPlan::Variable &variable) {
  const Kind to = place.type.kind;
  const bool is_fixed = width != ColumnLayout::VARIABLE;
  if (from.kind == to) {
    // Values of a CHAR or BINARY may be stored with their padding.
    if (!is_fixed || to == Kind::Char || to == Kind::Binary) step_ = Step::Copy;
  } else if (to != Kind::Plain) {
    return;
  } else if (from.kind == Kind::Char) {
    step_ = is_fixed ? Step::Strip : Step::Copy;
  } else if (from.kind == Kind::Binary) {
    if (is_fixed && width == from.parameter) step_ = Step::Copy;
    // The value of a BLOB is not copied, so that it cannot be extended.
    else if (variable.kind == RowPlan::Kind::Varchar && from.parameter <= variable.bytes_max)
      step_ = Step::Zeros;
  }
}

uint32_t ColumnConversion::stripped(const RowPlan::Place &place, const uint8_t *bytes, uint32_t stored) const {
  if (place.collation->mbminlen == 1) return static_cast<uint32_t>(without_padding(bytes, stored, ' '));
  return static_cast<uint32_t>(place.collation->lengthsp(reinterpret_cast<const char *>(bytes), stored));
}

void ColumnConversion::extend(const RowPlan::Place &place, const uint8_t *bytes, uint32_t stored, uint8_t *to) const {
  switch (step_) {
    case Step::Fraction:
    case Step::TimeFraction:
      return extend_fraction(bytes, stored, parameter_, step_ == Step::TimeFraction, to, place.width);
    case Step::Decimal:
      return extend_decimal(bytes, stored, parameter_, to, place.width, place.type.parameter);
    case Step::Spaces:
      memcpy(to, bytes, stored);
      place.collation->fill(reinterpret_cast<char *>(to) + stored, place.width - stored, ' ');
      return;
    case Step::Signed:
      memcpy(to, bytes, stored);
      memset(to + stored, (bytes[stored - 1] & SIGN) != 0 ? 0xff : 0, place.width - stored);
      return;
    default:
      memcpy(to, bytes, stored);
      memset(to + stored, padding_, place.width - stored);
  }
}

bool ColumnConversion::set(const RowPlan::Place &place, const RowPlan::Variable *variable, const uint8_t *bytes,
                           uint32_t stored, uchar *record, BlobArena *blobs) const {
  if (variable == nullptr) {
    if (step_ == Step::Copy)
      copy_fixed(record + place.offset, bytes, place.width);
    else
      extend(place, bytes, stored, record + place.offset);
    return true;
  }
  if (step_ == Step::Strip) stored = stripped(place, bytes, stored);
  if (stored > variable->bytes_max) return false;
  if (!set_variable(*variable, bytes, stored, record, blobs)) return false;
  if (step_ != Step::Zeros || stored >= parameter_) return true;
  uchar *value = record + variable->offset;
  store_little(value, parameter_, variable->length_bytes);
  memset(value + variable->length_bytes + stored, 0, parameter_ - stored);
  return true;
}

void ColumnConversion::convert(const RowPlan::Place &place, std::vector<uint8_t> *bytes) const {
  const auto stored = static_cast<uint32_t>(bytes->size());
  if (step_ == Step::Copy) return;
  if (step_ == Step::Strip) {
    bytes->resize(stripped(place, bytes->data(), stored));
  } else if (step_ == Step::Zeros) {
    bytes->resize(std::max(stored, parameter_));
  } else {
    std::vector<uint8_t> extended(place.width);
    extend(place, bytes->data(), stored, extended.data());
    *bytes = std::move(extended);
  }
}

}  // namespace teak
