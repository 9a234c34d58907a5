/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* What one ALTER TABLE in place keeps for one table (or partition) between its calls. */

#ifndef TEAK_HANDLER_ALTER_H
#define TEAK_HANDLER_ALTER_H

#include "server_version.h"

#include <memory>
#include <vector>

#include "core.h"
#include "key_codec.h"
#include "row_codec.h"
#include "share.h"

namespace teak {

/* Which key of the table a key of the altered table is, or MAX_KEY when it is new. */
uint old_key_of(const TABLE *table, const Alter_inplace_info *alter, uint new_key);

/* What an ALTER TABLE makes of a table's rows. */
struct AlteredRows {
  std::shared_ptr<const KeyCodec> primary;  // of the altered table, like all here
  std::unique_ptr<RowCodec> rows;           // reads those of before, too
  RowHistory history;

  /* The altered table's record holds what its new columns have in the rows that there are, see evaluate_added_columns().
     nullptr, or why the rows would have to be written anew. */
  const char *work_out(const TABLE *altered, const Alter_inplace_info *alter, const Share &share);
};

/* Puts into the altered table's record what its new stored columns have in the rows that there are. nullptr, or why it is not
   one value for all rows. */
const char *evaluate_added_columns(THD *thd, TABLE *altered, const Alter_inplace_info *alter);

class ha_teak;

struct AlterContext final : public inplace_alter_handler_ctx {
  struct AddedKey {
    std::shared_ptr<const KeyCodec> codec;
    std::shared_ptr<const KeyOriginals> originals;
    uint key = 0;  // of the altered table
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
  std::vector<AddedKey> added;
  bool needs_virtual_columns = false;
  std::vector<teak_planned_index> indexes;
  std::vector<uint8_t> metadata;
};

}  // namespace teak

#endif
