/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* ENGINE=TokuDB as another name of ENGINE=TEAK, with teak_tokudb_alias=ON.

   The server finds an engine by the name of its plugin, so ha_teak.so declares a second engine with this name. It has no
   tables. A statement with ENGINE=TokuDB begins with its handlerton, which has the slot of Teak's one. From the slot the
   server takes the name that it writes to the .frm file, to the DDL log and to errors, and the plugin whose tables it
   opens. So the table is a table of TEAK as soon as it has a definition. */

#ifndef TEAK_TABLE_TOKUDB_ALIAS_H
#define TEAK_TABLE_TOKUDB_ALIAS_H

namespace teak {

/* The functions of the plugin TokuDB. */
int init_tokudb_alias(void *plugin);
int deinit_tokudb_alias(void *);

}  // namespace teak

#endif
