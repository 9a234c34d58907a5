/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* AlterContext: the state of one in-place ALTER TABLE of a table (or partition) between the server's calls. */

#ifndef TEAK_ALTER_ALTER_CONTEXT_H
#define TEAK_ALTER_ALTER_CONTEXT_H

#include "base/server_version.h"

#include <memory>
#include <vector>

#include "alter/altered_rows.h"
#include "alter/record_copier.h"
#include "alter/snapshot_reader.h"
#include "base/core.h"
#include "format/buffer.h"
#include "format/key_codec.h"
#include "format/key_originals.h"
#include "table/definition.h"
#include "table/open_table.h"
#include "table/share.h"

namespace teak {

struct AlterContext final : public inplace_alter_handler_ctx {
  struct AddedKey {
    std::shared_ptr<const KeyCodec> codec;
    std::shared_ptr<const KeyOriginals> originals;
    uint key = 0;        // of the altered table
    uint32_t index = 0;  // among the engine's added indexes
    bool clustering = false;
    bool unique = false;
    bool nullable = false;
  };

  explicit AlterContext(OpenTable &altered_table) : open(altered_table) {}
  ~AlterContext() override { end(); }

  /* Ends the alteration. Undoes it if it was not committed. */
  void end();

  /* Computes the virtual columns of the added keys in the altered table's record. In strict mode, a
     bad value is an error. True: an error was raised. */
  bool compute_virtual_columns(TABLE *altered) const;

  /* Passes the entries of the row in the altered table's record to the added indexes. `primary`: the row's encoded primary
     key. `row`: the encoded row, if the caller has it. True: an error was raised. After `found_duplicate`, build() reports
     the duplicate. */
  bool add_entries(const TABLE *altered, teak_slice primary, teak_slice row);

  /* Reports the progress of reading the rows and checks for KILL, once for every ROWS_PER_REPORT rows. True: an
     error was raised. */
  bool report_rows_read(uint64_t rows_read, uint64_t rows_estimated) const;

  /* Sorts and writes the entries, and compares them with what others have written. TEAK_DUPLICATE_KEY: an added unique
     key has a duplicate. */
  teak_status build(teak_duplicate *duplicate);

  OpenTable &open;  // of the table, or of the partition
  /* Reads the rows to rewrite. If others may write at the same time, its snapshot is taken before they do. */
  SnapshotReader reader;
  Share *building_share = nullptr;  // set while writers maintain the added indexes
  teak_alteration *alteration = nullptr;
  AlteredRows rows;
  bool rebuild = false;  // the rows are rewritten, into the engine's first added index
  RecordCopier copier;   // of a rebuild: from the table's record to the altered table's
  std::vector<AddedKey> added;
  bool needs_virtual_columns = false;
  bool needs_rows = false;       // for clustering keys
  bool found_duplicate = false;  // a concurrent writer has found one
  ColumnLists columns;           // of the definitions in `indexes`
  std::vector<teak_planned_index> indexes;
  std::vector<uint8_t> metadata;
  ByteBuffer key, value;  // of the entry that is being encoded
  ByteBuffer row;         // of the entries, if the caller has not encoded it
};

/* Callback of the engine: whether the statement of the THD was killed. */
bool is_alter_killed(void *thd);

/* The stages of a ProgressReport: reading rows, and writing entries. */
constexpr uint BUILD_STAGES = 2;

}  // namespace teak

#endif
