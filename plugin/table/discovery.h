/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* Table discovery: the metadata of each table contains its .frm file, so a lost one is written again when the table is
   used. Partitions and the tables of an unfinished ALTER TABLE are never discovered. */

#ifndef TEAK_TABLE_DISCOVERY_H
#define TEAK_TABLE_DISCOVERY_H

#include "base/server_version.h"

#include <string>

#include "table/table_metadata.h"

namespace teak {

/* ---- hooks of the handlerton ---- */

/* Reads the definition of a table without a .frm file, and writes the file. */
int discover_table(handlerton *hton, THD *thd, TABLE_SHARE *share);
/* Adds the tables of a database that have no .frm file. */
int discover_table_names(handlerton *hton, LEX_CSTRING *database, MY_DIR *directory,
                         handlerton::discovered_list *result);
int discover_table_existence(handlerton *hton, const char *database, const char *table);

/* ---- */

/* Compares the definition that the server has read with the one in the table's metadata, which decides. Stores the
   server's definition if the metadata has none. `path`: of the table. Returns 0 or an error; after
   HA_ERR_TABLE_DEF_CHANGED the server deletes the .frm file and discovers the table. */
int check_definition(const char *path, const TABLE_SHARE *share, TableMetadata *metadata, std::string *cause);

/* Renames a table, or a partition, in the engine. A table that becomes a partition, or that was one, takes over the .frm
   file that has its new name. */
teak_status rename_engine_table(const char *from, const char *to);

}  // namespace teak

#endif
