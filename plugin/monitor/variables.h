/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* System variables teak_*, and the options of tables and keys. */

#ifndef TEAK_MONITOR_VARIABLES_H
#define TEAK_MONITOR_VARIABLES_H

#include "base/server_version.h"

#include "base/core.h"

/* The options of a table; the server requires this name. `compression` is the position of the option's value in
   compression_typelib. */
struct ha_table_option_struct {
  uint compression;
  ulonglong page_bytes;
  uint encrypted;  // a table_encryption
  uint encryption_key_id;
};

/* The options of a key; the server requires this name, too. */
struct ha_index_option_struct {
  bool clustering;
  uint compression;  // 0: that of the table; otherwise a position in compression_typelib plus one
};

namespace teak {

/* The option ENCRYPTED of a table. */
enum table_encryption : uint { ENCRYPTED_DEFAULT, ENCRYPTED_YES, ENCRYPTED_NO };

/* The variable teak_encrypt_tables. */
enum encrypted_tables : ulong { ENCRYPT_OFF, ENCRYPT_ON, ENCRYPT_FORCE };

extern ha_create_table_option table_options[];
extern ha_create_table_option index_options[];
extern struct st_mysql_sys_var *system_variables[];

/* In milliseconds; 0: do not wait. */
uint session_lock_timeout(THD *thd);
bool read_free_replication();
bool session_condition_pushdown(THD *thd);
bool session_group_by_pushdown(THD *thd);
bool session_refuse_stale_writes(THD *thd);
bool session_commit_sync(THD *thd);
ulonglong session_bulk_load_threshold(THD *thd);
/* How fast a statement may insert many rows; 0: no limit. */
ulonglong session_bulk_load_rows_per_second(THD *thd);
ulonglong session_bulk_load_bytes_per_second(THD *thd);

/* Whether the background thread samples tables. */
bool auto_analyze();
/* How long one ANALYZE TABLE may take; nullptr: the background thread. */
uint analyze_seconds(THD *thd);

/* Which tables are encrypted. */
encrypted_tables encrypt_tables();

/* Whether ENGINE=TokuDB is accepted. */
bool tokudb_alias();

/* The limits of hot backups. */
uint64_t backup_bytes_per_second();
uint64_t backup_lease_milliseconds();
uint64_t backup_max_pinned_bytes();

/* The caller owns the text; it must remain valid until another text is set or the connection ends. */
void set_session_last_lock_timeout(THD *thd, char *text);

/* Fills the options from the variables, with defaults that depend on the machine. The caller sets the directory and
   the callbacks. */
void fill_options(teak_engine_options *options);

}  // namespace teak

#endif
