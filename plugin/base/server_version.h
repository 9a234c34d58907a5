/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* The server's headers, in the required order, and all code that depends on the server's version. Files
   outside of format/ that need the server's headers include this one, and further headers only as needed. */

#ifndef TEAK_BASE_SERVER_VERSION_H
#define TEAK_BASE_SERVER_VERSION_H

#include <my_global.h>

#include <mysql_version.h>

#if MYSQL_VERSION_ID < 101100 || MYSQL_VERSION_ID >= 101200
#error "Teak is written for MariaDB 10.11; another series needs its own lines in plugin/base/server_version.h"
#endif

#include "sql_class.h"

#include "create_options.h"
#include "field.h"
#include "handler.h"
#include "key.h"
#include "log.h"
#include "rowid_filter.h"
#include "sql_alter.h"
#include "sql_cache.h"
#include "sql_plugin.h"
#include "sql_table.h"
#include "table.h"

#include <mysql/plugin.h>

/* Functions of the server that no header declares. */
extern "C" int thd_rpl_deadlock_check(THD *thd,
                                      THD *other_thd);  // `thd` is about to wait for a transaction of `other_thd`
extern "C" int thd_binlog_format(const MYSQL_THD thd);  // BINLOG_FORMAT_UNSPEC: no binary log
extern "C" bool thd_binlog_filter_ok(const MYSQL_THD thd);
extern "C" bool thd_sqlcom_can_generate_row_events(const MYSQL_THD thd);

namespace teak {

/* Whether the connection is in a multi-statement transaction, so that the end of a statement is not a commit. */
inline bool in_multi_statement_transaction(THD *thd) {
  return thd_test_options(thd, OPTION_NOT_AUTOCOMMIT | OPTION_BEGIN);
}

/* Whether the running statement may be logged as text (statement-based replication). Also valid within functions and
   triggers, whose own statements are not logged. Valid after the server has locked all tables. */
inline bool logged_as_text(THD *thd) {
  return mysql_bin_log.is_open() && thd->variables.sql_log_bin && !thd->is_current_stmt_binlog_format_row();
}

/* Whether the server's query cache is in use. */
inline bool query_cache_in_use() { return !query_cache.is_disabled(); }

/* MariaDB 10.11 counts a plan's cost in page reads; its constants assume pages of 16 KiB. From 11.0 on the cost model is
   different. */
constexpr uint COST_PAGE_BYTES = 16384;

}  // namespace teak

#endif
