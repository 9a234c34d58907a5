/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* Share: state common to all handlers of a table (or partition): the engine's table, whose files are opened by the
   first statement that uses it, the codecs of its keys and rows, the AUTO_INCREMENT counter, hidden row ids, and index
   statistics. The server stores it with the TABLE_SHARE and deletes it before the table is dropped, renamed or
   altered. */

#ifndef TEAK_TABLE_SHARE_H
#define TEAK_TABLE_SHARE_H

#include "base/server_version.h"

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/core.h"
#include "base/counted_memory.h"
#include "format/key_codec.h"
#include "format/key_originals.h"
#include "format/row_codec.h"
#include "session/cursor.h"
#include "session/query_cache.h"
#include "statistics/index_statistics.h"
#include "table/auto_increment_counter.h"
#include "table/table_metadata.h"

namespace teak {

class Share final : public Handler_share {
 public:
  enum class Purpose { Use, Repair };
  /* Opens the engine's table. Purpose::Use does not open its files. Purpose::Repair opens them, and succeeds even if
     the table cannot be used. Returns 0, or the server's error with the cause. */
  static int open(THD *thd, const char *name, const TABLE *table, Purpose purpose, Share **share, std::string *cause);
  ~Share() override;

  /* A set of columns that can be compared with the server's bitmaps. */
  class ColumnSet {
   public:
    ColumnSet() = default;
    ColumnSet(const ColumnSet &) = delete;
    ColumnSet &operator=(const ColumnSet &) = delete;
    void init(uint columns);
    void add(uint column) { bitmap_set_bit(&map_, column); }
    bool has(uint column) const { return bitmap_is_set(&map_, column); }
    bool holds(const MY_BITMAP *columns) const { return bitmap_is_subset(columns, &map_); }
    const MY_BITMAP *map() const { return &map_; }
    const std::vector<my_bitmap_map> &words() const { return words_; }

   private:
    MY_BITMAP map_;
    std::vector<my_bitmap_map> words_;
  };

  struct Key {
    std::unique_ptr<KeyCodec> codec;          // null for the primary key
    std::unique_ptr<KeyOriginals> originals;  // null when entries have no originals
    bool clustering = false;                  // the entries contain the row
    bool unique = false;                      // enforced by the engine
    bool nullable = false;
    bool has_virtual_column = false;
    bool loses_virtual_column = false;  // a virtual column of the key cannot be decoded from an entry
    uint parts = 0;
    key_part_map all_parts = 0;
    ColumnSet
        decodable_columns;  // columns that can be decoded from an entry: from its parts, the originals or the primary key
  };

  /* Keys that ALTER TABLE builds concurrently with writes. Writers also add entries to them. Their index numbers in
     the engine are consecutive. */
  struct BuildingKey {
    std::shared_ptr<const KeyCodec> codec;
    std::shared_ptr<const KeyOriginals> originals;  // nullptr: none
    bool clustering, unique, nullable;
    bool checked;                       // unique, and no other key enforces it
    std::vector<uint> virtual_columns;  // numbers of the fields
  };
  /* The rows of a table that is rebuilt. Its record has the form of the table's. */
  struct BuildingRows {
    std::shared_ptr<const KeyCodec> primary;
    std::shared_ptr<const RowCodec> rows;
    bool new_primary;  // another primary key than the table's
  };
  struct Building {
    std::unique_ptr<const BuildingRows> rows;  // nullptr: only keys are built. Otherwise the first index has the rows
    std::vector<BuildingKey> keys;
    uint32_t first_index = 0;

    size_t indexes() const { return keys.size() + (rows != nullptr ? 1 : 0); }
    bool has_clustering_key() const {
      for (const BuildingKey &key : keys)
        if (key.clustering) return true;
      return false;
    }
  };
  const Building *building() const { return building_.load(std::memory_order_acquire); }
  /* nullptr: no keys are being built. Earlier objects are freed with the Share, because a writer may still use them. */
  void set_building(std::unique_ptr<const Building> building) {
    const Building *shared = building.get();
    if (building != nullptr) buildings_.push_back(std::move(building));
    building_.store(shared, std::memory_order_release);
  }

  teak_table *table() const { return table_; }
  /* Whether the table can only be checked and repaired. */
  bool is_unreadable() const { return is_unreadable_; }
  teak_status index_statistics(uint32_t index, teak_index_statistics *statistics) const;
  const std::string &name() const { return name_; }
  query_cache_use::SlotNumber query_cache_slot() const { return query_cache_slot_; }

  /* Index 0 of the engine contains the rows; the secondary indexes follow in the server's order. */
  uint primary_key() const { return primary_key_; }
  bool hidden_primary() const { return primary_key_ == MAX_KEY; }
  uint keys() const { return static_cast<uint>(keys_.size()); }
  uint indexes() const { return hidden_primary() ? keys() + 1 : keys(); }
  uint32_t index_of(uint key) const { return key == primary_key_ ? 0 : hidden_primary() ? key + 1 : key; }
  uint key_of(uint32_t index) const { return hidden_primary() ? (index == 0 ? MAX_KEY : index - 1) : index; }

  const KeyCodec &primary() const { return *primary_; }
  const KeyCodec &codec(uint key) const { return key == primary_key_ ? *primary_ : *keys_[key].codec; }
  const Key &key(uint key) const { return keys_[key]; }
  const RowCodec &rows() const { return *rows_; }
  /* Describes rows written before an ALTER TABLE changed the row format. */
  const RowHistory &history() const { return history_; }
  /* Called after all rows were rewritten: `rows` decodes them. No other connection may use the table. */
  void forget_row_history(std::unique_ptr<RowCodec> rows) {
    rows_ = std::move(rows);
    history_ = RowHistory();
  }
  bool has_indexed_virtual_column() const { return has_indexed_virtual_column_; }
  bool has_clustering_key() const { return has_clustering_key_; }

  /* Writes into each column that is NULL in the record the bytes that Field::reset() writes, unless these are all 0. */
  void write_null_images(uchar *record) const;

  /* The parts of a secondary entry other than the key's columns; false when the entry is malformed. */
  struct EntryRest {
    teak_slice primary;    // the encoded primary key
    teak_slice originals;  // of a key with originals; empty in an entry that was written without them
    teak_slice row;        // of a clustering key: the row's value
  };
  bool rest_of_entry(uint key, const teak_row &entry, EntryRest *rest) const;
  /* The primary key in the value of a unique entry. */
  bool primary_of_value(bool clustering, teak_slice value, teak_slice *primary) const;

  AutoIncrementCounter &auto_increment() { return auto_increment_; }

  /* Assigns the id of a new row, in a table without primary key. */
  teak_status next_row_id(uint64_t *id);

  /* Called after TRUNCATE, which resets the AUTO_INCREMENT counter and the row ids. */
  void forget_counters();

  /* End of the last writing statement, in seconds since 1970; 0: unknown. */
  time_t written_at() const;
  teak_status set_written_at(time_t when);

  /* Increases when a statement that has written to the table ends, and when the table was truncated or analysed. */
  uint64_t changes() const { return changes_.load(std::memory_order_relaxed); }
  void note_change() { changes_.fetch_add(1, std::memory_order_relaxed); }

  /* Statistics for rec_per_key. */
  IndexStatistics &statistics() { return statistics_; }

 private:
  struct NullImage {
    uint32_t null_offset, offset, length, image;
    uint8_t null_bit;
  };

  Share() = default;
  void build_null_images(const TABLE *table);
  int refuse(const std::string &why, std::string *cause) const;
  int read_metadata(TableMetadata *metadata, std::string *cause) const;
  int build_codecs(const TABLE *table, TableMetadata metadata, std::string *cause);

  teak_table *table_ = nullptr;
  bool is_unreadable_ = false;
  std::string name_;
  query_cache_use::SlotNumber query_cache_slot_ = 0;
  std::shared_ptr<const KeyCodec> primary_;
  std::unique_ptr<RowCodec> rows_;
  RowHistory history_;
  std::vector<Key> keys_;
  uint primary_key_ = MAX_KEY;
  bool has_indexed_virtual_column_ = false;
  bool has_clustering_key_ = false;
  std::vector<NullImage> null_images_;
  std::vector<uchar> null_image_bytes_;

  AutoIncrementCounter auto_increment_;

  std::atomic<const Building *> building_{nullptr};
  std::vector<std::unique_ptr<const Building>> buildings_;  // only one ALTER at a time changes it

  std::atomic<uint64_t> changes_{0};

  std::mutex row_id_mutex_;
  uint64_t row_id_next_ = 0, row_id_end_ = 0;

  IndexStatistics statistics_;
  std::optional<CountedMemory> memory_;
};

}  // namespace teak

#endif
