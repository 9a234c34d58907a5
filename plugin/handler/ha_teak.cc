/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* What the engine can do, and calls too small for a file of their own. See ha_teak.h. */

#include "handler/ha_teak.h"

#include "base/errors.h"

namespace teak {

ulonglong ha_teak::table_flags() const {
  // Statements that are logged as their text must be replayed to the same: that takes locks on what they read.
  const ulonglong logged_as_text = thd_tx_isolation(ha_thd()) >= ISO_REPEATABLE_READ ? HA_BINLOG_STMT_CAPABLE : 0;
  // clang-format off
  return HA_REC_NOT_IN_SEQ                       // a position is a key
         | HA_NULL_IN_KEY                        // also in unique keys
         | HA_CAN_INDEX_BLOBS | HA_CAN_GEOMETRY  // geometry is stored, not indexed spatially
         // Not HA_CAN_BIT_FIELD: the server's GROUP BY and DISTINCT mix up bits that stand among the NULL bits.
         | HA_CAN_VIRTUAL_COLUMNS
         | HA_AUTO_PART_KEY                      // AUTO_INCREMENT as a later part of a key
         | HA_CAN_SQL_HANDLER
         | HA_TABLE_SCAN_ON_INDEX                // rows live in the primary key
         | HA_PRIMARY_KEY_IN_READ_INDEX          // every entry leads to its primary key
         | HA_PRIMARY_KEY_REQUIRED_FOR_POSITION  // position() encodes it from the record
         | HA_REQUIRES_KEY_COLUMNS_FOR_DELETE    // delete_row() encodes every key
         | HA_DUPLICATE_POS                      // dup_ref holds the position of the row in the way
         | HA_CAN_TABLES_WITHOUT_ROLLBACK        // sequences
         | HA_BINLOG_ROW_CAPABLE | logged_as_text
         | HA_CAN_SKIP_LOCKED
         | HA_CAN_ONLINE_BACKUPS | HA_CONCURRENT_OPTIMIZE | HA_ONLINE_ANALYZE;
  // clang-format on
}

ulong ha_teak::index_flags(uint key, uint part, bool all_parts) const {
  ulong flags = HA_READ_NEXT | HA_READ_PREV | HA_READ_ORDER | HA_READ_RANGE | HA_DO_INDEX_COND_PUSHDOWN |
                HA_DO_RANGE_FILTER_PUSHDOWN;
  // While the server reads a definition it asks too, and does not know the primary key yet.
  if (share_ != nullptr && key == share_->primary_key()) return flags | HA_CLUSTERED_INDEX | HA_KEYREAD_ONLY;
  // An entry holds neither a whole TEXT nor more than the beginning of a column of which the key has no more.
  bool covers = true;
  if (share_ != nullptr && key < share_->keys()) {
    const KeyCodec &codec = share_->codec(key);
    const Share::ColumnSet &columns = share_->key(key).decodable_columns;
    auto gives_back = [&](uint number) {
      return codec.decodable(number) ||
             (KeyOriginals::keeps(table_share, key, number) && columns.has(codec.column(number)));
    };
    if (all_parts)
      for (uint i = 0; covers && i < codec.parts(); i++) covers = gives_back(i);
    else if (part < codec.parts())
      covers = gives_back(part);
    else if (part < table_share->key_info[key].ext_key_parts)
      covers = columns.has(table_share->key_info[key].key_part[part].fieldnr - 1);
  } else if (all_parts) {
    for (uint i = 0; covers && i < table_share->key_info[key].user_defined_key_parts; i++)
      covers = KeyCodec::part_decodable(table_share, key, i) || KeyOriginals::keeps(table_share, key, i);
  } else {
    covers = KeyCodec::part_decodable(table_share, key, part) || KeyOriginals::keeps(table_share, key, part);
  }
  return covers ? flags | HA_KEYREAD_ONLY : flags;
}

const char *ha_teak::index_type(uint) { return "BTREE"; }

bool ha_teak::get_error_message(int error, String *text) {
  if (error >= HA_ERR_LAST || error == HA_ERR_TABLE_EXIST || error == HA_ERR_TO_BIG_ROW)
    text->append(error_text_.data(), error_text_.size());
  return false;
}

int ha_teak::failure(teak_status status) {
  const int error = convert(ha_thd(), status, name_.c_str(), &error_text_);
  if (status == TEAK_LOCK_TIMEOUT || status == TEAK_DEADLOCK)
    if (Session *session = Session::find(ha_thd())) session->note_failed_wait();
  return error;
}

int ha_teak::out_of_memory() {
  error_text_ = name_ + ": out of memory";
  return HA_ERR_OUT_OF_MEM;
}

int ha_teak::corrupt(const char *what) {
  error_text_ = name_ + ": " + what;
  sql_print_error("TEAK: %s", error_text_.c_str());
  push_warning_printf(ha_thd(), Sql_condition::WARN_LEVEL_WARN, ER_GET_ERRMSG, ER_THD(ha_thd(), ER_GET_ERRMSG),
                      HA_ERR_CRASHED, error_text_.c_str(), "TEAK");
  return HA_ERR_CRASHED;
}

int ha_teak::extra(enum ha_extra_function operation) {
  switch (operation) {
    case HA_EXTRA_WRITE_CAN_REPLACE:
    case HA_EXTRA_INSERT_WITH_UPDATE:
      writes_over_duplicates_ = true;
      break;
    case HA_EXTRA_WRITE_CANNOT_REPLACE:
    case HA_EXTRA_NO_IGNORE_DUP_KEY:
      writes_over_duplicates_ = false;
      break;
    case HA_EXTRA_KEYREAD:
      positions_only_ = true;
      break;
    case HA_EXTRA_NO_KEYREAD:
      positions_only_ = false;
      break;
    case HA_EXTRA_FLUSH:
      blobs_.clear(0);
      break;
    default:
      break;
  }
  return 0;
}

int ha_teak::reset() {
  constexpr size_t KEEP_BYTES = 1 << 20;
  if (wrote_) share_->set_written_at(time(nullptr));
  wrote_ = false;
  multi_range_.dsmrr_close();
  scan_.close();
  rows_.close();
  probe_.close();
  blobs_.clear(KEEP_BYTES);
  row_.clear();
  row_.shrink(KEEP_BYTES);
  let_go_of_auto_increment();
  writes_over_duplicates_ = semi_consistent_ = false;
  all_columns_ = positions_only_ = false;
  set_no_bounds();
  return 0;
}

my_bool ha_teak::register_query_cache_table(THD *thd, const char *path, uint path_bytes, qc_engine_callback *callback,
                                            ulonglong *data) {
  // The server's path of a partition is counted with the zero behind it.
  const std::string name(path, strnlen(path, path_bytes));
  // Partitions that are not read may not be open.
  const auto slot = share_ != nullptr ? share_->query_cache_slot() : query_cache_use::slot_of(name.c_str());
  *callback = query_cache_use::still_valid;
  *data = 0;
  if (locking() || thd_tx_isolation(thd) == ISO_SERIALIZABLE) return false;
  const Session *session = Session::find(thd);
  return query_cache_use::may_keep(session == nullptr ? nullptr : session->transaction(), slot, data);
}

}  // namespace teak
