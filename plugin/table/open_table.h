/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* OpenTable: the state that all parts of one handler share: the table's Share, the session, the text of the last error, and
   the hidden row id. A handler is one open table of one connection. */

#ifndef TEAK_TABLE_OPEN_TABLE_H
#define TEAK_TABLE_OPEN_TABLE_H

#include "base/server_version.h"

#include <memory>
#include <string>

#include "base/core.h"
#include "format/key_codec.h"
#include "session/session.h"
#include "table/share.h"

namespace teak {

class OpenTable {
 public:
  explicit OpenTable(handler &server_handler) : server_(server_handler) {}
  OpenTable(const OpenTable &) = delete;
  OpenTable &operator=(const OpenTable &) = delete;

  /* The server's part of the handler. */
  handler &server() const { return server_; }
  TABLE *table() const { return server_.get_table(); }
  TABLE_SHARE *table_share() const { return server_.get_table_share(); }
  THD *thd() const {
    const TABLE *table = this->table();
    return table != nullptr && table->in_use != nullptr ? table->in_use : current_thd;
  }

  Share *share() const { return share_; }
  void set_share(Share *share) { share_ = share; }
  /* Opens a table that can only be checked and repaired, with a Share of this handler's own. Returns the server's
     error. */
  int open_to_repair();
  const std::string &name() const { return name_; }
  void set_name(const char *name) { name_ = name; }
  /* Clears the pointers to the Share, which the server owns, and to the session. Deletes the handler's own Share and
     session. */
  void close();

  /* ---- errors: each returns an HA_ERR_ number and stores the text for get_error_message() ---- */
  int failure(teak_status status);
  int out_of_memory();
  int corrupt(const char *what);
  int with_text(int error, const char *text);
  std::string &error_text() { return error_text_; }
  /* Raises the error for the statement, and returns true. */
  bool raise_error(int error);

  /* ---- sessions ---- */
  Session *session() const { return session_; }
  teak_transaction *transaction() const { return session_->transaction(); }
  /* Whether the table is a sequence: a rollback does not return its values. */
  bool without_rollback() const { return table_share()->table_type == TABLE_TYPE_SEQUENCE; }
  bool is_temporary() const { return table_share()->tmp_table != NO_TMP_TABLE; }
  /* Called when a statement begins to use the table. Opens its files, unless the statement is TRUNCATE, so that damage
     is reported before any row is read. */
  int use(THD *thd);
  /* Called before CHECK and REPAIR examine the table: opens it as open_to_repair() does, if use() could not open the
     files. */
  int examine();
  /* Called when the statement no longer uses the table. */
  void end_use();

  /* ---- writes ---- */
  /* Called before each write of a row. */
  int begin_write();
  /* Called after each write; `error` is its outcome. */
  int end_write(int error);
  bool has_written() const { return wrote_; }
  void count_written_row() { written_rows_++; }
  /* Sets the table's time of change if the statement has written. */
  void note_written() {
    if (wrote_) note_written_now();
  }

  /* ---- the hidden row id, in a table without primary key, of the row last read or written ---- */
  static constexpr uint ROW_ID_BITS_MAX = 48;
  /* Assigns the id of a new row. */
  int assign_row_id();
  void remember_row_id(teak_slice primary) {
    if (share_->hidden_primary() && primary.len == sizeof(row_id_)) memcpy(row_id_, primary.data, sizeof(row_id_));
  }
  teak_slice row_id() const { return {row_id_, sizeof(row_id_)}; }

 private:
  Session *session_of(THD *thd);
  int open_files();
  void note_written_now();

  handler &server_;
  std::string name_;
  std::string error_text_;
  Share *share_ = nullptr;
  std::unique_ptr<Share> own_share_;  // of a table that can only be repaired
  Session *session_ = nullptr;
  std::unique_ptr<Session> own_session_;  // of a sequence
  bool wrote_ = false;                    // the statement has written
  uint64_t written_rows_ = 0;             // by the statement
  bool lacks_files_ = false;              // use() could not open the files, and examine() has not been called
  uint8_t row_id_[KeyCodec::HIDDEN_ROW_ID_BYTES] = {};
};

}  // namespace teak

#endif
