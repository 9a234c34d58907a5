/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* ha_teak: one open table of one connection, as the server sees it. Its parts, by job:

     ha_teak.cc         what the engine can do, small calls
     open.cc            open, close
     lock.cc            statements, row locks, isolation
     create.cc          CREATE, DROP, RENAME, TRUNCATE
     write.cc           INSERT, UPDATE, DELETE
     auto_increment.cc  AUTO_INCREMENT
     read.cc            index and table scans, lookups by position
     row.cc             from an entry of an index to the server's record
     pushdown.cc        conditions and filters on entries, multi-range reads
     info.cc            figures for the optimiser and for INFORMATION_SCHEMA
     check.cc           CHECK, ANALYZE, OPTIMIZE TABLE
     ../alter           ALTER TABLE in place

   Rows and keys become bytes in the codecs; the engine behind teak.h knows bytes only. */

#ifndef TEAK_HANDLER_HA_TEAK_H
#define TEAK_HANDLER_HA_TEAK_H

#include "base/server_version.h"

#include <memory>
#include <string>
#include <vector>

#include "session/cursor.h"
#include "session/session.h"
#include "table/share.h"

namespace teak {

struct AlterContext;

class ha_teak final : public handler {
 public:
  ha_teak(handlerton *hton, TABLE_SHARE *share) : handler(hton, share) {}
  ~ha_teak() override = default;

  /* ---- abilities ---- */
  ulonglong table_flags() const override;
  ulong index_flags(uint key, uint part, bool all_parts) const override;
  uint max_supported_record_length() const override { return HA_MAX_REC_LENGTH; }
  uint max_supported_keys() const override { return MAX_KEY; }
  uint max_supported_key_parts() const override { return MAX_REF_PARTS; }
  uint max_supported_key_length() const override { return 3072; }
  uint max_supported_key_part_length() const override { return 3072; }
  const char *index_type(uint key) override;
  enum row_type get_row_type() const override { return ROW_TYPE_DYNAMIC; }
  const key_map *keys_to_use_for_scanning() override { return &key_map_full; }
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
  /* The engine locks rows, the server's metadata locks tables: nothing is left for THR_LOCK. */
  uint lock_count() const override { return 0; }
  THR_LOCK_DATA **store_lock(THD *thd, THR_LOCK_DATA **to, enum thr_lock_type type) override;
  int external_lock(THD *thd, int type) override;
  handler *clone(const char *name, MEM_ROOT *memory) override;
  int start_stmt(THD *thd, thr_lock_type type) override;
  void unlock_row() override;
  void try_semi_consistent_read(bool yes) override;
  bool was_semi_consistent_read() override;

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
  void get_auto_increment(ulonglong offset, ulonglong increment, ulonglong wanted, ulonglong *first,
                          ulonglong *reserved) override;
  void release_auto_increment() override;
  int reset_auto_increment(ulonglong value) override;

  /* ---- reads ---- */
  int rnd_init(bool scan) override;
  int rnd_end() override;
  int rnd_next(uchar *record) override;
  int rnd_pos(uchar *record, uchar *position) override;
  void position(const uchar *record) override;
  int cmp_ref(const uchar *left, const uchar *right) override;
  int index_init(uint key, bool sorted) override;
  int index_end() override;
  int index_read_map(uchar *record, const uchar *image, key_part_map parts, enum ha_rkey_function how) override;
  int index_read_last_map(uchar *record, const uchar *image, key_part_map parts) override;
  int index_next_same(uchar *record, const uchar *image, uint length) override;
  int index_next(uchar *record) override;
  int index_prev(uchar *record) override;
  int index_first(uchar *record) override;
  int index_last(uchar *record) override;
  int read_range_first(const key_range *start, const key_range *end, bool is_equality, bool sorted) override;
  int prepare_range_scan(const key_range *start, const key_range *end) override;

  Item *idx_cond_push(uint key, Item *condition) override;
  bool rowid_filter_push(Rowid_filter *filter) override;
  int multi_range_read_init(RANGE_SEQ_IF *ranges, void *parameter, uint count, uint mode,
                            HANDLER_BUFFER *buffer) override;
  int multi_range_read_next(range_id_t *range) override;
  uint order_of_ranges() const;
  ha_rows multi_range_read_info_const(uint key, RANGE_SEQ_IF *ranges, void *parameter, uint count, uint *buffer_bytes,
                                      uint *mode, Cost_estimate *cost) override;
  ha_rows multi_range_read_info(uint key, uint ranges, uint keys, uint key_parts, uint *buffer_bytes, uint *mode,
                                Cost_estimate *cost) override;
  int multi_range_read_explain_info(uint mode, char *text, size_t bytes) override;

  /* ---- figures ---- */
  int info(uint what) override;
  ha_rows records_in_range(uint key, const key_range *least, const key_range *greatest, page_range *pages) override;
  ha_rows estimate_rows_upper_bound() override;
  double scan_time() override;
  double read_time(uint index, uint ranges, ha_rows rows) override;

  /* ---- administration ---- */
  int check(THD *thd, HA_CHECK_OPT *options) override;
  int analyze(THD *thd, HA_CHECK_OPT *options) override;
  int optimize(THD *thd, HA_CHECK_OPT *options) override;

 private:
  static constexpr size_t POSITION_LENGTH_BYTES = 2;     // in front of a primary key in a position
  static constexpr size_t POSITION_OF_ROW_ID_BYTES = 6;  // the low bytes of a hidden row id: no table gives out 2^48

  /* The keys of one row, by index of the engine. */
  struct RowKeys {
    std::vector<ByteBuffer> keys;
    std::vector<ByteBuffer> values;  // where a key keeps originals; behind the primary key if the entry must be unique
    std::vector<uint8_t> unique;     // this entry must be the only one of its key
    void resize(size_t indexes) {
      keys.resize(indexes);
      values.resize(indexes);
      unique.resize(indexes);
    }
  };

  /* A status as an error of the server; its cause is kept for get_error_message(). */
  int failure(teak_status status);
  int out_of_memory();
  int corrupt(const char *what);

  void request(thr_lock_type type);
  int use(THD *thd, teak_lock_mode mode);
  void settle_locks();
  bool replayed() const;
  Cursor::Manner manner() const { return {skip_locked_, keeps_rows_}; }

  /* ---- definition ---- */
  bool raise_error(int error);
  const char *cannot_write_anew(TABLE *altered, const Alter_inplace_info *alter);
  bool read_rows(TABLE *altered, AlterContext *context);
  bool read_rows_anew(TABLE *altered, Alter_inplace_info *alter);
  bool report_duplicate_anew(TABLE *altered, Alter_inplace_info *alter, uint32_t index, const std::string &key);
  bool add_entries(const TABLE *altered, AlterContext *context, teak_slice primary);
  bool set_altered_auto_increment(const Alter_inplace_info *alter);

  /* ---- writes ---- */
  bool encode_building_keys(const uchar *record, const Share::Building &building, RowKeys *row) const;
  bool building_changed(teak_status status, const Share::Building *building) const;
  int begin_write();
  int give_row_id();
  bool encode_keys(const uchar *record, RowKeys *row) const;
  bool encode_secondary_keys(const uchar *record, RowKeys *row) const;
  teak_slice value_of(const RowKeys &row, uint32_t index) const;
  int refused(const teak_duplicate &duplicate);
  teak_status lock_duplicate(uint32_t index, teak_lock_mode mode);
  teak_status lock_free_keys(uint32_t duplicate, bool generated_number);
  int note_auto_increment(const uchar *record);
  bool may_need_intervals() const;
  template <typename Move> int move_auto_increment(Move move);
  int hold_auto_increment();
  void let_go_of_auto_increment();
  int take_interval(ulonglong offset, ulonglong increment, ulonglong *first, ulonglong *reserved);
  int next_auto_increment_in_key(ulonglong *next);
  int greatest_auto_increment(ulonglong *greatest);
  int auto_increment_of(uint key, const teak_row &entry, ulonglong *value);

  /* ---- reads ---- */
  enum class Direction { None, Forward, Backward };
  static constexpr int SKIP = -1;      // the entry is of no row: go on
  static constexpr int REJECTED = -2;  // the statement does not want the entry: go on

  void prepare_for_write();
  void bind_scan(uint key);
  void bind_rows();
  void set_no_bounds();
  teak_status set_range_bounds();
  teak_slice encode_bound(uint key, const key_range &range, bool is_lower, ByteBuffer *bytes) const;
  int read_exact(uchar *record, const uchar *image, key_part_map parts, bool from_last);
  int scan(teak_status status, teak_row entry, Direction direction, uchar *record, int nothing);
  int deliver(const teak_row &entry, uchar *record);
  int deliver_by_secondary(const teak_row &entry, uchar *record);
  bool decode_entry(const Share::Key &key, const teak_row &entry, const Share::EntryRest &rest, uchar *record);
  int check_pushed_condition();
  int check_pushed_filter(teak_slice primary);
  bool decode_row(teak_slice primary, teak_slice value, uchar *record, bool all_columns);
  bool compute_scanned_columns(uchar *record);
  bool entry_is_of_row(const teak_row &entry, uchar *record, teak_status *status);
  bool covering();
  /* A sequence keeps what it gave out, whatever becomes of the transaction. */
  bool without_rollback() const { return table_share->table_type == TABLE_TYPE_SEQUENCE; }
  Session *session_of(THD *thd);
  int end_write(int error);
  bool locking() const { return lock_mode_ != TEAK_LOCK_NONE; }
  void remember_primary(teak_slice primary);
  void store_position(teak_slice primary, uchar *position) const;
  teak_slice primary_of_position(const uchar *position, uint8_t *row_id) const;

  int sum_of_indexes();
  int check_secondaries(THD *thd);
  bool is_value_of(const RowKeys &row, uint32_t index, teak_slice found) const;
  std::string key_name(uint32_t index) const;

  std::string name_;
  std::string error_text_;
  Share *share_ = nullptr;
  Session *session_ = nullptr;
  std::unique_ptr<Session> own_session_;  // of a sequence
  teak_lock_mode lock_mode_ = TEAK_LOCK_NONE;
  teak_lock_mode least_lock_mode_ = TEAK_LOCK_NONE;  // of a clone: its original's
  bool skip_locked_ = false;                         // SKIP LOCKED
  bool semi_consistent_ = false;                     // an UPDATE waits for no row that it may not want
  bool wrote_ = false;                               // the statement has
  bool decides_writes_ = false;                      // what is read of the table decides what the statement writes
  bool clone_decides_writes_ = false;                // of a clone: its original's
  bool keeps_rows_ = false;                          // what is read stays as it is, for the statement's replay
  thr_lock_type requested_lock_ = TL_UNLOCK;

  /* Reads. scan_ walks the index of the scan, rows_ fetches rows by primary key, probe_ looks up what the server did not
     ask for. */
  Cursor scan_, rows_, probe_;
  Cursor *row_cursor_ = nullptr;  // gave the row read last, and holds its lock
  uint scan_key_ = MAX_KEY;       // key of the scan; MAX_KEY: the whole table
  bool scan_started_ = false;
  bool all_columns_ = false;     // what is read may be written back whole
  bool positions_only_ = false;  // the server told us to read keys alone, and asks for positions
  bool exact_ = false;           // the lookup was exact: all rows up to the bounds agree with it
  bool exact_bounds_ = false;    // the bounds are those of an exact lookup; index_next() may go beyond them
  bool exact_by_get_ = false;    // the lookup was of a unique key: there is no second row
  bool exact_missed_ = false;    // ... and found no row; index_next() goes on from where it would be
  bool in_read_range_ = false;   // the server's read_range_first() calls us back
  bool has_range_ = false;       // prepare_range_scan() was called for the next lookup
  teak_slice range_lower_ = UNBOUNDED, range_upper_ = UNBOUNDED;
  ByteBuffer prefix_, prefix_end_, range_start_, range_end_;
  ByteBuffer compared_key_, position_key_, scratch_;
  BlobArena blobs_;
  DsMrr_impl multi_range_;
  uint8_t row_id_[KeyCodec::HIDDEN_ROW_ID_BYTES] =
      {};  // of the row read or written last, in a table without primary key

  /* Writes. */
  RowKeys new_, old_;
  ByteBuffer row_, old_row_;
  std::vector<teak_row_entry> entries_;
  std::vector<teak_row_change> changes_;
  ByteBuffer in_the_way_;  // primary key of the row that refused the last one
  bool holds_auto_increment_ = false;
  int auto_increment_error_ = 0;
  ulonglong auto_increment_left_ = 0;    // rows for which the statement asked for values and that are still to come
  bool writes_over_duplicates_ = false;  // REPLACE, ON DUPLICATE KEY UPDATE: the row in the way is wanted next

  uint64_t raw_bytes_ = 0;  // of the row index, before compression; as of the last info()
  double pages() const;
};

}  // namespace teak

#endif
