/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* See repair_table.h. */

#include "alter/repair_table.h"

#include <new>
#include <set>
#include <string>
#include <vector>

#include "alter/alter_commit.h"
#include "alter/alter_context.h"
#include "alter/alter_prepare.h"
#include "base/errors.h"
#include "monitor/progress.h"

namespace teak {

namespace {

// By default the server shows at most 64 messages of a statement, and a table may have many partitions.
constexpr size_t FINDINGS_OF_PARTITION_MAX = 5;

/* The number and its noun: `one` for 1, otherwise `several`. */
std::string counted(uint64_t count, const char *one, const char *several) {
  return std::to_string(count) + " " + (count == 1 ? one : several);
}

bool is_killed(THD *thd) { return thd_kill_level(thd) != THD_IS_NOT_KILLED; }

class TableRepair {
 public:
  TableRepair(OpenTable &open, THD *thd, bool undamaged) : open_(open), thd_(thd), undamaged_(undamaged) {}

  int run() {
    open_.table()->use_all_columns();
    {
      const ProgressReport progress(thd_, BUILD_STAGES);
      if (rebuild()) return HA_ADMIN_FAILED;
    }
    report();
    return HA_ADMIN_OK;
  }

 private:
  /* Rebuilds the table. Starts again if it finds damage or duplicates in a table without known damage. If several rows
     of a damaged table have the same value of a unique key, starts again and leaves out all of them except one. Each
     attempt ends at the first key with duplicates, so it may start again once for each unique key. True: an error was
     raised. */
  bool rebuild() {
    for (;;) {
      AlterContext context(open_);
      if (undamaged_ ? prepare_optimize(context) : prepare_repair(context)) return true;
      if (write_rows(context)) return true;
      teak_duplicate duplicate;
      const bool is_complete = salvaged_.lost_parts == 0 && malformed_ == 0;
      const teak_status status = is_complete || !undamaged_ ? context.build(&duplicate) : TEAK_CORRUPT;
      if (undamaged_ && (status == TEAK_CORRUPT || status == TEAK_DUPLICATE_KEY)) {
        undamaged_ = false;
        continue;
      }
      if (status != TEAK_OK) return open_.raise_error(open_.failure(status));
      const size_t excluded_before = excluded_.size();
      if (!exclude_duplicates(context)) return commit(context);
      if (excluded_.size() == excluded_before)
        return open_.raise_error(open_.corrupt("rows with duplicate keys were found again"));
    }
  }

  bool commit(AlterContext &context) {
    if (commit_alter(open_, {&context})) return true;
    open_.share()->forget_row_history(std::move(context.rows.rows));
    return false;
  }

  bool write_rows(AlterContext &context) {
    context_ = &context;
    open_.table()->in_use = thd_;
    malformed_ = excluded_rows_ = rows_read_ = 0;
    raised_ = false;
    findings_.clear();
    salvaged_ = {};
    salvaged_.struct_size = sizeof(salvaged_);
    auto on_row = [](void *self, teak_slice key, teak_slice value, bool) {
      auto *repair = static_cast<TableRepair *>(self);
      try {
        repair->raised_ = repair->add_row(key, value);
      } catch (const std::bad_alloc &) {
        repair->raised_ = raise_out_of_memory();
      }
      return repair->raised_;
    };
    auto on_loss = [](void *self, const char *text, size_t length) {
      auto *repair = static_cast<TableRepair *>(self);
      try {
        repair->findings_.emplace_back(text, length);
      } catch (const std::bad_alloc &) {
        repair->raised_ = raise_out_of_memory();
      }
    };
    auto interrupted = [](void *self) { return is_killed(static_cast<TableRepair *>(self)->thd_); };
    const teak_status status =
        teak_table_salvage(open_.share()->table(), interrupted, on_row, on_loss, this, &salvaged_);
    if (status == TEAK_OK || raised_) return raised_;
    return open_.raise_error(open_.failure(status));
  }

  /* True: an error was raised. */
  bool add_row(teak_slice key, teak_slice value) {
    TABLE *table = open_.table();
    if (context_->report_rows_read(++rows_read_, 0)) return true;
    if (excluded_.count(text_of(key)) != 0) {
      excluded_rows_++;
      return false;
    }
    if (!open_.share()->rows().decode(value.data, value.len, key.data, key.len, table->record[0], nullptr, nullptr)) {
      malformed_++;
      return false;
    }
    if (context_->compute_virtual_columns(table)) return true;
    row_.clear();
    context_->rows.rows->encode(table->record[0], &row_);
    if (row_.failed()) return open_.raise_error(open_.out_of_memory());
    const teak_status status = teak_alteration_add_entry(context_->alteration, 0, key, slice(row_));
    if (status != TEAK_OK) return open_.raise_error(open_.failure(status));
    return context_->add_entries(table, key, slice(row_));
  }

  /* Adds to `excluded_` the rows whose entries were left out of a unique key. Returns whether there are any. */
  bool exclude_duplicates(const AlterContext &context) {
    teak_duplicate duplicate;
    size_t number = 0;
    for (; teak_alteration_get_duplicate(context.alteration, number, &duplicate) == TEAK_OK; number++) {
      teak_slice primary;
      // Index 0 of the added indexes contains the rows.
      const bool clustering = duplicate.index != 0 && context.added[duplicate.index - 1].clustering;
      if (open_.share()->primary_of_value(clustering, duplicate.value, &primary)) excluded_.insert(text_of(primary));
    }
    return number != 0;
  }

  /* Reports the counts before the findings, because the server shows at most max_error_count messages. For the same
     reason the number of saved rows is not shown for a partition without losses. */
  void report() {
    if (salvaged_.lost_entries != 0)
      warn("up to " + counted(salvaged_.lost_entries, "row version in pages and runs was lost",
                              "row versions in pages and runs were lost"));
    if (salvaged_.doubtful_rows != 0)
      warn(counted(salvaged_.doubtful_rows, "row may be older than the last committed version, or was deleted",
                   "rows may be older than the last committed version, or were deleted"));
    if (malformed_ != 0)
      warn(counted(malformed_, "row was malformed and left out", "rows were malformed and left out"));
    if (excluded_rows_ != 0)
      warn(counted(excluded_rows_, "row was left out: another has the same value of a unique key",
                   "rows were left out: others have the same value of a unique key"));
    const std::string saved = counted(salvaged_.rows - malformed_ - excluded_rows_, "row was saved", "rows were saved");
    const bool is_whole = findings_.empty() && salvaged_.doubtful_rows + malformed_ + excluded_rows_ == 0;
    if (!is_partition() || !is_whole) push(Sql_condition::WARN_LEVEL_NOTE, saved);
    sql_print_information("TEAK: repair of %s: %s", open_.name().c_str(), saved.c_str());
    const size_t shown_max = is_partition() ? FINDINGS_OF_PARTITION_MAX : findings_.size();
    for (size_t number = 0; number < findings_.size(); number++) {
      log_warning(findings_[number]);
      if (number < shown_max) push(Sql_condition::WARN_LEVEL_WARN, findings_[number]);
    }
    if (findings_.size() > shown_max)
      push(Sql_condition::WARN_LEVEL_WARN, counted(findings_.size() - shown_max, "more finding is in the error log",
                                                   "more findings are in the error log"));
  }

  void warn(const std::string &sentence) {
    push(Sql_condition::WARN_LEVEL_WARN, sentence);
    log_warning(sentence);
  }

  void log_warning(const std::string &sentence) {
    sql_print_warning("TEAK: repair of %s: %s", open_.name().c_str(), sentence.c_str());
  }

  void push(Sql_condition::enum_warning_level level, const std::string &sentence) {
    const std::string text = is_partition() ? open_.name() + ": " + sentence : sentence;
    push_warning_printf(thd_, level, ER_CHECK_NO_SUCH_TABLE, "%s", text.c_str());
  }

  bool is_partition() const { return open_.table()->part_info != nullptr; }

  static std::string text_of(teak_slice bytes) {
    return std::string(reinterpret_cast<const char *>(bytes.data), bytes.len);
  }

  OpenTable &open_;
  THD *const thd_;
  bool undamaged_;
  AlterContext *context_ = nullptr;
  ByteBuffer row_;
  teak_salvage_report salvaged_ = {};
  std::vector<std::string> findings_;
  std::set<std::string> excluded_;  // primary keys
  uint64_t rows_read_ = 0, malformed_ = 0, excluded_rows_ = 0;
  bool raised_ = false;
};

}  // namespace

int repair_table(OpenTable &open, THD *thd, bool undamaged) { return TableRepair(open, thd, undamaged).run(); }

}  // namespace teak
