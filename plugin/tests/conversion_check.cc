/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* Checks of the conversion of stored values to another type: random numbers, times and strings are encoded by the server with
   both types, and the conversion must make the one encoding from the other. Types that cannot represent every value are
   refused. Descriptions of columns are read as they were written. */

#include "codec_engine.h"

#include <cstring>

#include "decimal.h"
#include "format/column_conversion.h"
#include "my_time.h"

namespace teak_tests {

namespace {

using teak::ColumnConversion;
using teak::ColumnLayout;
using teak::RowHistory;
using teak::RowPlan;
using teak::StoredType;
using Kind = StoredType::Kind;
using Bytes = std::vector<uint8_t>;

constexpr uint32_t ROUNDS = 4000;

RowPlan::Place place_of(Kind kind, uint32_t parameter, uint32_t width) {
  RowPlan::Place place = {0, width, 0, 0, 0};
  place.type = {kind, parameter};
  place.collation = &my_charset_latin1;
  return place;
}

void expect_converted(StoredType from, Bytes stored, const RowPlan::Place &to, const Bytes &wanted, Checks *checks) {
  const auto width = static_cast<uint32_t>(stored.size());
  const ColumnConversion conversion = ColumnConversion::between(from, width, to, nullptr);
  checks->expect(conversion.is_possible(), [&] { return "a value of " + std::to_string(width) + " bytes is refused"; });
  if (!conversion.is_possible()) return;
  Bytes record(to.width, 0xA5);
  const bool is_set = conversion.set(to, nullptr, stored.data(), width, record.data(), nullptr);
  const std::string before = hex(stored.data(), stored.size());
  conversion.convert(to, &stored);
  checks->expect(is_set && record == wanted && stored == wanted, [&] {
    return before + " is read as " + hex(record.data(), record.size()) + " instead of " +
           hex(wanted.data(), wanted.size());
  });
}

void expect_refused(StoredType from, uint32_t width, const RowPlan::Place &to, Checks *checks) {
  checks->expect(!ColumnConversion::between(from, width, to, nullptr).is_possible(), [&] {
    return "type " + std::to_string(static_cast<int>(from.kind)) + " of " + std::to_string(width) +
           " bytes is read as type " + std::to_string(static_cast<int>(to.type.kind)) + " of " +
           std::to_string(to.width);
  });
}

struct Digits {
  uint32_t before, after;  // the point

  uint32_t width() const {
    return static_cast<uint32_t>(decimal_bin_size(static_cast<int>(before + after), static_cast<int>(after)));
  }
  Bytes encode(const std::string &text) const {
    decimal_digit_t digits[16];
    decimal_t number;
    number.buf = digits;
    number.len = 16;
    char *end = const_cast<char *>(text.c_str()) + text.size();
    internal_str2dec(const_cast<char *>(text.c_str()), &number, &end, false);
    Bytes bytes(width());
    decimal2bin(&number, bytes.data(), static_cast<int>(before + after), static_cast<int>(after));
    return bytes;
  }
  RowPlan::Place place() const { return place_of(Kind::Decimal, after, width()); }
};

void check_decimals(Random *random, Checks *checks) {
  for (uint32_t round = 0; round < ROUNDS; round++) {
    Digits from, to;
    to.after = random->below(39);
    from.after = random->below(to.after + 1);
    to.before = (to.after == 0 ? 1 : 0) + random->below(66 - to.after - (to.after == 0 ? 1 : 0));
    from.before = random->below(to.before + 1);
    if (from.before + from.after == 0) continue;
    std::string text = random->below(2) == 0 ? "-" : "";
    const uint32_t kind = random->below(4);
    auto digit = [&] {
      if (kind == 0) return '9';
      return kind == 1 && random->below(4) != 0 ? '0' : static_cast<char>('0' + random->below(10));
    };
    for (uint32_t i = 0; i < from.before; i++) text += digit();
    if (from.before == 0) text += '0';
    if (from.after != 0) text += '.';
    for (uint32_t i = 0; i < from.after; i++) text += digit();
    expect_converted({Kind::Decimal, from.after}, from.encode(text), to.place(), to.encode(text), checks);
    if (from.after < to.after) expect_refused({Kind::Decimal, to.after}, to.width(), from.place(), checks);
  }
  // Fewer digits before the point, although the widths would allow it.
  expect_refused({Kind::Decimal, 0}, Digits{9, 0}.width(), Digits{6, 9}.place(), checks);
}

void check_integers(Random *random, Checks *checks) {
  for (uint32_t round = 0; round < ROUNDS; round++) {
    const uint32_t width = 1 + random->below(4), to_width = width + 1 + random->below(8 - width);
    Bytes stored(width);
    for (uint8_t &byte : stored) byte = random->below(3) == 0 ? 0xff : static_cast<uint8_t>(random->next() >> 20);
    Bytes as_unsigned = stored, as_signed = stored;
    as_unsigned.resize(to_width, 0);
    as_signed.resize(to_width, (stored.back() & 0x80) != 0 ? 0xff : 0);
    expect_converted({Kind::Unsigned, 0}, stored, place_of(Kind::Unsigned, 0, to_width), as_unsigned, checks);
    expect_converted({Kind::Unsigned, 0}, stored, place_of(Kind::Signed, 0, to_width), as_unsigned, checks);
    expect_converted({Kind::Signed, 0}, stored, place_of(Kind::Signed, 0, to_width), as_signed, checks);
    // A column without a type of its own in the description has the type of the current column.
    expect_converted({}, stored, place_of(Kind::Signed, 0, to_width), as_signed, checks);
    expect_refused({Kind::Signed, 0}, width, place_of(Kind::Unsigned, 0, to_width), checks);
    expect_refused({Kind::Unsigned, 0}, width, place_of(Kind::Signed, 0, width), checks);
    expect_refused({Kind::Signed, 0}, to_width, place_of(Kind::Signed, 0, width), checks);
    expect_refused({Kind::Plain, 0}, width, place_of(Kind::Plain, 0, to_width), checks);
  }
}

void check_times(Random *random, Checks *checks) {
  constexpr uint32_t POWERS[] = {1000000, 100000, 10000, 1000, 100, 10, 1};
  auto bytes_of_fraction = [](uint32_t digits) { return (digits + 1) / 2; };
  for (uint32_t round = 0; round < ROUNDS; round++) {
    const uint32_t from = random->below(7), to = from + random->below(7 - from);
    const bool has_fraction = random->below(4) != 0, is_small = random->below(3) == 0;
    const uint32_t micros = has_fraction ? random->below(1000000) / POWERS[from] * POWERS[from] : 0;
    const longlong seconds = is_small ? random->below(2) : random->below(838 << 12 | 59 << 6 | 59);
    longlong packed = (seconds << 24) + micros;
    if (random->below(2) == 0) packed = -packed;
    Bytes stored(3 + bytes_of_fraction(from)), wanted(3 + bytes_of_fraction(to));
    my_time_packed_to_binary(packed, stored.data(), from);
    my_time_packed_to_binary(packed, wanted.data(), to);
    const auto to_bytes = static_cast<uint32_t>(wanted.size());
    expect_converted({}, stored, place_of(Kind::Time, 3, to_bytes), wanted, checks);
    if (to_bytes > stored.size())
      expect_refused({Kind::Time, 3}, to_bytes, place_of(Kind::Time, 3, static_cast<uint32_t>(stored.size())), checks);

    const longlong date = static_cast<longlong>(random->next() % (1ULL << 39)) << 24;
    Bytes date_stored(5 + bytes_of_fraction(from)), date_wanted(5 + bytes_of_fraction(to));
    my_datetime_packed_to_binary(date + micros, date_stored.data(), from);
    my_datetime_packed_to_binary(date + micros, date_wanted.data(), to);
    expect_converted({}, date_stored, place_of(Kind::DateTime, 5, static_cast<uint32_t>(date_wanted.size())),
                     date_wanted, checks);
    const timeval stamp = {static_cast<time_t>(random->below(INT32_MAX)), static_cast<suseconds_t>(micros)};
    Bytes stamp_stored(4 + bytes_of_fraction(from)), stamp_wanted(4 + bytes_of_fraction(to));
    my_timestamp_to_binary(&stamp, stamp_stored.data(), from);
    my_timestamp_to_binary(&stamp, stamp_wanted.data(), to);
    expect_converted({}, stamp_stored, place_of(Kind::DateTime, 4, static_cast<uint32_t>(stamp_wanted.size())),
                     stamp_wanted, checks);
  }
}

/* A VARCHAR of at most 200 bytes. */
Bytes read_varchar(StoredType from, uint32_t width, const Bytes &stored, CHARSET_INFO *collation, Checks *checks) {
  RowPlan::Place place = place_of(Kind::Plain, 0, ColumnLayout::VARIABLE);
  place.collation = collation;
  const RowPlan::Variable variable = {RowPlan::Kind::Varchar, 1, 0, 0, 0, 0, 200, 0, collation};
  const ColumnConversion conversion = ColumnConversion::between(from, width, place, &variable);
  uchar record[256] = {};
  const bool is_set = conversion.is_possible() && conversion.set(place, &variable, stored.data(),
                                                                 static_cast<uint32_t>(stored.size()), record, nullptr);
  checks->expect(is_set, [] { return "a string is refused"; });
  Bytes converted = stored;
  conversion.convert(place, &converted);
  Bytes read(record + 1, record + 1 + record[0]);
  checks->expect(read == converted, [] { return "a string has two conversions"; });
  return read;
}

void check_strings(Random *random, Checks *checks) {
  CHARSET_INFO *wide = get_charset_by_csname("ucs2", MY_CS_PRIMARY, MYF(0));
  for (uint32_t round = 0; round < ROUNDS; round++) {
    Bytes text(random->below(5) * 2);
    for (uint8_t &byte : text) byte = static_cast<uint8_t>(random->below(3) == 0 ? ' ' : 'a' + random->below(26));
    Bytes stripped = text, padded = text, wide_text, wide_stripped;
    while (!stripped.empty() && stripped.back() == ' ') stripped.pop_back();
    padded.resize(12, ' ');
    for (uint8_t byte : padded) wide_text.insert(wide_text.end(), {0, byte});
    for (uint8_t byte : stripped) wide_stripped.insert(wide_stripped.end(), {0, byte});
    const auto width = static_cast<uint32_t>(text.size());
    const StoredType character = {Kind::Char, 0};
    checks->expect(
        read_varchar(character, width, text, &my_charset_latin1, checks) == stripped &&
            read_varchar(character, 12, padded, &my_charset_latin1, checks) == stripped &&
            read_varchar(character, ColumnLayout::VARIABLE, stripped, &my_charset_latin1, checks) == stripped,
        [] { return "a CHAR is read wrong as a VARCHAR"; });
    if (wide != nullptr)
      checks->expect(read_varchar(character, 24, wide_text, wide, checks) == wide_stripped,
                     [] { return "a CHAR of wide characters is read wrong as a VARCHAR"; });
    if (width != 0) expect_converted(character, text, place_of(Kind::Char, 0, 12), padded, checks);
    Bytes zeros = text;
    zeros.resize(20, 0);
    checks->expect(read_varchar({Kind::Binary, 20}, ColumnLayout::VARIABLE, text, &my_charset_bin, checks) == zeros,
                   [] { return "a BINARY is read wrong as a VARBINARY"; });
    if (width != 0) expect_converted({Kind::Binary, width}, text, place_of(Kind::Binary, 20, 20), zeros, checks);
  }
}

/* Column descriptions with types are written and read again; forms that no column has are refused. */
void check_descriptions(Random *random, Checks *checks) {
  for (uint32_t round = 0; round < ROUNDS; round++) {
    RowHistory history, again;
    std::string error;
    StoredType type = {static_cast<Kind>(random->below(8)), random->below(300)};
    if (random->below(2) == 0) type.parameter = 0;
    const uint32_t width = random->below(4) == 0 ? ColumnLayout::VARIABLE : random->below(70);
    history.versions.push_back({1, {0, {{0, width, ColumnLayout::NEVER_NULL, type}}}});
    Bytes bytes;
    history.encode(&bytes);
    const bool is_read = RowHistory::decode(bytes.data(), bytes.size(), &again, &error);
    checks->expect(is_read == (type.is_storable() && type.is_valid()), [&] {
      return "a description is " + std::string(is_read ? "read: " : "refused: ") + hex(bytes.data(), bytes.size());
    });
    if (!is_read) continue;
    const ColumnLayout::Column &column = again.versions[0].layout.columns[0];
    checks->expect(column.width == width && column.type.kind == type.kind && column.type.parameter == type.parameter,
                   [&] { return "a description is read as another one: " + hex(bytes.data(), bytes.size()); });
  }
}

}  // namespace

void check_conversions(uint64_t seed, Checks *checks) {
  Random random(seed);
  check_decimals(&random, checks);
  check_integers(&random, checks);
  check_times(&random, checks);
  check_strings(&random, checks);
  check_descriptions(&random, checks);
}

}  // namespace teak_tests
