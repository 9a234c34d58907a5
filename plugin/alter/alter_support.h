/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* What ALTER TABLE can do without copying the table:

     INSTANT  the stored rows and entries do not change: names, defaults, comments, longer VARCHAR, another collation, more
              values of an ENUM, virtual columns, the codec of new pages. Or rows are read in another way: columns are added,
              dropped or moved, or may be NULL, see altered_rows.h
     NOCOPY   secondary keys are added or dropped. Concurrent writes are allowed, unless a new key must be unique or is on a
              virtual column, or keys are added and columns changed in one statement
     INPLACE  rows and keys are rewritten, sorted and without the log. No concurrent writes

   Everything else is copied by the server, and the reason is reported. Whether rows can be read under the new definition is
   not inferred from the clauses: the codecs of both definitions are compared. */

#ifndef TEAK_ALTER_ALTER_SUPPORT_H
#define TEAK_ALTER_ALTER_SUPPORT_H

#include "base/server_version.h"

#include <memory>

#include "format/key_codec.h"
#include "table/open_table.h"

namespace teak {

/* handler::check_if_supported_inplace_alter() of one table. */
class AlterSupport {
 public:
  AlterSupport(const OpenTable &open, TABLE *altered, Alter_inplace_info *alter)
      : open_(open), table_(open.table()), altered_(altered), alter_(alter), operations_(alter->handler_flags) {}
  AlterSupport(const AlterSupport &) = delete;
  AlterSupport &operator=(const AlterSupport &) = delete;

  enum_alter_inplace_result check();

 private:
  alter_table_operations possible_operations() const;
  const char *copy_reason_of_clauses() const;
  const char *copy_reason_of_keys();
  const char *copy_reason_of_new_key(uint number, const KeyCodec &primary);
  const char *copy_reason_of_long_unique_keys() const;
  const char *copy_reason_of_added_columns();
  const char *copy_reason_of_rebuild();
  bool changes_primary_key() const;
  bool rebuilds() const { return rebuild_reason_ != nullptr; }
  bool has_online_rebuild() const;
  bool rebuilds_key_of_changed_column() const;
  enum_alter_inplace_result result_of_keys();

  const OpenTable &open_;
  TABLE *const table_, *const altered_;
  Alter_inplace_info *const alter_;
  const alter_table_operations operations_;
  const char *rebuild_reason_ = nullptr;  // the reason why rows are rewritten; nullptr: they are not rewritten
};

}  // namespace teak

#endif
