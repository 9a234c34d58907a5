/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* See variables.h. */

#include "monitor/variables.h"

#include "base/compression.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "base/engine.h"
#include "base/encryption_keys.h"
#include "base/errors.h"
#include "monitor/backup.h"

namespace teak {

namespace {

constexpr ulonglong CACHE_BYTES_MIN = 16ULL << 20;

/* The key of the log, as in InnoDB. */
constexpr uint32_t LOG_KEY = 1;

ulonglong cache_size;
ulonglong log_size_max;
uint fsync_log_period;
uint background_threads;
uint checkpoint_period;
uint io_capacity;
my_bool directio;
my_bool accepts_tokudb;
my_bool analyzes_automatically;
my_bool reads_no_replicated_rows;
my_bool encrypts_log;
ulong encrypts_tables;
uint open_files;
ulonglong max_lock_memory;
ulonglong loader_memory_size;
char *tmp_dir;
char *backup_target;
std::string backup_directory;  // the value of the variable
uint backup_throttle;
uint backup_lease;
ulonglong max_pinned_bytes;

ulonglong half_of_memory() {
  long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
  ulonglong half = pages > 0 && page > 0 ? static_cast<ulonglong>(pages) * static_cast<ulonglong>(page) / 2 : 0;
  return half > CACHE_BYTES_MIN ? half : CACHE_BYTES_MIN;
}

// 0 means the default.
ulonglong cache_bytes(ulonglong wanted) { return wanted == 0 ? half_of_memory() : std::max(wanted, CACHE_BYTES_MIN); }

void update_cache_size(THD *thd, st_mysql_sys_var *, void *, const void *save) {
  ulonglong bytes = cache_bytes(*static_cast<const ulonglong *>(save));
  teak_status status = engine == nullptr ? TEAK_OK : teak_engine_set_cache_bytes(engine, bytes);
  if (status == TEAK_OK)
    cache_size = bytes;
  else
    raise(thd, status, "teak_cache_size");
}

// 0 in SQL is TEAK_NEVER in the engine.
uint32_t log_sync_period(uint milliseconds) { return milliseconds == 0 ? TEAK_NEVER : milliseconds; }

void update_fsync_log_period(THD *thd, st_mysql_sys_var *, void *, const void *save) {
  uint milliseconds = *static_cast<const uint *>(save);
  teak_status status =
      engine == nullptr ? TEAK_OK : teak_engine_set_log_sync_period(engine, log_sync_period(milliseconds));
  if (status == TEAK_OK)
    fsync_log_period = milliseconds;
  else
    raise(thd, status, "teak_fsync_log_period");
}

// 0 in SQL is TEAK_NO_LIMIT in the engine.
uint64_t io_bytes_per_second(uint mebibytes) {
  return mebibytes == 0 ? TEAK_NO_LIMIT : static_cast<uint64_t>(mebibytes) << 20;
}

void update_io_capacity(THD *thd, st_mysql_sys_var *, void *, const void *save) {
  uint mebibytes = *static_cast<const uint *>(save);
  teak_status status =
      engine == nullptr ? TEAK_OK : teak_engine_set_io_bytes_per_second(engine, io_bytes_per_second(mebibytes));
  if (status == TEAK_OK)
    io_capacity = mebibytes;
  else
    raise(thd, status, "teak_io_capacity");
}

void update_max_lock_memory(THD *thd, st_mysql_sys_var *, void *, const void *save) {
  ulonglong bytes = *static_cast<const ulonglong *>(save);
  teak_status status = engine == nullptr ? TEAK_OK : teak_engine_set_lock_bytes_max(engine, bytes);
  if (status == TEAK_OK)
    max_lock_memory = bytes;
  else
    raise(thd, status, "teak_max_lock_memory");
}

void update_loader_memory_size(THD *thd, st_mysql_sys_var *, void *, const void *save) {
  ulonglong bytes = *static_cast<const ulonglong *>(save);
  teak_status status = engine == nullptr ? TEAK_OK : teak_engine_set_sort_bytes_max(engine, bytes);
  if (status == TEAK_OK)
    loader_memory_size = bytes;
  else
    raise(thd, status, "teak_loader_memory_size");
}

void update_backup_target(THD *, st_mysql_sys_var *, void *target, const void *save) {
  const char *directory = *static_cast<const char *const *>(save);
  // Ending a backup may remove large files. Statements that use any variable need the lock.
  mysql_mutex_unlock(&LOCK_global_system_variables);
  const bool failed = request_backup(directory);
  mysql_mutex_lock(&LOCK_global_system_variables);
  if (failed) return;
  // Statements that read the variable hold the lock, too.
  backup_directory = directory == nullptr ? "" : directory;
  *static_cast<char **>(target) = backup_directory.data();
}

}  // namespace

static MYSQL_SYSVAR_STR(backup_target, backup_target, PLUGIN_VAR_RQCMDARG | PLUGIN_VAR_NOCMDOPT,
                        "Directory of a hot backup. SET GLOBAL arms the backup: it begins when BACKUP STAGE END ends a "
                        "backup that has blocked commits, for example one of mariadb-backup. Empty: cancels it. The "
                        "command `teak backup` sets it",
                        nullptr, update_backup_target, "");

static MYSQL_SYSVAR_UINT(backup_throttle, backup_throttle, PLUGIN_VAR_RQCMDARG,
                         "MiB per second that a hot backup copies. 0: no limit", nullptr, nullptr, 0, 0, 1 << 20, 0);

static MYSQL_SYSVAR_UINT(
    backup_lease, backup_lease, PLUGIN_VAR_RQCMDARG,
    "Seconds after which a hot backup is cancelled that makes no progress, or is armed and does not begin", nullptr,
    nullptr, 600, 1, 86400, 0);

static MYSQL_SYSVAR_ULONGLONG(
    backup_max_pinned_bytes, max_pinned_bytes, PLUGIN_VAR_RQCMDARG,
    "Bytes on the disk that a hot backup may retain: freed blocks, files of dropped tables and trimmed log segments "
    "that are not copied yet. A backup that needs more is cancelled. 0: no limit",
    nullptr, nullptr, 64ULL << 30, 0, ULONGLONG_MAX, 0);

static MYSQL_SYSVAR_ULONGLONG(cache_size, cache_size, PLUGIN_VAR_RQCMDARG,
                              "Memory budget of the engine in bytes: page cache, memtables, nodes, locks, buffers, "
                              "sorts. 0: half of the machine's "
                              "memory; the minimum is 16 MiB",
                              nullptr, update_cache_size, 0, 0, ULONGLONG_MAX, 0);

static MYSQL_THDVAR_BOOL(
    commit_sync, PLUGIN_VAR_OPCMDARG,
    "COMMIT returns when the commit is on disk. OFF: the log is synced in the background; a crash may lose the most "
    "recent commits, but never part of one",
    nullptr, nullptr, true);

static MYSQL_THDVAR_ULONGLONG(bulk_load_threshold, PLUGIN_VAR_RQCMDARG,
                              "LOAD DATA, INSERT ... SELECT, CREATE TABLE ... SELECT and INSERT of more rows than this "
                              "number of bytes write the rows "
                              "to the files of the table, without log records for them",
                              nullptr, nullptr, 4 << 20, 0, ULONGLONG_MAX, 0);

static MYSQL_THDVAR_ULONGLONG(bulk_load_bytes_per_second, PLUGIN_VAR_RQCMDARG,
                              "Bytes per second of keys and values that LOAD DATA, INSERT ... SELECT, CREATE TABLE ... "
                              "SELECT and ALTER TABLE ... ALGORITHM=COPY insert. 0: no limit",
                              nullptr, nullptr, 0, 0, ULONGLONG_MAX, 0);

static MYSQL_THDVAR_ULONGLONG(bulk_load_rows_per_second, PLUGIN_VAR_RQCMDARG,
                              "Rows per second that LOAD DATA, INSERT ... SELECT, CREATE TABLE ... SELECT and ALTER "
                              "TABLE ... ALGORITHM=COPY insert. 0: no limit",
                              nullptr, nullptr, 0, 0, ULONGLONG_MAX, 0);

static MYSQL_SYSVAR_BOOL(tokudb_alias, accepts_tokudb, PLUGIN_VAR_OPCMDARG | PLUGIN_VAR_READONLY,
                         "CREATE TABLE and ALTER TABLE accept ENGINE=TokuDB as another name of ENGINE=TEAK", nullptr,
                         nullptr, false);

static MYSQL_SYSVAR_BOOL(auto_analyze, analyzes_automatically, PLUGIN_VAR_OPCMDARG,
                         "A background thread samples the indexes of tables after 30 % of their rows have changed, as "
                         "ANALYZE TABLE does",
                         nullptr, nullptr, true);

static MYSQL_THDVAR_UINT(analyze_time, PLUGIN_VAR_RQCMDARG,
                         "Seconds within which ANALYZE TABLE samples a table or partition. The background thread uses "
                         "the global value",
                         nullptr, nullptr, 5, 1, 3600, 0);

static MYSQL_SYSVAR_UINT(
    fsync_log_period, fsync_log_period, PLUGIN_VAR_RQCMDARG,
    "Milliseconds within which the log is synced after commits under teak_commit_sync=OFF. 0: the log is only synced "
    "when a segment is full, when 16 MiB are not synced, by commits that wait for a sync, and by checkpoints",
    nullptr, update_fsync_log_period, 1000, 0, 3600000, 0);

static MYSQL_SYSVAR_UINT(background_threads, background_threads, PLUGIN_VAR_RQCMDARG | PLUGIN_VAR_READONLY,
                         "Number of threads that flush and merge. 0: one per processor", nullptr, nullptr, 0, 0, 1024,
                         0);

static MYSQL_SYSVAR_UINT(checkpoint_period, checkpoint_period, PLUGIN_VAR_RQCMDARG | PLUGIN_VAR_READONLY,
                         "Seconds between rounds of checkpoints", nullptr, nullptr, 60, 1, 86400, 0);

static MYSQL_SYSVAR_BOOL(read_free_replication, reads_no_replicated_rows, PLUGIN_VAR_OPCMDARG,
                         "A replica changes and deletes rows without reading them, if row events have all columns",
                         nullptr, nullptr, false);

static MYSQL_SYSVAR_BOOL(directio, directio, PLUGIN_VAR_OPCMDARG | PLUGIN_VAR_READONLY,
                         "Index files bypass the cache of the operating system (O_DIRECT), if the file system allows "
                         "it. The log does not",
                         nullptr, nullptr, false);

static MYSQL_SYSVAR_UINT(
    io_capacity, io_capacity, PLUGIN_VAR_RQCMDARG,
    "MiB per second that flushes, merges and other background jobs may read and write. Jobs that writers wait for are "
    "not limited. 0: no limit",
    nullptr, update_io_capacity, 256, 0, 1 << 20, 0);

static MYSQL_SYSVAR_ULONGLONG(
    log_size_max, log_size_max, PLUGIN_VAR_RQCMDARG | PLUGIN_VAR_READONLY,
    "Bound of the log in bytes. Checkpoints start at a quarter of it. Writers are slowed from half of it on, and wait "
    "near the bound until a checkpoint has shortened the log",
    nullptr, nullptr, 1ULL << 30, 32ULL << 20, ULONGLONG_MAX, 1 << 20);

static MYSQL_SYSVAR_UINT(
    open_files, open_files, PLUGIN_VAR_RQCMDARG | PLUGIN_VAR_READONLY,
    "Number of index and log files that are kept open; others are closed and opened again on demand. "
    "0: half of open_files_limit; the maximum is three quarters of it",
    nullptr, nullptr, 0, 0, UINT_MAX32, 0);

static MYSQL_SYSVAR_ULONGLONG(
    max_lock_memory, max_lock_memory, PLUGIN_VAR_RQCMDARG,
    "Memory for row and range locks in bytes. When it is nearly full, the row locks of the transaction with the most "
    "lock memory are replaced by range locks. 0: an eighth of teak_cache_size",
    nullptr, update_max_lock_memory, 0, 0, ULONGLONG_MAX, 0);

static MYSQL_SYSVAR_ULONGLONG(
    loader_memory_size, loader_memory_size, PLUGIN_VAR_RQCMDARG,
    "Memory in bytes for the sorts of one statement: a bulk load, ALTER TABLE or REPAIR TABLE. It is part of "
    "teak_cache_size, and at most a quarter of it. 0: an eighth of teak_cache_size, at most 256 MiB",
    nullptr, update_loader_memory_size, 0, 0, ULONGLONG_MAX, 0);

static MYSQL_SYSVAR_STR(tmp_dir, tmp_dir, PLUGIN_VAR_RQCMDARG | PLUGIN_VAR_READONLY,
                        "Directory for spill files of bulk loads, ALTER TABLE and REPAIR TABLE. Empty: the data "
                        "directory",
                        nullptr, nullptr, "");

// The two largest values have other meanings in the engine: TEAK_NO_WAIT and TEAK_NEVER.
static MYSQL_THDVAR_UINT(lock_timeout, PLUGIN_VAR_RQCMDARG,
                         "Milliseconds that a statement waits for a lock of another transaction", nullptr, nullptr,
                         4000, 0, UINT_MAX32 - 2, 0);

// The session owns the text.
static MYSQL_THDVAR_STR(last_lock_timeout, PLUGIN_VAR_READONLY | PLUGIN_VAR_NOCMDOPT,
                        "The last lock wait of this session that ended in a timeout or a deadlock, as JSON", nullptr,
                        nullptr, nullptr);

static MYSQL_THDVAR_BOOL(
    refuse_stale_writes, PLUGIN_VAR_RQCMDARG,
    "Locking or writing a row that another transaction has changed since this transaction's snapshot fails with "
    "ER_CHECKREAD. OFF: locking reads and writes use the newest committed version",
    nullptr, nullptr, false);

static MYSQL_THDVAR_BOOL(condition_pushdown, PLUGIN_VAR_OPCMDARG,
                         "Scans of a whole table that take no locks decode the columns of WHERE first, and pass over "
                         "pages without matching rows",
                         nullptr, nullptr, true);

static MYSQL_THDVAR_BOOL(group_by_pushdown, PLUGIN_VAR_OPCMDARG,
                         "COUNT, SUM, AVG, MIN and MAX of a whole table, with WHERE and GROUP BY, are computed by "
                         "column in the engine, where the "
                         "results are exactly those of the server",
                         nullptr, nullptr, true);

static MYSQL_THDVAR_ENUM(row_format, PLUGIN_VAR_RQCMDARG, "COMPRESSION of tables that are created without this option",
                         nullptr, nullptr, 2, &compression_typelib);

static MYSQL_THDVAR_ULONGLONG(page_size, PLUGIN_VAR_RQCMDARG,
                              "PAGE_SIZE, in bytes before compression, of tables that are created without this option",
                              nullptr, nullptr, 65536, 4096, 4194304, 1024);

const char *encrypt_tables_names[] = {"OFF", "ON", "FORCE", nullptr};
TYPELIB encrypt_tables_typelib = {array_elements(encrypt_tables_names) - 1, "", encrypt_tables_names, nullptr};

static MYSQL_SYSVAR_ENUM(encrypt_tables, encrypts_tables, PLUGIN_VAR_RQCMDARG,
                         "Whether tables without the option ENCRYPTED are encrypted, when they are created or altered. "
                         "FORCE: ENCRYPTED=NO is refused, too",
                         nullptr, nullptr, ENCRYPT_OFF, &encrypt_tables_typelib);

static MYSQL_SYSVAR_BOOL(encrypt_log, encrypts_log, PLUGIN_VAR_OPCMDARG | PLUGIN_VAR_READONLY,
                         "Encrypts the log, with key 1 of the server's encryption plugin", nullptr, nullptr, false);

static MYSQL_THDVAR_UINT(default_encryption_key_id, PLUGIN_VAR_RQCMDARG,
                         "ENCRYPTION_KEY_ID of tables that are created without this option", nullptr, nullptr, 1, 1,
                         UINT_MAX32, 0);

uint64_t backup_bytes_per_second() { return static_cast<uint64_t>(backup_throttle) << 20; }

uint64_t backup_lease_milliseconds() { return static_cast<uint64_t>(backup_lease) * 1000; }

uint64_t backup_max_pinned_bytes() { return max_pinned_bytes; }

struct st_mysql_sys_var *system_variables[] = {MYSQL_SYSVAR(cache_size),
                                               MYSQL_SYSVAR(commit_sync),
                                               MYSQL_SYSVAR(background_threads),
                                               MYSQL_SYSVAR(log_size_max),
                                               MYSQL_SYSVAR(lock_timeout),
                                               MYSQL_SYSVAR(checkpoint_period),
                                               MYSQL_SYSVAR(row_format),
                                               MYSQL_SYSVAR(page_size),
                                               MYSQL_SYSVAR(open_files),
                                               MYSQL_SYSVAR(refuse_stale_writes),
                                               MYSQL_SYSVAR(condition_pushdown),
                                               MYSQL_SYSVAR(read_free_replication),
                                               MYSQL_SYSVAR(group_by_pushdown),
                                               MYSQL_SYSVAR(max_lock_memory),
                                               MYSQL_SYSVAR(last_lock_timeout),
                                               MYSQL_SYSVAR(fsync_log_period),
                                               MYSQL_SYSVAR(io_capacity),
                                               MYSQL_SYSVAR(directio),
                                               MYSQL_SYSVAR(bulk_load_threshold),
                                               MYSQL_SYSVAR(bulk_load_rows_per_second),
                                               MYSQL_SYSVAR(bulk_load_bytes_per_second),
                                               MYSQL_SYSVAR(auto_analyze),
                                               MYSQL_SYSVAR(analyze_time),
                                               MYSQL_SYSVAR(tokudb_alias),
                                               MYSQL_SYSVAR(loader_memory_size),
                                               MYSQL_SYSVAR(tmp_dir),
                                               MYSQL_SYSVAR(backup_target),
                                               MYSQL_SYSVAR(backup_throttle),
                                               MYSQL_SYSVAR(backup_lease),
                                               MYSQL_SYSVAR(backup_max_pinned_bytes),
                                               MYSQL_SYSVAR(encrypt_tables),
                                               MYSQL_SYSVAR(encrypt_log),
                                               MYSQL_SYSVAR(default_encryption_key_id),
                                               nullptr};

ha_create_table_option table_options[] = {
    HA_TOPTION_SYSVAR("COMPRESSION", compression, row_format), HA_TOPTION_SYSVAR("PAGE_SIZE", page_bytes, page_size),
    HA_TOPTION_ENUM("ENCRYPTED", encrypted, "DEFAULT,YES,NO", ENCRYPTED_DEFAULT),
    HA_TOPTION_SYSVAR("ENCRYPTION_KEY_ID", encryption_key_id, default_encryption_key_id), HA_TOPTION_END};
ha_create_table_option index_options[] = {HA_IOPTION_BOOL("CLUSTERING", clustering, 0),
                                          HA_IOPTION_ENUM("COMPRESSION", compression, TEAK_KEY_COMPRESSIONS, 0),
                                          HA_IOPTION_END};

uint session_lock_timeout(THD *thd) {
  // The server implements SELECT ... NOWAIT as a timeout of 0 seconds.
  return thd->variables.lock_wait_timeout == 0 ? 0 : THDVAR(thd, lock_timeout);
}

void set_session_last_lock_timeout(THD *thd, char *text) {
  mysql_mutex_lock(&thd->LOCK_thd_data);  // SHOW VARIABLES and the performance schema read under this mutex
  THDVAR(thd, last_lock_timeout) = text;
  mysql_mutex_unlock(&thd->LOCK_thd_data);
}

bool session_commit_sync(THD *thd) { return THDVAR(thd, commit_sync); }

ulonglong session_bulk_load_threshold(THD *thd) { return THDVAR(thd, bulk_load_threshold); }

ulonglong session_bulk_load_rows_per_second(THD *thd) { return THDVAR(thd, bulk_load_rows_per_second); }

ulonglong session_bulk_load_bytes_per_second(THD *thd) { return THDVAR(thd, bulk_load_bytes_per_second); }

bool auto_analyze() { return analyzes_automatically; }

bool read_free_replication() { return reads_no_replicated_rows; }

uint analyze_seconds(THD *thd) { return THDVAR(thd, analyze_time); }

encrypted_tables encrypt_tables() { return static_cast<encrypted_tables>(encrypts_tables); }

bool tokudb_alias() { return accepts_tokudb; }

bool session_condition_pushdown(THD *thd) { return THDVAR(thd, condition_pushdown); }

bool session_group_by_pushdown(THD *thd) { return THDVAR(thd, group_by_pushdown); }

bool session_refuse_stale_writes(THD *thd) { return THDVAR(thd, refuse_stale_writes); }

void fill_options(teak_engine_options *options) {
  cache_size = cache_bytes(cache_size);
  options->cache_bytes = cache_size;
  options->log_bytes_max = log_size_max;
  options->background_threads = background_threads;
  options->checkpoint_period_seconds = checkpoint_period;
  options->log_sync_period_milliseconds = log_sync_period(fsync_log_period);
  const uint timeout = THDVAR(nullptr, lock_timeout);
  options->lock_timeout_milliseconds = timeout == 0 ? TEAK_NO_WAIT : timeout;
  // Connections, definitions and the server's own files need descriptors too.
  const ulong open_files_max = std::max(open_files_limit - open_files_limit / 4, 16UL);
  if (open_files > open_files_max)
    sql_print_warning("TEAK: teak_open_files=%u is more than three quarters of open_files_limit=%lu; %lu is used",
                      open_files, open_files_limit, open_files_max);
  const ulong wanted =
      open_files == 0 ? std::max(open_files_limit / 2, 16UL) : std::min<ulong>(open_files, open_files_max);
  open_files = static_cast<uint>(std::min<ulong>(wanted, UINT_MAX32));
  options->open_files = open_files;
  options->lock_bytes_max = max_lock_memory;
  options->sort_bytes_max = loader_memory_size;
  if (tmp_dir != nullptr) options->spill_directory = {reinterpret_cast<const uint8_t *>(tmp_dir), strlen(tmp_dir)};
  options->direct_io = directio;
  set_key_callbacks(options);
  options->log_encryption_key = encrypts_log ? LOG_KEY : 0;
  options->io_bytes_per_second = io_bytes_per_second(io_capacity);
}

}  // namespace teak
