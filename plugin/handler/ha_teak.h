/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* ha_teak: the server's handler for one open table of one connection. It implements the server's virtual functions
   and delegates to parts with their own state:

     OpenTable (table/)  the table's Share, the session, the last error, the hidden row id: shared by all parts
     LockPolicy          how the statement locks the rows it reads
     RowPositions        positions by which the server finds rows again
     RowPrefetcher       reads ahead of scans of secondary keys, and of lists of lookups
     RowFetcher          from an entry of an index to the server's record; pushed conditions and filters
     Scan                scans of an index or of the table, lookups by key
     RowWriter           INSERT, UPDATE, DELETE
     BulkInsert          statements that insert many rows
     Costs               costs of reads for the optimiser
     AutoIncrement       values of AUTO_INCREMENT columns
     TableStatistics     sizes and estimates for the optimiser and INFORMATION_SCHEMA
     create.h, check.h   CREATE TABLE, CHECK TABLE
     alter/              ALTER TABLE in place, OPTIMIZE TABLE, REPAIR TABLE

   The codecs of format/ convert rows and keys to bytes; the engine handles only bytes. */

#ifndef TEAK_HANDLER_HA_TEAK_H
#define TEAK_HANDLER_HA_TEAK_H

#include "base/server_handler.h"

#include "base/counted_memory.h"
#include "handler/auto_increment.h"
#include "handler/costs.h"
#include "handler/lock_policy.h"
#include "handler/primary_range.h"
#include "handler/row_fetcher.h"
#include "handler/row_position.h"
#include "handler/row_writer.h"
#include "handler/scan.h"
#include "handler/table_statistics.h"
#include "handler/unread_rows.h"
#include "table/open_table.h"

namespace teak {

class ha_teak final : public ServerHandler {
 public:
  ha_teak(handlerton *hton, TABLE_SHARE *share) : ServerHandler(hton, share) {}
  ~ha_teak() override = default;

  /* ---- abilities ---- */
  ulonglong table_flags() const override;
  ulong index_flags(uint key, uint part, bool all_parts) const override;
  uint max_supported_record_length() const override { return HA_MAX_REC_LENGTH; }
  uint max_supported_keys() const override { return MAX_KEY; }
  uint max_supported_key_parts() const override { return MAX_REF_PARTS; }
  uint max_supported_key_length() const override { return 3072; }
  uint max_supported_key_part_length() const override { return 3072; }
  enum row_type get_row_type() const override { return ROW_TYPE_DYNAMIC; }
  const key_map *keys_to_use_for_scanning() override { return costs_.keys_to_scan(); }
  uint8 table_cache_type() override { return HA_CACHE_TBL_ASKTRANSACT; }
  my_bool register_query_cache_table(THD *thd, const char *path, uint path_bytes, qc_engine_callback *callback,
                                     ulonglong *data) override;
  bool get_error_message(int error, String *text) override;

  /* ---- open ---- */
  int open(const char *name, int mode, uint test_if_locked) override;
  int close() override;
  int extra(enum ha_extra_function operation) override;
  int reset() override;

  /* ---- statements and locks ---- */
  /* The engine locks rows, and the server's metadata locks protect tables: THR_LOCK is not used. */
  uint lock_count() const override { return 0; }
  THR_LOCK_DATA **store_lock(THD *thd, THR_LOCK_DATA **to, enum thr_lock_type type) override;
  int external_lock(THD *thd, int type) override;
  handler *clone(const char *name, MEM_ROOT *memory) override;
  int start_stmt(THD *thd, thr_lock_type type) override;
  void unlock_row() override;
  void try_semi_consistent_read(bool yes) override;
  bool was_semi_consistent_read() override { return scan_.was_semi_consistent(); }

  /* ---- definition ---- */
  int create(const char *name, TABLE *form, HA_CREATE_INFO *info) override;
  int delete_table(const char *name) override;
  int rename_table(const char *from, const char *to) override;
  int truncate() override;
  void update_create_info(HA_CREATE_INFO *info) override;
  bool check_if_incompatible_data(HA_CREATE_INFO *info, uint table_changes) override;
  enum_alter_inplace_result check_if_supported_inplace_alter(TABLE *altered, Alter_inplace_info *alter) override;
  bool can_convert_nocopy(const Field &field, const Column_definition &wanted) const override;
  Compare_keys compare_key_parts(const Field &old_field, const Column_definition &new_field,
                                 const KEY_PART_INFO &old_part, const KEY_PART_INFO &new_part) const override;
  bool prepare_inplace_alter_table(TABLE *altered, Alter_inplace_info *alter) override;
  bool inplace_alter_table(TABLE *altered, Alter_inplace_info *alter) override;
  bool commit_inplace_alter_table(TABLE *altered, Alter_inplace_info *alter, bool commit) override;

  /* ---- writes ---- */
  int write_row(const uchar *record) override;
  int update_row(const uchar *old_record, const uchar *new_record) override;
  int delete_row(const uchar *record) override;
  void start_bulk_insert(ha_rows rows, uint flags) override;
  int end_bulk_insert() override;
  const Item *cond_push(const Item *condition) override;
  void cond_pop() override {
    deleted_range_.clear();
    scan_.push_condition(nullptr);
  }
  int direct_delete_rows_init() override;
  int direct_delete_rows(ha_rows *count) override;
  void get_auto_increment(ulonglong offset, ulonglong increment, ulonglong wanted, ulonglong *first,
                          ulonglong *reserved) override {
    auto_increment_.reserve(offset, increment, wanted, first, reserved);
  }
  void release_auto_increment() override { auto_increment_.release(); }
  int reset_auto_increment(ulonglong value) override;

  /* ---- reads ---- */
  /* For a query that the engine computes (pushdown/): the table, if the statement reads it without locks. Otherwise nullptr. */
  OpenTable *open_to_compute() {
    locks_.settle();
    return locks_.locking() || open_.without_rollback() ? nullptr : &open_;
  }
  int rnd_init(bool scan) override;
  int rnd_end() override;
  int rnd_next(uchar *record) override { return scan_.next_row(record); }
  int rnd_pos(uchar *record, uchar *position) override { return fetcher_.fetch_by_position(position, record); }
  int rnd_pos_by_record(uchar *record) override;
  void position(const uchar *record) override { positions_.store_of_record(record, ref); }
  int cmp_ref(const uchar *left, const uchar *right) override { return positions_.compare(left, right); }
  int index_init(uint key, bool sorted) override;
  int index_end() override;
  int index_read_map(uchar *record, const uchar *image, key_part_map parts, enum ha_rkey_function how) override {
    return scan_.read(record, image, parts, how);
  }
  int index_read_last_map(uchar *record, const uchar *image, key_part_map parts) override {
    return scan_.read(record, image, parts, HA_READ_PREFIX_LAST);
  }
  int index_next_same(uchar *record, const uchar *image, uint length) override;
  int index_next(uchar *record) override { return scan_.next(record); }
  int index_prev(uchar *record) override { return scan_.previous(record); }
  int index_first(uchar *record) override { return scan_.first(record); }
  int index_last(uchar *record) override { return scan_.last(record); }
  int read_range_first(const key_range *start, const key_range *end, bool is_equality, bool sorted) override;
  int prepare_range_scan(const key_range *start, const key_range *end) override;

  /* ---- conditions, filters and multi-range reads ---- */
  Item *idx_cond_push(uint key, Item *condition) override;
  bool rowid_filter_push(Rowid_filter *filter) override;
  int multi_range_read_init(RANGE_SEQ_IF *ranges, void *parameter, uint count, uint mode,
                            HANDLER_BUFFER *buffer) override;
  int multi_range_read_next(range_id_t *range) override;
  ha_rows multi_range_read_info(uint key, uint ranges, uint keys, uint key_parts, uint *buffer_bytes, uint *mode,
                                Cost_estimate *cost) override;
  int multi_range_read_explain_info(uint mode, char *text, size_t bytes) override;

  /* ---- statistics ---- */
  int info(uint what) override {
    if (what & HA_STATUS_VARIABLE) costs_.begin_statement();
    return statistics_.refresh(what);
  }
  ha_rows records_in_range(uint key, const key_range *min, const key_range *max, page_range *) override {
    return statistics_.rows_in_range(key, min, max);
  }
  ha_rows estimate_rows_upper_bound() override;
  ha_rows records() override;

  /* ---- administration ---- */
  int check(THD *thd, HA_CHECK_OPT *options) override;
  int analyze(THD *thd, HA_CHECK_OPT *options) override;
  int optimize(THD *thd, HA_CHECK_OPT *options) override;
  int repair(THD *thd, HA_CHECK_OPT *options) override;

 protected:
  ReadCosts &read_costs() override { return costs_; }
  ha_rows estimate_ranges(const Ranges &ranges, uint *buffer_bytes, uint *mode, Cost_estimate *cost) override;

 private:
  int open_share(const char *name);
  void hide_lossy_keys();
  bool open_examined();
  void publish_empty_table();
  uint multi_range_mode(uint key) const;
  bool set_altered_auto_increment(const Alter_inplace_info &alter);

  CountedMemory memory_{sizeof(ha_teak)};
  OpenTable open_{*this};
  LockPolicy locks_{open_};
  RowPositions positions_{open_};
  ConflictingRow conflicting_row_;
  RowPrefetcher prefetcher_{open_};
  RowFetcher fetcher_{open_, locks_, positions_, conflicting_row_, prefetcher_.window()};
  Scan scan_{open_, locks_, fetcher_, prefetcher_};
  RowWriter writer_{open_, locks_, positions_, conflicting_row_};
  PrimaryRange deleted_range_;  // of a DELETE that the engine executes as a whole
  AutoIncrement auto_increment_{open_, locks_};
  UnreadRows unread_rows_{open_, locks_};
  TableStatistics statistics_{open_};
  Costs costs_{open_};
  DsMrr_impl multi_range_;  // the server's implementation of multi-range reads
};

}  // namespace teak

#endif
