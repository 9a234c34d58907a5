/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* ENGINE=TEAKCODEC: a storage engine for tests only. It stores rows in sorted maps in memory, without transactions
   and with minimal locking. It uses the codecs for keys and rows, so the same SQL on it and on InnoDB must give the
   same result. Every inserted row is checked against the first ORIGINALS_MAX rows (record_check.cc). */

#ifndef TEAK_TESTS_CODEC_ENGINE_H
#define TEAK_TESTS_CODEC_ENGINE_H

#include <my_global.h>

#include "sql_class.h"

#include "field.h"
#include "handler.h"
#include "key.h"
#include "table.h"

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "format/key_codec.h"
#include "format/key_originals.h"
#include "format/row_codec.h"
#include "checks.h"

namespace teak_tests {

/* A row as passed by the server, with its BLOBs. */
struct OriginalRow {
  std::vector<uchar> record;
  std::vector<std::string> blobs;  // by column, empty for others
};

struct StoredTable {
  static constexpr size_t ORIGINALS_MAX = 250;
  using Index = std::map<std::string, std::string>;
  std::vector<Index> indexes;  // by key number; the hidden primary index is the last
  std::vector<OriginalRow> originals;
  uint64_t next_row_id = 1;
};

struct TableCodecs {
  std::vector<std::unique_ptr<teak::KeyCodec>> keys;  // by key number; nullptr for the primary key
  std::shared_ptr<const teak::KeyCodec> primary;
  std::unique_ptr<teak::RowCodec> row;
  uint primary_number;  // of the index that holds rows

  const teak::KeyCodec &of(uint key) const { return key == primary_number ? *primary : *keys[key]; }
};

/* Checks the row in table->record[0] by itself and against the original rows, and adds a copy to these if there are
   fewer than ORIGINALS_MAX. */
void check_record(TABLE *table, const TableCodecs &codecs, const std::string &primary_key, StoredTable *stored,
                  Checks *checks);

/* Checks that the codecs of the table can be created, or report that memory ran out, whichever allocation fails. */
void check_memory(const TABLE *table, const TableCodecs &codecs, Checks *checks);

/* Prints the cost of encoding and decoding the stored rows. */
void measure(TABLE *table, const TableCodecs &codecs, const StoredTable &stored);

}  // namespace teak_tests

#endif
