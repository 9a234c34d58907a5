/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* See ha_teak.h. */

#include "handler/ha_teak.h"

#include <algorithm>
#include <cmath>
#include <new>
#include <string>
#include <string_view>

#include "alter/alter_commit.h"
#include "alter/alter_inplace.h"
#include "alter/alter_prepare.h"
#include "alter/alter_support.h"
#include "alter/build_keys.h"
#include "alter/column_change.h"
#include "alter/optimize_table.h"
#include "alter/repair_table.h"
#include "base/engine.h"
#include "base/errors.h"
#include "base/online_copy.h"
#include "base/table_name.h"
#include "handler/check.h"
#include "handler/create.h"
#include "monitor/page_counting.h"
#include "session/query_cache.h"
#include "statistics/statistics_store.h"
#include "table/ddl_recovery.h"
#include "table/definition.h"
#include "table/discovery.h"
#include "table/drop_table.h"

namespace teak {

/* ---- abilities ---- */

ulonglong ha_teak::table_flags() const {
  // A statement that is logged as text must lock the rows it reads, so that it has the same effect when it is replayed.
  // Below REPEATABLE READ it does not lock enough.
  const ulonglong logged_as_text = thd_tx_isolation(ha_thd()) >= ISO_REPEATABLE_READ ? HA_BINLOG_STMT_CAPABLE : 0;
  // clang-format off
  return HA_REC_NOT_IN_SEQ                       // a position is a key
         | HA_NULL_IN_KEY                        // also in unique keys
         | HA_CAN_INDEX_BLOBS | HA_CAN_GEOMETRY  // geometry is stored, not indexed spatially
         // Not HA_CAN_BIT_FIELD: the server's GROUP BY and DISTINCT return wrong results for bits that are stored in
         // the NULL area.
         | HA_CAN_VIRTUAL_COLUMNS
         | HA_AUTO_PART_KEY                      // AUTO_INCREMENT may be a later part of a key
         | HA_CAN_SQL_HANDLER
         | HA_TABLE_SCAN_ON_INDEX                // rows are stored in the primary index
         | HA_PRIMARY_KEY_IN_READ_INDEX          // every entry contains its primary key
         | HA_PRIMARY_KEY_REQUIRED_FOR_POSITION  // position() encodes it from the record
         | HA_REQUIRES_KEY_COLUMNS_FOR_DELETE    // delete_row() encodes every key
         | HA_DUPLICATE_POS                      // dup_ref contains the position of the conflicting row
         | HA_CAN_TABLES_WITHOUT_ROLLBACK        // sequences
         | HA_BINLOG_ROW_CAPABLE | logged_as_text
         | HA_CAN_SKIP_LOCKED
         | HA_HAS_RECORDS                        // COUNT(*) calls records()
         | HA_CAN_DIRECT_UPDATE_AND_DELETE       // of DELETE without a condition
         | HA_CAN_TABLE_CONDITION_PUSHDOWN       // scans pass over pages
         // Not HA_CONCURRENT_OPTIMIZE: OPTIMIZE would begin with a lock that cannot be made exclusive without deadlocks.
         | HA_CAN_ONLINE_BACKUPS | HA_ONLINE_ANALYZE
         | HA_CAN_REPAIR | online_copy_flags(table_share);
  // clang-format on
}

/* Whether an entry of a key contains the columns of one part, or of all parts. An entry does not contain the whole
   value of a TEXT column or of a column of which the key has a prefix. `share`: nullptr while the server reads the
   definition. */
static bool entry_covers(const Share *share, TABLE_SHARE *definition, uint key, uint part, bool all_parts) {
  const KEY &server_key = definition->key_info[key];
  if (share == nullptr || key >= share->keys()) {
    auto covers = [&](uint number) {
      return KeyCodec::part_decodable(definition, key, number) || KeyOriginals::stores(definition, key, number);
    };
    if (!all_parts) return covers(part);
    for (uint i = 0; i < server_key.user_defined_key_parts; i++)
      if (!covers(i)) return false;
    return true;
  }
  const KeyCodec &codec = share->codec(key);
  const Share::ColumnSet &columns = share->key(key).decodable_columns;
  auto covers = [&](uint number) {
    return codec.decodable(number) ||
           (KeyOriginals::stores(definition, key, number) && columns.has(codec.column(number)));
  };
  if (all_parts) {
    for (uint i = 0; i < codec.parts(); i++)
      if (!covers(i)) return false;
    return true;
  }
  if (part < codec.parts()) return covers(part);
  return part >= server_key.ext_key_parts || columns.has(server_key.key_part[part].fieldnr - 1);
}

ulong ha_teak::index_flags(uint key, uint part, bool all_parts) const {
  const ulong flags = HA_READ_NEXT | HA_READ_PREV | HA_READ_ORDER | HA_READ_RANGE | HA_DO_INDEX_COND_PUSHDOWN;
  const Share *share = open_.share();
  // Clustering keys do not have HA_CLUSTERED_INDEX: index merge would take them for scans in the order of the rows.
  if (is_primary_key(table_share, share != nullptr, key)) return flags | PRIMARY_KEY_FLAGS;
  const ulong covers = entry_covers(share, table_share, key, part, all_parts) ? HA_KEYREAD_ONLY : 0;
  return flags | HA_DO_RANGE_FILTER_PUSHDOWN | covers;
}

my_bool ha_teak::register_query_cache_table(THD *thd, const char *path, uint path_bytes, qc_engine_callback *callback,
                                            ulonglong *data) {
  // The server's length of a partition's path includes the terminating zero.
  const std::string_view name(path, strnlen(path, path_bytes));
  // Partitions that the statement does not read may be closed.
  const auto slot = open_.share() != nullptr ? open_.share()->query_cache_slot() : query_cache_use::slot_of(name);
  *callback = query_cache_use::still_valid;
  *data = 0;
  if (locks_.locking() || thd_tx_isolation(thd) == ISO_SERIALIZABLE) return false;
  const Session *session = Session::find(thd);
  return query_cache_use::may_keep(session == nullptr ? nullptr : session->transaction(), slot, data);
}

bool ha_teak::get_error_message(int error, String *text) {
  const std::string &cause = open_.error_text();
  if (error < HA_ERR_LAST && error != HA_ERR_TABLE_EXIST && error != HA_ERR_TO_BIG_ROW) return false;
  if (cause.empty() && table != nullptr && table->part_info != nullptr) {
    // The server asks the partition that was used last, and another partition may have failed.
    const LastErrorText error_text;
    text->append(error_text.c_str(), strlen(error_text.c_str()));
  } else {
    text->append(cause.data(), cause.size());
  }
  return false;
}

/* ---- open ---- */

int ha_teak::open_share(const char *name) {
  lock_shared_ha_data();
  Share *share = static_cast<Share *>(get_ha_share_ptr());
  int error = 0;
  if (share == nullptr) {
    error = Share::open(ha_thd(), name, table, Share::Purpose::Use, &share, &open_.error_text());
    if (error == 0) set_ha_share_ptr(share);
  }
  unlock_shared_ha_data();
  open_.set_share(error == 0 ? share : nullptr);
  return error;
}

int ha_teak::open(const char *name, int, uint test_if_locked) try {
  open_.set_name(name);
  int error = open_share(name);
  if (error == HA_ERR_NO_SUCH_TABLE) {
    // After HA_ERR_NO_SUCH_TABLE the server would delete the .frm and .par files. They are needed if the table is only
    // missing because an older catalogue was restored, and the newer one is put back.
    my_error(ER_NO_SUCH_TABLE_IN_ENGINE, MYF(0), table_share->db.str, table_share->table_name.str);
    return ERROR_OF_ENGINE;
  }
  if (error != 0 && error != HA_ERR_TABLE_DEF_CHANGED && (test_if_locked & HA_OPEN_FOR_REPAIR))
    error = open_.open_to_repair();
  if (error != 0) return error;
  const Share &share = *open_.share();

  writer_.open();
  ref_length = positions_.length();
  hide_lossy_keys();
  // An UPDATE of the key that a scan follows must collect its rows first.
  key_used_on_scan = share.primary_key();
  stats.block_size = COST_PAGE_BYTES;
  // A multi-range read sorts positions, each with the number of its range.
  stats.mrr_length_per_rec = ref_length + sizeof(range_id_t);
  if (share.is_unreadable()) return 0;
  info(HA_STATUS_NO_LOCK | HA_STATUS_VARIABLE | HA_STATUS_CONST | HA_STATUS_OPEN);
  if (stats.records == 0) publish_empty_table();
  return 0;
} catch (const std::bad_alloc &) {
  return open_.out_of_memory();
}

/* With keyread the server computes no virtual columns. So a key from which a virtual column cannot be decoded must
   not be reported as covering. */
void ha_teak::hide_lossy_keys() {
  for (uint number = 0; number < open_.share()->keys(); number++) {
    if (!open_.share()->key(number).loses_virtual_column) continue;
    for (Field **field = table->field; *field != nullptr; field++) {
      (*field)->part_of_key.clear_bit(number);
      (*field)->part_of_key_not_clustered.clear_bit(number);
    }
  }
}

/* Publishes the statistics of an empty table, which need no sample. */
void ha_teak::publish_empty_table() {
  for (uint number = 0; number < open_.share()->keys(); number++) {
    const KEY &key = table->key_info[number];
    for (uint part = 0; key.rec_per_key != nullptr && part < key.ext_key_parts; part++)
      if (key.rec_per_key[part] == 0) key.rec_per_key[part] = 1;
  }
}

int ha_teak::close() {
  reset();
  open_.close();
  return 0;
}

int ha_teak::extra(enum ha_extra_function operation) try {
  switch (operation) {
    case HA_EXTRA_WRITE_CAN_REPLACE:
    case HA_EXTRA_INSERT_WITH_UPDATE:
      writer_.set_writes_over_duplicates(true);
      break;
    case HA_EXTRA_WRITE_CANNOT_REPLACE:
      writer_.set_writes_over_duplicates(false);
      break;
    case HA_EXTRA_NO_IGNORE_DUP_KEY:
      writer_.set_writes_over_duplicates(false);
      return writer_.end_load_data();
    case EXTRA_END_COPY:
      return writer_.end_copy();
    case EXTRA_ABORT_COPY:
      writer_.cancel_bulk_insert();
      break;
    case HA_EXTRA_KEYREAD:
      fetcher_.set_positions_only(true);
      break;
    case HA_EXTRA_NO_KEYREAD:
      fetcher_.set_positions_only(false);
      break;
    case HA_EXTRA_FLUSH:
      fetcher_.free_blobs();
      break;
    default:
      break;
  }
  return 0;
} catch (const std::bad_alloc &) {
  return open_.out_of_memory();
}

int ha_teak::reset() {
  open_.note_written();
  open_.error_text().clear();
  multi_range_.dsmrr_close();
  scan_.close();
  scan_.push_condition(nullptr);
  fetcher_.reset();
  writer_.reset();
  auto_increment_.close_cursor();
  auto_increment_.unlock_counter();
  locks_.set_semi_consistent(false);
  return 0;
}

/* ---- statements and locks ---- */

THR_LOCK_DATA **ha_teak::store_lock(THD *, THR_LOCK_DATA **to, enum thr_lock_type type) {
  if (type != TL_IGNORE) locks_.request(type);
  return to;
}

int ha_teak::external_lock(THD *thd, int type) {
  if (type == F_UNLCK) {
    auto_increment_.unlock_counter();
    open_.end_use();
    locks_.end_statement();
    return 0;
  }
  if (type == F_WRLCK && LockPolicy::is_logging_impossible(thd)) {
    // Raises the server's own error with a reason.
    my_error(ER_BINLOG_STMT_MODE_AND_ROW_ENGINE, MYF(0),
             " Teak is limited to row-logging when transaction isolation level is READ COMMITTED or READ UNCOMMITTED.");
    return HA_ERR_LOGGING_IMPOSSIBLE;
  }
#ifdef WITH_PARTITION_STORAGE_ENGINE
  // The server does not reset this flag after a statement for which all partitions were pruned. Then the next DELETE
  // ... LIMIT by a key would find no rows.
  table->all_partitions_pruned_away = false;
#endif
  locks_.begin_statement(thd, type == F_WRLCK);
  return open_.use(thd);
}

int ha_teak::start_stmt(THD *thd, thr_lock_type type) {
  locks_.begin_substatement(thd, type);
  return open_.use(thd);
}

handler *ha_teak::clone(const char *name, MEM_ROOT *memory) {
  handler *copy = handler::clone(name, memory);
  if (copy != nullptr) static_cast<ha_teak *>(copy)->locks_.inherit(locks_);
  return copy;
}

/* From REPEATABLE READ on, rows that a locking read returned are not unlocked: a row that does not match must not be changed so
   that it matches. */
void ha_teak::unlock_row() {
  if (locks_.may_unlock_rows()) scan_.unlock_row();
}

void ha_teak::try_semi_consistent_read(bool yes) {
  locks_.set_semi_consistent(yes);
  scan_.set_semi_consistent(locks_.semi_consistent());
}

/* ---- definition ---- */

int ha_teak::create(const char *name, TABLE *form, HA_CREATE_INFO *info) try {
  open_.set_name(name);
  return create_table(open_, form, info);
} catch (const std::bad_alloc &) {
  return open_.out_of_memory();
}

int ha_teak::delete_table(const char *name) try {
  open_.set_name(name);
  const teak_status status = drop_engine_table(name);
  return status == TEAK_OK ? 0 : open_.failure(status);
} catch (const std::bad_alloc &) {
  return open_.out_of_memory();
}

int ha_teak::rename_table(const char *from, const char *to) try {
  open_.set_name(from);
  teak_status status = TEAK_OK;
  // A snapshot that was taken while the copy was filled would see only some of its rows. No other connection uses the table.
  if (is_filled_copy(from)) status = teak_table_refuse_older_snapshots(engine, EngineTableName(from));
  if (status == TEAK_OK) status = rename_engine_table(from, to);
  query_cache_use::table_changed(from);
  query_cache_use::table_changed(to);
  if (status == TEAK_NO_SUCH_TABLE && is_renamed_before_crash(to)) return 0;
  return status == TEAK_OK ? 0 : open_.failure(status);
} catch (const std::bad_alloc &) {
  return open_.out_of_memory();
}

int ha_teak::truncate() try {
  reset();
  const char *name = open_.name().c_str();
  open_.share()->statistics().forget();
  const teak_status status = teak_table_truncate(engine, EngineTableName(name));
  query_cache_use::table_changed(name);
  open_.share()->forget_counters();
  return status == TEAK_OK ? 0 : open_.failure(status);
} catch (const std::bad_alloc &) {
  return open_.out_of_memory();
}

void ha_teak::update_create_info(HA_CREATE_INFO *info) {
  if (info->used_fields & HA_CREATE_USED_AUTO) return;
  this->info(HA_STATUS_AUTO);
  info->auto_increment_value = stats.auto_increment_value;
}

/* Called for EXCHANGE PARTITION only. */
bool ha_teak::check_if_incompatible_data(HA_CREATE_INFO *info, uint table_changes) {
  return table_changes == IS_EQUAL_YES && info->data_file_name == nullptr && info->index_file_name == nullptr
             ? COMPATIBLE_DATA_YES
             : COMPATIBLE_DATA_NO;
}

enum_alter_inplace_result ha_teak::check_if_supported_inplace_alter(TABLE *altered, Alter_inplace_info *alter) try {
  return AlterSupport(open_, altered, alter).check();
} catch (const std::bad_alloc &) {
  raise_out_of_memory();
  return HA_ALTER_ERROR;
}

bool ha_teak::can_convert_nocopy(const Field &field, const Column_definition &wanted) const {
  return is_storage_compatible(field, wanted);
}

Compare_keys ha_teak::compare_key_parts(const Field &old_field, const Column_definition &new_field,
                                        const KEY_PART_INFO &old_part, const KEY_PART_INFO &new_part) const {
  if (old_field.is_equal(new_field)) return handler::compare_key_parts(old_field, new_field, old_part, new_part);
  return compare_changed_key_parts(old_field, new_field, old_part, new_part);
}

bool ha_teak::prepare_inplace_alter_table(TABLE *altered, Alter_inplace_info *alter) try {
  return prepare_alter(open_, altered, alter);
} catch (const std::bad_alloc &) {
  return raise_out_of_memory();
}

bool ha_teak::inplace_alter_table(TABLE *altered, Alter_inplace_info *alter) try {
  return alter_in_place(altered, alter);
} catch (const std::bad_alloc &) {
  return raise_out_of_memory();
}

bool ha_teak::commit_inplace_alter_table(TABLE *altered, Alter_inplace_info *alter, bool commit) try {
  if (!commit) {
    roll_back_alter(alter);
    return false;
  }
  const std::vector<AlterContext *> contexts = take_alter_contexts(alter);
  for (AlterContext *context : contexts)
    if (report_late_duplicates(*context, altered)) return true;
  for (const AlterContext *context : contexts)
    if (static_cast<ha_teak &>(context->open.server()).set_altered_auto_increment(*alter)) return true;
  return commit_alter(open_, contexts);
} catch (const std::bad_alloc &) {
  return raise_out_of_memory();
}

/* ALTER TABLE ... AUTO_INCREMENT = n. True: an error was raised. */
bool ha_teak::set_altered_auto_increment(const Alter_inplace_info &alter) {
  if (!(alter.create_info->used_fields & HA_CREATE_USED_AUTO) || table->found_next_number_field == nullptr ||
      table_share->next_number_keypart != 0)
    return false;
  const int error = auto_increment_.set_counter_past_rows(alter.create_info->auto_increment_value);
  if (error != 0) print_error(error, MYF(0));
  return error != 0;
}

/* ---- writes ---- */

int ha_teak::write_row(const uchar *record) try {
  const PageCounting counting(handler_stats);
  if (table->next_number_field != nullptr && record == table->record[0]) {
    auto_increment_.before_row();
    if (int error = auto_increment_.after_row(update_auto_increment())) return error;
  }
  if (int error = writer_.insert(record)) return error;
  return open_.end_write(auto_increment_.note(record));
} catch (const std::bad_alloc &) {
  return open_.out_of_memory();
}

void ha_teak::start_bulk_insert(ha_rows rows, uint) { writer_.start_bulk_insert(rows); }

/* Some callers read the error from my_errno. */
int ha_teak::end_bulk_insert() try {
  const PageCounting counting(handler_stats);
  const int error = writer_.end_bulk_insert();
  if (error != 0) my_errno = error;
  return error;
} catch (const std::bad_alloc &) {
  return my_errno = open_.out_of_memory();
}

int ha_teak::update_row(const uchar *old_record, const uchar *new_record) try {
  const PageCounting counting(handler_stats);
  if (int error = writer_.update(old_record, new_record)) return error;
  return open_.end_write(auto_increment_.note(new_record));
} catch (const std::bad_alloc &) {
  return open_.out_of_memory();
}

int ha_teak::delete_row(const uchar *record) try {
  const PageCounting counting(handler_stats);
  return writer_.remove(record);
} catch (const std::bad_alloc &) {
  return open_.out_of_memory();
}

int ha_teak::reset_auto_increment(ulonglong value) {
  const teak_status status = open_.share()->auto_increment().set(value == 0 ? 1 : value);
  return status == TEAK_OK ? 0 : open_.failure(status);
}

/* ---- reads ---- */

int ha_teak::rnd_init(bool scan) try {
  if (open_.without_rollback() && open_.session() != nullptr)
    if (int error = open_.session()->use()) return error;
  locks_.settle();
  fetcher_.begin_reads();
  if (scan) scan_.begin(MAX_KEY);
  return 0;
} catch (const std::bad_alloc &) {
  return open_.out_of_memory();
}

int ha_teak::rnd_end() {
  scan_.forget_bounds();
  return 0;
}

int ha_teak::index_init(uint key, bool) {
  active_index = key;
  locks_.settle();
  fetcher_.begin_reads();
  scan_.begin(key);
  return 0;
}

int ha_teak::index_end() {
  scan_.forget_bounds();
  active_index = MAX_KEY;
  multi_range_.dsmrr_close();
  return 0;
}

int ha_teak::index_next_same(uchar *record, const uchar *image, uint length) {
  return scan_.is_exact() ? scan_.next_same(record) : handler::index_next_same(record, image, length);
}

int ha_teak::read_range_first(const key_range *start, const key_range *end, bool is_equality, bool sorted) {
  if (int error = scan_.begin_range(end)) return error;
  const int error = handler::read_range_first(start, end, is_equality, sorted);
  scan_.end_range();
  return error;
}

int ha_teak::prepare_range_scan(const key_range *start, const key_range *end) {
  return scan_.prepare_range(start, end);
}

/* ---- conditions and filters ---- */

/* A condition on a key with a virtual column is left to the server, as in InnoDB. The same holds for a condition on a
   column that the entry does not contain, because the server assumes that every column of the primary key is readable
   from every key. */
Item *ha_teak::idx_cond_push(uint key, Item *condition) {
  const Share::Key &definition = open_.share()->key(key);
  if (definition.has_virtual_column || definition.clustering) return condition;
  List<Item_field> columns;
  condition->walk(&Item::collect_item_field_processor, false, &columns);
  List_iterator_fast<Item_field> each(columns);
  while (const Item_field *column = each++)
    if (column->field->table == table && !definition.decodable_columns.has(column->field->field_index))
      return condition;
  pushed_idx_cond = condition;
  pushed_idx_cond_keyno = key;
  return nullptr;
}

bool ha_teak::rowid_filter_push(Rowid_filter *filter) {
  pushed_rowid_filter = filter;
  return false;
}

/* ---- statistics ---- */

/* Twice the known number of rows, plus a margin for rows added since. */
ha_rows ha_teak::estimate_rows_upper_bound() { return stats.records * 2 + EXTRA_RECORDS; }

/* ---- administration ---- */

/* A partition that ALTER TABLE ... CHECK PARTITION could not open fails here, and only if it is examined. */
bool ha_teak::open_examined() {
  const int error = open_.examine();
  if (error != 0) print_error(error, MYF(0));
  return error == 0;
}

int ha_teak::check(THD *thd, HA_CHECK_OPT *options) try {
  if (!open_examined()) return HA_ADMIN_CORRUPT;
  // No other statement may use this instance.
  if (open_.share()->is_unreadable()) table->mark_table_for_reopen();
  return check_table(open_, thd, *options);
} catch (const std::bad_alloc &) {
  raise_out_of_memory();
  return HA_ADMIN_FAILED;
}

int ha_teak::repair(THD *thd, HA_CHECK_OPT *options) try {
  reset();
  if (!open_examined()) return HA_ADMIN_CORRUPT;
  if (open_.share()->is_unreadable()) table->mark_table_for_reopen();
  const bool undamaged = is_undamaged(open_, thd);
  return undamaged && (options->flags & T_QUICK) ? HA_ADMIN_OK : repair_table(open_, thd, undamaged);
} catch (const std::bad_alloc &) {
  raise_out_of_memory();
  return HA_ADMIN_FAILED;
}

int ha_teak::analyze(THD *thd, HA_CHECK_OPT *) {
  open_.share()->note_change();
  // With HA_STATUS_VARIABLE_EXTRA, this does not sample, too.
  int error = info(HA_STATUS_VARIABLE | HA_STATUS_VARIABLE_EXTRA | HA_STATUS_TIME | HA_STATUS_NO_LOCK);
  if (error == 0) {
    const teak_status status = open_.share()->statistics().analyze(thd, table, stats.records);
    if (status == TEAK_OK) return HA_ADMIN_OK;
    error = open_.failure(status);
  }
  print_error(error, MYF(0));
  return HA_ADMIN_FAILED;
}

int ha_teak::optimize(THD *thd, HA_CHECK_OPT *options) try {
  reset();
  if (optimize_table(open_, thd)) return HA_ADMIN_FAILED;
  return analyze(thd, options);
} catch (const std::bad_alloc &) {
  raise_out_of_memory();
  return HA_ADMIN_FAILED;
}

}  // namespace teak
