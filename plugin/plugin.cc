/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* Loads and unloads the plugin, and implements the hooks that do not belong to one table: transactions, savepoints,
   KILL, SHOW ENGINE STATUS, DROP of a table that is not open.

   The folders of the plugin, lowest first; a folder includes only itself and folders listed before it:

     base        the server's headers, the C interface, errors, names of tables
     format      codecs of keys, rows and collations
     monitor     variables, INFORMATION_SCHEMA, status
     session     transactions and cursors of a connection, two-phase commit, query cache
     statistics  index statistics, the thread that samples them, and their table in the engine
     table       the state that all handlers of a table share; DROP, metadata, discovery, DDL recovery
     reports     tables of INFORMATION_SCHEMA that need definitions of tables
     alter       ALTER TABLE in place, OPTIMIZE TABLE, REPAIR TABLE
     handler     the handler class and its parts
     pushdown    queries that the engine computes: aggregates of a whole table */

#include "base/server_version.h"

#include <mysql/plugin.h>

#include "base/engine.h"
#include "base/errors.h"
#include "base/table_name.h"
#include "handler/ha_teak.h"
#include "monitor/backup.h"
#include "monitor/information_schema.h"
#include "monitor/status_variables.h"
#include "monitor/variables.h"
#include "pushdown/group_by.h"
#include "session/session.h"
#include "session/two_phase_commit.h"
#include "statistics/background_sampling.h"
#include "statistics/statistics_store.h"
#include "table/ddl_recovery.h"
#include "table/discovery.h"
#include "table/drop_table.h"
#include "table/table_metadata.h"
#include "table/tokudb_alias.h"

// A function of the server that none of its headers declares. It adds to the list of directories that are not shown as
// databases. It may be called only while the server starts.
void ignore_db_dirs_append(const char *directory);

namespace teak {

namespace {

// Where the engine moves index files that belong to no table.
constexpr const char *ORPHANS_DIRECTORY = "#teak_orphans";

handler *create_handler(handlerton *hton, TABLE_SHARE *share, MEM_ROOT *memory) {
  return new (memory) ha_teak(hton, share);
}

int commit(THD *thd, bool all) {
  Session *session = Session::find(thd);
  return session == nullptr ? 0 : session->commit(all);
}

int rollback(THD *thd, bool all) {
  Session *session = Session::find(thd);
  return session == nullptr ? 0 : session->rollback(all);
}

int prepare(THD *thd, bool all) {
  Session *session = Session::find(thd);
  return session == nullptr ? 0 : session->prepare(all);
}

void commit_ordered(THD *thd, bool all) {
  if (Session *session = Session::find(thd)) session->commit_ordered(all);
}

int close_connection(THD *thd) {
  Session *session = Session::find(thd);
  // Takes the lock under which KILL reads the pointer.
  thd_set_ha_data(thd, engine_handlerton, nullptr);
  delete session;
  return 0;
}

void kill_query(handlerton *, THD *thd, enum thd_kill_levels) {
  if (Session *session = Session::find(thd)) session->interrupt();
}

int savepoint_set(THD *thd, void *savepoint) {
  Session *session = Session::find(thd);
  if (session == nullptr) return HA_ERR_NO_SAVEPOINT;
  uint64_t mark = 0;
  int error = session->set_savepoint(&mark);
  memcpy(savepoint, &mark, sizeof(mark));  // the server does not align it
  return error;
}

int savepoint_rollback(THD *thd, void *savepoint) {
  Session *session = Session::find(thd);
  if (session == nullptr) return HA_ERR_NO_SAVEPOINT;
  uint64_t mark;
  memcpy(&mark, savepoint, sizeof(mark));
  return session->rollback_to_savepoint(mark);
}

/* Whether metadata locks taken since the savepoint can be released: only if the transaction has neither locks nor
   writes in the engine. */
bool savepoint_rollback_can_release_mdl(THD *thd) {
  Session *session = Session::find(thd);
  return session != nullptr && !session->holds_locks();
}

int savepoint_release(THD *, void *) { return 0; }

int start_consistent_snapshot(THD *thd) {
  Session *session = Session::find_or_create(thd);
  return session == nullptr ? HA_ERR_OUT_OF_MEM : session->take_snapshot();
}

bool flush_logs(handlerton *) {
  teak_status status = teak_engine_flush_log(engine);
  if (status != TEAK_OK) sql_print_error("TEAK: FLUSH LOGS: %s", LastErrorText().c_str());
  return status != TEAK_OK;
}

bool show_status(handlerton *, THD *thd, stat_print_fn *print, enum ha_stat_type type) {
  if (type != HA_ENGINE_STATUS) return false;
  struct Report {
    THD *thd;
    stat_print_fn *print;
    bool failed;
  };
  Report report = {thd, print, false};
  auto print_text = [](void *context, const char *text, size_t length) {
    auto *report = static_cast<Report *>(context);
    report->failed = report->print(report->thd, "TEAK", 4, "", 0, text, length);
  };
  teak_status status = teak_engine_get_status_text(engine, print_text, &report);
  if (status != TEAK_OK) raise(thd, status, "SHOW ENGINE TEAK STATUS");
  return status != TEAK_OK || report.failed;
}

/* BACKUP STAGE START, with which mariadb-backup begins. mariadb-backup copies only files with known extensions, and
   no files of Teak. Without this warning, a backup that the command `teak backup` has not armed would seem complete. */
void prepare_for_backup() {
  if (begin_backup_stage()) return;
  bool has_tables = false;
  // The table of index statistics does not count, because it is only a cache. Temporary tables are not listed.
  auto note = [](void *context, teak_slice name) { *static_cast<bool *>(context) |= !statistics_store::is_name(name); };
  if (teak_table_list(engine, note, &has_tables) == TEAK_OK && !has_tables) return;
  static const char text[] =
      "mariadb-backup does not copy Teak tables: this backup will not contain their rows. Use "
      "the command `teak backup`, which runs mariadb-backup";
  sql_print_warning("TEAK: %s", text);
  if (THD *thd = current_thd)
    push_warning_printf(thd, Sql_condition::WARN_LEVEL_WARN, ER_GET_ERRMSG, ER_THD(thd, ER_GET_ERRMSG),
                        static_cast<int>(HA_ERR_UNSUPPORTED), text, "TEAK");
}

int drop_table(handlerton *, const char *path) { return drop_table_by_path(path); }

void log_message(void *, teak_log_level level, const char *text, size_t length) {
  int shown = static_cast<int>(length < 4096 ? length : 4096);
  if (level == TEAK_LOG_NOTE)
    sql_print_information("TEAK: %.*s", shown, text);
  else if (level == TEAK_LOG_WARNING)
    sql_print_warning("TEAK: %.*s", shown, text);
  else
    sql_print_error("TEAK: %.*s", shown, text);
}

/* Called before a session waits for another session's transaction, which cannot end during this call. A replica's
   workers commit in the order of the primary: if the blocking transaction must commit later, the server kills and
   retries it. The server also uses these reports to mark, in the binary log, transactions that waited, and to end a
   delayed group commit early. */
void wait_begins(void *waiter, void *holder) {
  thd_rpl_deadlock_check(static_cast<THD *>(waiter), static_cast<THD *>(holder));
}

int init(void *plugin) {
  auto *hton = static_cast<handlerton *>(plugin);
  teak_engine_options options;
  bzero(&options, sizeof(options));
  options.struct_size = sizeof(options);
  options.directory = {reinterpret_cast<const uint8_t *>(mysql_real_data_home), strlen(mysql_real_data_home)};
  options.log_message = log_message;
  options.wait_begins = wait_begins;
  fill_options(&options);
  teak_status status = teak_engine_open(&options, &engine);
  if (status != TEAK_OK) {
    engine = nullptr;
    sql_print_error("TEAK: cannot start: %s", LastErrorText().c_str());
    return 1;
  }
  // After INSTALL SONAME other threads may be reading the list, which has no lock.
  if (!mysqld_server_started) ignore_db_dirs_append(ORPHANS_DIRECTORY);

  static const char *extensions[] = {".teak", NullS};
  engine_handlerton = hton;
  hton->db_type = DB_TYPE_AUTOASSIGN;
  hton->flags = HTON_SUPPORTS_EXTENDED_KEYS;
  hton->create = create_handler;
  hton->check_version = check_table_version;
  hton->drop_table = drop_table;
  hton->discover_table = discover_table;
  hton->discover_table_names = discover_table_names;
  hton->discover_table_existence = discover_table_existence;
  hton->commit = transaction_callback<commit>;
  hton->rollback = transaction_callback<rollback>;
  hton->prepare = transaction_callback<prepare>;
  hton->commit_ordered = transaction_callback<commit_ordered>;
  hton->commit_checkpoint_request = commit_checkpoint_request;
  hton->recover = transaction_callback<recover_prepared>;
  hton->commit_by_xid = transaction_callback<commit_by_xid>;
  hton->rollback_by_xid = transaction_callback<rollback_by_xid>;
  hton->savepoint_offset = sizeof(uint64_t);
  hton->savepoint_set = transaction_callback<savepoint_set>;
  hton->savepoint_rollback = transaction_callback<savepoint_rollback>;
  hton->savepoint_rollback_can_release_mdl = transaction_callback<savepoint_rollback_can_release_mdl>;
  hton->savepoint_release = transaction_callback<savepoint_release>;
  hton->create_group_by = create_group_by;
  hton->start_consistent_snapshot = transaction_callback<start_consistent_snapshot>;
  hton->close_connection = transaction_callback<close_connection>;
  hton->kill_query = kill_query;
  hton->flush_logs = flush_logs;
  hton->show_status = show_status;
  hton->prepare_for_backup = prepare_for_backup;
  hton->end_backup = end_backup_stage;
  hton->signal_ddl_recovery_done = finish_ddl_recovery;
  hton->table_options = table_options;
  hton->index_options = index_options;
  hton->tablefile_extensions = extensions;
  declare_read_times<READ_TIMES>(hton);
  return 0;
}

int deinit(void *) {
  if (engine == nullptr) return 0;
  background_sampling::stop();
  statistics_store::close();
  query_cache_use::forget_all();
  teak_status status = teak_engine_close(engine);
  engine = nullptr;
  if (status != TEAK_OK) sql_print_error("TEAK: shutdown: %s", LastErrorText().c_str());
  return status == TEAK_OK ? 0 : 1;
}

struct st_mysql_storage_engine storage_engine = {MYSQL_HANDLERTON_INTERFACE_VERSION};
struct st_mysql_storage_engine tokudb_alias_engine = {MYSQL_HANDLERTON_INTERFACE_VERSION};

}  // namespace

}  // namespace teak

static constexpr st_maria_plugin information_schema_table(const char *name, const char *description,
                                                          int (*init)(void *)) {
  return {MYSQL_INFORMATION_SCHEMA_PLUGIN,
          &teak::information_schema_info,
          name,
          "The Teak contributors",
          description,
          PLUGIN_LICENSE_GPL,
          init,
          teak::deinit_table,
          0x0001,
          nullptr,
          nullptr,
          "0.1",
          MariaDB_PLUGIN_MATURITY_EXPERIMENTAL};
}

// clang-format off
maria_declare_plugin(teak) {
  MYSQL_STORAGE_ENGINE_PLUGIN,
  &teak::storage_engine,
  "TEAK",
  "The Teak contributors",
  "Write-optimised, compressed, transactional tables",
  PLUGIN_LICENSE_GPL,
  teak::init,
  teak::deinit,
  0x0001,
  teak::status_variables,
  teak::system_variables,
  "0.1",
  MariaDB_PLUGIN_MATURITY_EXPERIMENTAL
},
{
  MYSQL_STORAGE_ENGINE_PLUGIN,
  &teak::tokudb_alias_engine,
  "TokuDB",
  "The Teak contributors",
  "Another name of TEAK in CREATE TABLE and ALTER TABLE, with teak_tokudb_alias=ON",
  PLUGIN_LICENSE_GPL,
  teak::init_tokudb_alias,
  teak::deinit_tokudb_alias,
  0x0001,
  nullptr,
  nullptr,
  "0.1",
  MariaDB_PLUGIN_MATURITY_EXPERIMENTAL
},
information_schema_table("TEAK_TRX", "Transactions of Teak", teak::init_trx_table),
information_schema_table("TEAK_LOCKS", "Locks of transactions of Teak", teak::init_locks_table),
information_schema_table("TEAK_LOCK_WAITS", "Lock waits between transactions of Teak", teak::init_lock_waits_table),
information_schema_table("TEAK_INDEXES", "Indexes of Teak tables with their files", teak::init_indexes_table),
information_schema_table("TEAK_ENCRYPTION", "Keys of the files of Teak tables", teak::init_encryption_table),
information_schema_table("TEAK_COLUMNS", "Columns of Teak indexes as pages store them", teak::init_columns_table),
information_schema_table("TEAK_BACKGROUND_JOBS", "Background jobs of Teak", teak::init_background_jobs_table),
information_schema_table("TEAK_LOG", "The write-ahead log of Teak", teak::init_log_table),
information_schema_table("TEAK_BACKUPS", "The newest hot backup of Teak", teak::init_backups_table),
information_schema_table("TEAK_BLOCK_MAP", "Extents of the files of Teak tables", teak::init_block_map_table)
maria_declare_plugin_end;
// clang-format on
