/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* Checks of the description of rows of earlier schema versions: the example of docs/design/format.md is read and
   written again, its rows are read into the record of the current table, and a changed byte of the description or of
   the rows causes no memory error. */

#include <cstring>

#include "format/row_earlier.h"
#include "format/row_values.h"
#include "codec_engine.h"

namespace teak_tests {

namespace {

using teak::ColumnLayout;
using teak::EarlierRows;
using teak::RowHistory;
using teak::RowPlan;

constexpr uint32_t NOTE_NULL = 1, RECORD_BYTES = 1 + 2 + 4 + 1 + 10 + 2 + sizeof(uchar *);

/* (b SMALLINT NOT NULL, id INT PRIMARY KEY, name VARCHAR(10) NOT NULL, note TEXT) of schema version 3, in the layout of
   its record. */
RowPlan plan_of_example() {
  RowPlan plan;
  plan.schema_version = 3;
  plan.null_mask = {NOTE_NULL};
  plan.layout = {1,
                 {{0, 2, ColumnLayout::NEVER_NULL, {}},
                  {2, ColumnLayout::VARIABLE, ColumnLayout::NEVER_NULL, {}},
                  {3, ColumnLayout::VARIABLE, 0, {}}}};
  plan.places = {{1, 2, 0, 0, 0}, {7, ColumnLayout::VARIABLE, 0, 0, 0}, {18, ColumnLayout::VARIABLE, 0, 1, NOTE_NULL}};
  plan.variables = {{RowPlan::Kind::Varchar, 1, 0, 0, 0, 7, 10, 2, nullptr},
                    {RowPlan::Kind::Blob, 2, 0, NOTE_NULL, 0, 18, 65535, 3, nullptr}};
  return plan;
}

const std::vector<uint8_t> ROW_OF_1 = {1, 0, 42, 0, 0, 0, 3, 'o', 'n', 'e'};
const std::vector<uint8_t> ROW_OF_1_NULL = {1, 1, 3, 't', 'w', 'o'};
const std::vector<uint8_t> ROW_OF_2 = {2, 1, 9, 0, 5, 't', 'h', 'r', 'e', 'e'};

struct Read {
  bool decoded;
  uint16_t b;
  std::string name;
  bool note_null;
};

Read read(const EarlierRows &rows, const std::vector<uint8_t> &value) {
  uchar record[RECORD_BYTES];
  memset(record, 0xA5, sizeof(record));
  record[0] = 0xFE;
  teak::BlobArena blobs;
  Read result = {rows.decode(value.data(), value.size(), record, nullptr, &blobs), 0, "", false};
  if (!result.decoded) return result;
  result.b = static_cast<uint16_t>(record[1] | record[2] << 8);
  result.name.assign(reinterpret_cast<const char *>(record + 8), record[7]);
  result.note_null = (record[0] & NOTE_NULL) != 0 && (record[0] & 0xFE) == 0xFE;
  return result;
}

bool is(const Read &read, uint16_t b, const char *name) {
  return read.decoded && read.b == b && read.name == name && read.note_null;
}

/* Reads the rows with a mutated description. Either the description is rejected, or each row is read or rejected. */
void read_by_any(const std::vector<uint8_t> &bytes, Checks *checks) {
  RowHistory history;
  std::string error;
  if (!RowHistory::decode(bytes.data(), bytes.size(), &history, &error)) {
    checks->expect(!error.empty(), [] { return "a history is refused without a reason"; });
    return;
  }
  std::vector<uint8_t> again;
  history.encode(&again);
  checks->expect(again == bytes, [&] { return "a history has two forms: " + hex(bytes.data(), bytes.size()); });
  const RowPlan plan = plan_of_example();
  const std::unique_ptr<EarlierRows> rows = EarlierRows::create(plan, history, &error);
  if (rows == nullptr) return;
  for (const auto &row : {ROW_OF_1, ROW_OF_1_NULL, ROW_OF_2}) {
    const Read result = read(*rows, row);
    checks->expect(!result.decoded || result.name.size() <= 10, [] { return "a name is longer than its column"; });
  }
}

}  // namespace

void check_history(const std::vector<uint8_t> &example, Checks *checks) {
  RowHistory history;
  std::string error;
  const bool decoded = RowHistory::decode(example.data(), example.size(), &history, &error);
  checks->expect(decoded, [&] { return "the page's history is refused: " + error; });
  if (!decoded) return;
  const RowPlan plan = plan_of_example();
  const std::unique_ptr<EarlierRows> rows = EarlierRows::create(plan, history, &error);
  checks->expect(rows != nullptr, [&] { return "the page's history does not fit: " + error; });
  if (rows == nullptr) return;
  checks->expect(is(read(*rows, ROW_OF_1), 5, "one"), [] { return "a row of version 1 is read wrong"; });
  checks->expect(is(read(*rows, ROW_OF_1_NULL), 5, "two"),
                 [] { return "a row of version 1 with a NULL is read wrong"; });
  checks->expect(is(read(*rows, ROW_OF_2), 9, "three"), [] { return "a row of version 2 is read wrong"; });
  for (const auto &row : {ROW_OF_1, ROW_OF_1_NULL, ROW_OF_2})
    for (size_t length = 0; length < row.size(); length++) {
      const std::vector<uint8_t> less(row.begin(), row.begin() + static_cast<std::ptrdiff_t>(length));
      checks->expect(!read(*rows, less).decoded,
                     [&] { return "a row without its end is read: " + hex(less.data(), length); });
    }
  checks->expect(!read(*rows, {4, 0, 0}).decoded, [] { return "a row of an unknown version is read"; });

  for (size_t length = 0; length < example.size(); length++)
    checks->expect(!RowHistory::decode(example.data(), length, &history, &error),
                   [&] { return "a history without its end is read: " + std::to_string(length) + " bytes"; });
  for (size_t place = 0; place < example.size(); place++)
    for (unsigned byte = 0; byte < 256; byte++) {
      std::vector<uint8_t> changed = example;
      changed[place] = static_cast<uint8_t>(byte);
      read_by_any(changed, checks);
    }
  Random random(1);
  for (int i = 0; i < 20000; i++) {
    std::vector<uint8_t> changed = example;
    for (uint32_t change = random.below(4); change < 4; change++)
      changed[random.below(changed.size())] = random.below(256);
    read_by_any(changed, checks);
  }
}

}  // namespace teak_tests
