/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* System variables teak_*, status variables, and the options of CREATE TABLE. */

#ifndef TEAK_MONITOR_VARIABLES_H
#define TEAK_MONITOR_VARIABLES_H

#include "base/server_version.h"

#include "base/core.h"

/* The server wants this name. `compression` counts the values of the variable of that name; see codec_of(). */
struct ha_table_option_struct {
  uint compression;
  ulonglong page_bytes;
};

namespace teak {

extern ha_create_table_option table_options[];
extern struct st_mysql_sys_var *system_variables[];
extern struct st_mysql_show_var status_variables[];

/* Milliseconds. */
uint session_lock_timeout(THD *thd);
bool session_snapshot_isolation(THD *thd);
bool session_commit_sync(THD *thd);

/* The codec of a table's option COMPRESSION. */
inline teak_codec codec_of(uint compression) { return static_cast<teak_codec>(TEAK_CODEC_NONE + compression); }

/* The text stays the caller's and must live until another is set or the connection ends. */
void set_session_last_lock_timeout(THD *thd, char *text);

/* What the server was started with, completed with defaults that depend on the machine. Strings are the caller's. */
void fill_options(teak_engine_options *options);

}  // namespace teak

#endif
