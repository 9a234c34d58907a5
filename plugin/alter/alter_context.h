/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* What one ALTER TABLE in place keeps for one table (or partition) between its calls. */

#ifndef TEAK_ALTER_ALTER_CONTEXT_H
#define TEAK_ALTER_ALTER_CONTEXT_H

#include "base/server_version.h"

#include <memory>
#include <vector>

#include "base/core.h"
#include "format/key_codec.h"
#include "format/row_codec.h"
#include "table/share.h"

namespace teak {

/* Which key of the table a key of the altered table is, or MAX_KEY when it is new. */
uint old_key_of(const TABLE *table, const Alter_inplace_info *alter, uint new_key);

/* Whether an index of the engine has the same entries under both definitions of its key. */
bool has_same_entries(const KEY &old_key, const KEY &new_key);

/* Of the altered table's rows; nullptr when their key is of a kind that cannot be served. */
std::shared_ptr<const KeyCodec> primary_codec_of(const TABLE *altered);

/* What an ALTER TABLE makes of a table's rows. */
struct AlteredRows {
  std::shared_ptr<const KeyCodec> primary;  // of the altered table, like all here
  std::unique_ptr<RowCodec> rows;           // reads those of before, too
  RowHistory history;

  /* The altered table's record holds what its new columns have in the rows that there are, see evaluate_added_columns().
     nullptr, or why the rows would have to be written anew. */
  const char *work_out(const TABLE *altered, const Alter_inplace_info *alter, const Share &share);

  /* For rows that are all written anew: nothing is remembered of earlier forms. nullptr, or why the server has to copy
     them. */
  const char *work_out_anew(const TABLE *table, const TABLE *altered, const Alter_inplace_info *alter);
};

/* Brings the first record of a table into that of the altered one. Bytes are taken as they are: a zero date that today's
   sql_mode refuses may stand in rows. Both tables must outlive it. */
class RecordCopier {
 public:
  /* nullptr, or why the server has to copy them. */
  const char *match(const TABLE *table, const TABLE *altered, const Alter_inplace_info *alter);
  /* The column that would be NULL and must not, or nullptr. */
  Field *copy() const;

 private:
  struct Column {
    Field *from, *to;
  };
  std::vector<Column> columns_;
};

/* Puts into the altered table's record what its new stored columns have in the rows that there are. nullptr, or why it is not
   one value for all rows. */
const char *evaluate_added_columns(THD *thd, TABLE *altered, const Alter_inplace_info *alter);

/* The rows of one snapshot, read beside the connection's own transaction. */
class RowReader {
 public:
  ~RowReader();
  teak_status open(teak_table *table);
  teak_status next(teak_row *row);
  teak_status get(teak_slice key, teak_row *row) { return teak_cursor_get(cursor_, key, row); }

 private:
  teak_transaction *transaction_ = nullptr;
  teak_cursor *cursor_ = nullptr;
  bool started_ = false;
};

class ha_teak;

struct AlterContext final : public inplace_alter_handler_ctx {
  struct AddedKey {
    std::shared_ptr<const KeyCodec> codec;
    std::shared_ptr<const KeyOriginals> originals;
    uint key = 0;        // of the altered table
    uint32_t index = 0;  // among the added ones of the engine
    bool unique = false;
    bool nullable = false;
  };

  explicit AlterContext(ha_teak *its_handler) : handler(its_handler) {}
  ~AlterContext() override { end(); }

  /* Undoes what was not committed: writers are told first, for the engine takes no entries then. */
  void end() {
    if (share != nullptr) share->set_building(nullptr);
    share = nullptr;
    teak_alteration_end(alteration);
    alteration = nullptr;
  }

  ha_teak *const handler;  // of the table, or of the partition
  Share *share = nullptr;
  teak_alteration *alteration = nullptr;
  AlteredRows rows;
  bool anew = false;  // the rows are written anew, into the first added index of the engine
  std::vector<AddedKey> added;
  bool needs_virtual_columns = false;
  std::vector<teak_planned_index> indexes;
  std::vector<uint8_t> metadata;
  ByteBuffer key, value;  // of the entry at hand
};

/* Rows between two looks at KILL. */
constexpr uint64_t LOOK_ROWS = 256;

bool is_killed(void *thd);
void report_alter_progress(void *thd, uint64_t done, uint64_t total);

/* Computes the new keys' virtual columns of the record. Whether a bad value of these is an error, the server's strictness
   decides. True: an error. */
bool compute_added(THD *thd, TABLE *altered, const AlterContext &context);

}  // namespace teak

#endif
