/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* See grouped_tables.h. */

#include "pushdown/grouped_tables.h"

#include "ha_partition.h"
#include "partition_info.h"

#include "base/engine.h"
#include "handler/ha_teak.h"

namespace teak {

namespace {

/* Whether values of both contain the same columns. A partition that was another table may lack some of a key. */
bool have_equal_columns(const TABLE *table, const RowCodec &one, const RowCodec &other) {
  for (uint32_t i = 0; i < table->s->fields; i++)
    if (one.number_of(i) != other.number_of(i)) return false;
  return true;
}

}  // namespace

std::vector<OpenTable *> grouped_tables(const TABLE *table) {
  std::vector<handler *> files;
  if (table->file->ht == engine_handlerton) {
    files.push_back(table->file);
  } else if (table->part_info != nullptr) {
    handler **parts = static_cast<ha_partition *>(table->file)->get_child_handlers();
    const MY_BITMAP *read = &table->part_info->read_partitions;
    for (uint i = bitmap_get_first_set(read); i < table->part_info->get_tot_partitions();
         i = bitmap_get_next_set(read, i))
      files.push_back(parts[i]);
  }
  std::vector<OpenTable *> tables;
  for (handler *file : files) {
    OpenTable *open = static_cast<ha_teak *>(file)->open_to_compute();
    if (open == nullptr) return {};
    if (!tables.empty() && !have_equal_columns(table, tables.front()->share()->rows(), open->share()->rows()))
      return {};
    tables.push_back(open);
  }
  return tables;
}

}  // namespace teak
