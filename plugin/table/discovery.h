/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* Table discovery: the metadata of a table in the engine contains its .frm file, so a lost .frm file is written again
   when the table is used. Partitions, temporary tables and the tables of an unfinished ALTER TABLE are not discovered. */

#ifndef TEAK_TABLE_DISCOVERY_H
#define TEAK_TABLE_DISCOVERY_H

#include "base/server_version.h"

#include <string>

#include "table/table_metadata.h"

namespace teak {

/* ---- hooks of the handlerton ---- */

/* Reads the definition of a table without a .frm file from its metadata, and writes the file. */
int discover_table(handlerton *hton, THD *thd, TABLE_SHARE *share);
/* Adds to `result` the tables of a database that have no .frm file. */
int discover_table_names(handlerton *hton, DatabaseName database, MY_DIR *directory,
                         handlerton::discovered_list *result);
int discover_table_existence(handlerton *hton, const char *database, const char *table);

/* ---- */

/* Compares the version of the definition that the server has read with that in the table's metadata. Stores the
   server's definition if the metadata contains none, or no version. If the versions differ, returns
   HA_ERR_TABLE_DEF_CHANGED if the metadata contains the definition (the server then deletes the .frm file and
   discovers the table), otherwise ERROR_OF_ENGINE. If they do not differ, returns 0. Partitions and temporary tables
   are not checked. */
int check_definition(const char *path, const TABLE_SHARE *share, TableMetadata *metadata, std::string *cause);

/* Renames a table, or a partition, in the engine. If a table becomes a partition, its definition is removed from its
   metadata. If a partition becomes a table, the .frm file of the new name is stored in its metadata. */
teak_status rename_engine_table(const char *from, const char *to);

}  // namespace teak

#endif
