/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* See check.h. */

#include "handler/check.h"

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/errors.h"
#include "format/clustering_value.h"
#include "handler/row_keys.h"
#include "session/cursor.h"

namespace teak {

namespace {

void report(THD *thd, const char *sentence) {
  push_warning_printf(thd, Sql_condition::WARN_LEVEL_ERROR, ER_CHECK_NO_SUCH_TABLE, "%s", sentence);
}

bool is_killed(void *thd) { return thd_kill_level(static_cast<THD *>(thd)) != THD_IS_NOT_KILLED; }

/* A set of entries, in any order: their number, and two sums of hashes. */
class EntrySet {
 public:
  void add(teak_slice key, teak_slice value) {
    const uint64_t hash = mix(hash_of(key) + 0x9e3779b97f4a7c15 * hash_of(value));
    count_++;
    sum_ += hash;
    other_sum_ += mix(hash + 0x632be59bd9b4e019);
  }
  uint64_t count() const { return count_; }
  bool operator==(const EntrySet &other) const {
    return count_ == other.count_ && sum_ == other.sum_ && other_sum_ == other.other_sum_;
  }

 private:
  static uint64_t hash_of(teak_slice bytes) {
    return std::hash<std::string_view>()({reinterpret_cast<const char *>(bytes.data), bytes.len});
  }
  static uint64_t mix(uint64_t n) {
    n = (n ^ (n >> 30)) * 0xbf58476d1ce4e5b9;
    n = (n ^ (n >> 27)) * 0x94d049bb133111eb;
    return n ^ (n >> 31);
  }

  uint64_t count_ = 0, sum_ = 0, other_sum_ = 0;
};

/* Checks that every key has exactly the entries of the rows. A scan of the rows and one of each key compare the sets of
   entries. If a set differs, every row is looked up in every key, to report which entries are wrong. */
class KeyCheck {
 public:
  KeyCheck(OpenTable &open, THD *thd)
      : open_(open), thd_(thd), cursors_(open.share()->indexes()), expected_(cursors_.size()) {
    keys_.reserve_indexes(cursors_.size());
  }

  int run() {
    for (uint32_t index = 1; index < cursors_.size(); index++) {
      cursors_[index] = std::make_unique<Cursor>();
      cursors_[index]->bind(open_.session(), open_.share()->table(), index, TEAK_LOCK_NONE, Cursor::Options());
    }
    if (cursors_.size() == 1) return check_rows([](bool *) { return 0; });
    int result = check_rows([this](bool *) { return add_row(); });
    uint32_t wrong = 0;
    for (uint32_t index = 1; result == HA_ADMIN_OK && wrong == 0 && index < cursors_.size(); index++) {
      EntrySet found;
      result = scan_entries(index, &found);
      if (!(found == expected_[index])) wrong = index;
    }
    if (result != HA_ADMIN_OK || wrong == 0) return result;
    result = check_rows([this](bool *complete) { return look_row_up(complete); });
    return result == HA_ADMIN_OK ? report_count(wrong) : result;
  }

 private:
  /* Calls `check_row(&complete)` for each row in the table's first record, until it returns an error or clears
     `complete`. */
  template <typename CheckRow> int check_rows(CheckRow check_row) {
    TABLE *table = open_.table();
    table->use_all_columns();
    if (open_.server().ha_rnd_init(true) != 0) return HA_ADMIN_FAILED;
    rows_ = 0;
    bool complete = true;
    int error = 0;
    while (complete && (error = open_.server().ha_rnd_next(table->record[0])) == 0) {
      rows_++;
      error = check_row(&complete);
      if (error != 0) break;
    }
    open_.server().ha_rnd_end();
    if (!complete) return HA_ADMIN_CORRUPT;
    if (error == HA_ERR_END_OF_FILE) return HA_ADMIN_OK;
    report(thd_, open_.error_text().c_str());
    return error == HA_ERR_CRASHED ? HA_ADMIN_CORRUPT : HA_ADMIN_FAILED;
  }

  bool encode() {
    const Share &share = *open_.share();
    row_.clear();
    if (share.has_clustering_key()) share.rows().encode(open_.table()->record[0], &row_);
    return keys_.encode(share, open_.row_id(), open_.table()->record[0], slice(row_)) && !row_.failed();
  }

  /* The value of an entry, in a clustering key with the row in the current format: *value. Returns 0 or the server's
     error. */
  int current_value(uint32_t index, const teak_row &entry, teak_slice *value) {
    const Share &share = *open_.share();
    const uint key = share.key_of(index);
    *value = entry.value;
    if (!share.key(key).clustering || share.history().empty()) return 0;
    Share::EntryRest rest;
    record_.resize(open_.table_share()->reclength);
    if (!share.rest_of_entry(key, entry, &rest) ||
        !share.rows().decode(rest.row.data, rest.row.len, rest.primary.data, rest.primary.len, record_.data(), nullptr,
                             nullptr))
      return open_.corrupt("a row in a clustering key is malformed");
    found_row_.clear();
    found_value_.clear();
    share.rows().encode(record_.data(), &found_row_);
    const bool in_key = rest.row.len == entry.value.len;
    append_clustering_value(slice(found_row_), {rest.primary.data, in_key ? 0 : rest.primary.len}, &found_value_);
    if (found_row_.failed() || found_value_.failed()) return open_.out_of_memory();
    *value = slice(found_value_);
    return 0;
  }

  int add_row() {
    if (!encode()) return open_.out_of_memory();
    for (uint32_t index = 1; index < cursors_.size(); index++)
      expected_[index].add(keys_.key(index), keys_.value(index));
    return 0;
  }

  /* Looks up the entries of the row. Clears `complete` if a key does not have its entry. */
  int look_row_up(bool *complete) {
    if (!encode()) return open_.out_of_memory();
    for (uint32_t index = 1; index < cursors_.size(); index++) {
      teak_row entry;
      const teak_status status = cursors_[index]->get(keys_.key(index), &entry);
      if (status != TEAK_OK && status != TEAK_NOT_FOUND) return open_.failure(status);
      teak_slice value;
      if (status == TEAK_OK) {
        if (const int error = current_value(index, entry, &value)) return error;
        if (keys_.is_value(index, value)) continue;
      }
      const std::string sentence = "row " + std::to_string(rows_) + " is not in key " + key_name(index);
      report(thd_, sentence.c_str());
      *complete = false;
    }
    return 0;
  }

  int scan_entries(uint32_t index, EntrySet *found) {
    teak_row entry;
    teak_status status = cursors_[index]->first(&entry);
    for (; status == TEAK_OK && !is_killed(thd_); status = cursors_[index]->next(&entry)) {
      teak_slice value;
      if (current_value(index, entry, &value) != 0) {
        report(thd_, open_.error_text().c_str());
        return HA_ADMIN_CORRUPT;
      }
      found->add(entry.key, value);
    }
    counted_ = found->count();
    return status == TEAK_NOT_FOUND ? HA_ADMIN_OK : HA_ADMIN_FAILED;
  }

  /* Every row has its entries, so the key has others, too. */
  int report_count(uint32_t index) {
    const std::string sentence = "key " + key_name(index) + " has " + std::to_string(counted_) + " entries for " +
                                 std::to_string(rows_) + " rows";
    report(thd_, sentence.c_str());
    return HA_ADMIN_CORRUPT;
  }

  std::string key_name(uint32_t index) const {
    const LEX_CSTRING &name = open_.table()->key_info[open_.share()->key_of(index)].name;
    return std::string(name.str, name.length);
  }

  OpenTable &open_;
  THD *const thd_;
  std::vector<std::unique_ptr<Cursor>> cursors_;  // by index; nullptr for the index of the rows
  std::vector<EntrySet> expected_;                // by index: the entries of the rows
  RowKeys keys_;
  ByteBuffer row_, found_row_, found_value_;
  std::vector<uchar> record_;
  uint64_t rows_ = 0, counted_ = 0;  // counted_: the entries of the key that was scanned last
};

}  // namespace

bool is_undamaged(const OpenTable &open, THD *thd) {
  auto sink = [](void *, const char *, size_t) {};
  bool damaged = true;
  return teak_table_is_damaged(open.share()->table(), &damaged) == TEAK_OK && !damaged &&
         teak_table_verify(open.share()->table(), is_killed, sink, thd) == TEAK_OK;
}

int check_table(OpenTable &open, THD *thd, const HA_CHECK_OPT &options) {
  bool damaged = false;
  if (teak_table_is_damaged(open.share()->table(), &damaged) != TEAK_OK) return HA_ADMIN_FAILED;
  if (options.flags & T_QUICK) {
    if (damaged) report(thd, "a read of the table found damage");
    return damaged ? HA_ADMIN_CORRUPT : HA_ADMIN_OK;
  }
  auto sink = [](void *context, const char *text, size_t length) {
    push_warning_printf(static_cast<THD *>(context), Sql_condition::WARN_LEVEL_ERROR, ER_CHECK_NO_SUCH_TABLE, "%.*s",
                        static_cast<int>(length), text);
  };
  const teak_status status = teak_table_verify(open.share()->table(), is_killed, sink, thd);
  if (status != TEAK_OK) {
    report(thd, LastErrorText().c_str());
    if (is_killed(thd)) return HA_ADMIN_FAILED;
    return status == TEAK_CORRUPT || open.share()->is_unreadable() ? HA_ADMIN_CORRUPT : HA_ADMIN_FAILED;
  }
  return options.flags & T_EXTEND ? KeyCheck(open, thd).run() : HA_ADMIN_OK;
}

}  // namespace teak
