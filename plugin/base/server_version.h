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

#if MYSQL_VERSION_ID >= 101100 && MYSQL_VERSION_ID < 101200
#define TEAK_SERVER_11 0
#elif MYSQL_VERSION_ID >= 110800 && MYSQL_VERSION_ID < 110900
#define TEAK_SERVER_11 1
#else
#error "Teak is written for MariaDB 10.11 and 11.8; another series needs its own lines in plugin/base/server_version.h"
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

/* The callbacks of the handlerton for transactions have no handlerton as argument since 11.8. */
#if TEAK_SERVER_11
template <auto function> constexpr auto transaction_callback = function;
using DatabaseName = const LEX_CSTRING *;  // of discover_table_names()
#else
template <auto function> struct WithHandlerton;
template <typename Result, typename... Arguments, Result (*function)(Arguments...)> struct WithHandlerton<function> {
  static Result call(handlerton *, Arguments... arguments) { return function(arguments...); }
};
template <auto function> constexpr auto transaction_callback = &WithHandlerton<function>::call;
using DatabaseName = LEX_CSTRING *;
#endif

/* What the server announces to the target of an ALTER TABLE that copies rows; 11.8 has other names. */
#if TEAK_SERVER_11
constexpr ha_extra_function EXTRA_END_COPY = HA_EXTRA_END_ALTER_COPY, EXTRA_ABORT_COPY = HA_EXTRA_ABORT_ALTER_COPY;
#else
constexpr ha_extra_function EXTRA_END_COPY = HA_EXTRA_END_COPY, EXTRA_ABORT_COPY = HA_EXTRA_ABORT_COPY;
#endif

/* A key of a kind that Teak does not support, or nullptr. */
#if TEAK_SERVER_11
inline const char *special_kind(const KEY &key) {
  return key.algorithm == HA_KEY_ALG_FULLTEXT ? "FULLTEXT KEY"
         : key.algorithm == HA_KEY_ALG_RTREE  ? "SPATIAL KEY"
                                              : nullptr;
}
/* Such a key is not among the `keys` of the table; the server maintains it in another table of the engine. */
inline bool has_vector_key(TABLE_SHARE *share) { return share->hlindexes() != 0; }
#else
inline const char *special_kind(const KEY &key) {
  return (key.flags & HA_FULLTEXT) ? "FULLTEXT KEY" : (key.flags & HA_SPATIAL) ? "SPATIAL KEY" : nullptr;
}
inline bool has_vector_key(TABLE_SHARE *) { return false; }
#endif

/* For index_flags(). In 11.8 a clustered primary key is not a key that covers its columns, and it is known while the
   server reads a definition, before the table is open. */
#if TEAK_SERVER_11
constexpr ulong PRIMARY_KEY_FLAGS = HA_CLUSTERED_INDEX;
inline bool is_primary_key(const TABLE_SHARE *share, bool, uint key) { return key == share->primary_key; }
#else
constexpr ulong PRIMARY_KEY_FLAGS = HA_CLUSTERED_INDEX | HA_KEYREAD_ONLY | HA_DO_RANGE_FILTER_PUSHDOWN;
inline bool is_primary_key(const TABLE_SHARE *share, bool is_open, uint key) {
  return is_open && key == share->primary_key;
}
#endif

/* Whether two names of keys, databases or tables, which end with a zero, are equal without regard to case. */
inline bool is_same_name(const LEX_CSTRING &left, const LEX_CSTRING &right) {
#if TEAK_SERVER_11
  return Lex_ident_ci(left).streq(right);
#else
  return my_strcasecmp(system_charset_info, left.str, right.str) == 0;
#endif
}

/* An enumeration of texts, for an option or a variable; the last text is nullptr. */
template <size_t count> constexpr TYPELIB typelib_of(const char *name, const char *(&texts)[count]) {
#if TEAK_SERVER_11
  return {count - 1, name, texts, nullptr, nullptr};
#else
  return {count - 1, name, texts, nullptr};
#endif
}

/* The size of a page that Teak reports to the server. The constants of 10.11 for costs, which it counts in page reads, assume
   pages of this size; 11.8 counts milliseconds. */
constexpr uint COST_PAGE_BYTES = 16384;

}  // namespace teak

#endif
