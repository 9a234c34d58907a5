/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* See share.h. */

#include "table/share.h"

#include <algorithm>
#include <new>

#include "base/engine.h"
#include "base/errors.h"
#include "base/table_name.h"
#include "format/clustering_value.h"
#include "table/definition.h"
#include "table/discovery.h"

namespace teak {

namespace {

constexpr uint64_t ROW_ID_BATCH = 4096;

// Estimates of the memory of a Share, for each of its keys and for each column.
constexpr size_t SHARE_BYTES = 1024, KEY_BYTES = 1024, COLUMN_BYTES = 256;

}  // namespace

void Share::ColumnSet::init(uint columns) {
  words_.assign(bitmap_buffer_size(columns) / sizeof(my_bitmap_map), 0);
  my_bitmap_init(&map_, words_.data(), columns);
  bitmap_clear_all(&map_);
}

int Share::open(THD *thd, const char *name, const TABLE *table, Purpose purpose, Share **result,
                std::string *cause) try {
  std::unique_ptr<Share> share(new (std::nothrow) Share);
  if (share == nullptr) return HA_ERR_OUT_OF_MEM;
  share->name_ = name;
  share->query_cache_slot_ = query_cache_use::slot_of(name);
  const EngineTableName engine_name(name);
  const bool for_repair = purpose == Purpose::Repair;
  auto is_killed = [](void *killed) { return thd_kill_level(static_cast<THD *>(killed)) != THD_IS_NOT_KILLED; };
  teak_status status = for_repair ? teak_table_open_damaged(engine, engine_name, is_killed, thd, &share->table_)
                                  : teak_table_open_lazily(engine, engine_name, &share->table_);
  if (status == TEAK_OK && for_repair) status = teak_table_is_unreadable(share->table_, &share->is_unreadable_);
  if (status != TEAK_OK) {
    share->table_ = nullptr;
    return convert(thd, status, name, cause);
  }
  uint64_t id = 0;
  if (!engine_name.is_temporary()) status = teak_table_get_id(engine, engine_name, &id);
  if (status != TEAK_OK) return convert(thd, status, name, cause);
  TableMetadata metadata;
  if (int error = share->read_metadata(&metadata, cause)) return error;
  if (int error = check_definition(name, table->s, &metadata, cause)) return error;
  if (int error = share->build_codecs(table, std::move(metadata), cause)) return error;
  share->auto_increment_.init(share->table_);
  std::vector<IndexStatistics::Index> indexes;
  for (uint key = 0; key < share->keys(); key++)
    indexes.push_back({&share->codec(key), share->index_of(key), share->key(key).unique, share->key(key).nullable,
                       IndexStatistics::shape_of(table->key_info[key])});
  share->statistics_.init(share->table_, id, std::move(indexes));
  *result = share.release();
  return 0;
} catch (const std::bad_alloc &) {
  return HA_ERR_OUT_OF_MEM;
}

Share::~Share() {
  statistics_.stop_sampling();
  if (table_ != nullptr) teak_table_close(table_);
}

int Share::refuse(const std::string &why, std::string *cause) const {
  *cause = name_ + ": " + why;
  sql_print_error("TEAK: %s", cause->c_str());
  return ERROR_OF_ENGINE;
}

int Share::read_metadata(TableMetadata *metadata, std::string *cause) const {
  teak_slice bytes;
  std::string error;
  if (teak_table_get_metadata(table_, &bytes) != TEAK_OK) return refuse("the table's metadata cannot be read", cause);
  return TableMetadata::decode(bytes, metadata, &error) ? 0 : refuse(error, cause);
}

int Share::build_codecs(const TABLE *table, TableMetadata metadata, std::string *cause) {
  auto refuse = [&](const std::string &why) { return this->refuse(why, cause); };
  std::string error;
  history_ = std::move(metadata.history);

  primary_key_ = table->s->primary_key;
  if (hidden_primary())
    primary_ = KeyCodec::create_hidden();
  else
    primary_ = KeyCodec::create(table, primary_key_, nullptr, &error);
  if (primary_ == nullptr) return refuse(error);
  rows_ = RowCodec::create(table, primary_, metadata.schema_version, &history_, &error);
  if (rows_ == nullptr) return refuse(error);

  memory_.emplace(SHARE_BYTES + KEY_BYTES * table->s->keys + COLUMN_BYTES * table->s->fields);
  keys_ = std::vector<Key>(table->s->keys);
  for (uint number = 0; number < table->s->keys; number++) {
    const KEY &server_key = table->key_info[number];
    Key &key = keys_[number];
    if (number != primary_key_) {
      key.codec = KeyCodec::create(table, number, primary_.get(), &error);
      if (key.codec == nullptr) return refuse(error);
    }
    const KeyCodec &codec = this->codec(number);
    // After EXCHANGE PARTITION the definition of a partition may have other options than its entries.
    key.clustering = number != primary_key_ && metadata.is_clustering(number);
    has_clustering_key_ |= key.clustering;
    const bool stores_originals = number != primary_key_ && !key.clustering;
    if (stores_originals && !KeyOriginals::create(table, number, &key.originals, &error)) return refuse(error);
    key.unique = enforced_by_engine(server_key);
    key.nullable = (server_key.flags & HA_NULL_PART_KEY) != 0;
    key.parts = server_key.user_defined_key_parts;
    key.all_parts = make_prev_keypart_map(key.parts);
    key.decodable_columns.init(table->s->fields);
    for (uint part = 0; part < codec.parts(); part++) {
      uint column = codec.column(part);
      if (codec.decodable(part)) key.decodable_columns.add(column);
      if (table->field[column]->stored_in_db()) continue;
      key.has_virtual_column = true;
      key.loses_virtual_column |=
          !codec.decodable(part) && !key.clustering && !KeyOriginals::stores(table->s, number, part);
    }
    // The row contains the columns that other keys store as originals.
    for (uint part = 0; key.clustering && part < codec.parts(); part++)
      if (KeyOriginals::stores(table->s, number, part)) key.decodable_columns.add(codec.column(part));
    for (size_t i = 0; key.originals != nullptr && i < key.originals->count(); i++)
      key.decodable_columns.add(key.originals->column(i));
    for (uint part = 0; part < primary_->parts(); part++)
      if (primary_->decodable(part)) key.decodable_columns.add(primary_->column(part));
    has_indexed_virtual_column_ |= key.has_virtual_column;
  }

  build_null_images(table);

  if (is_unreadable_) return 0;  // only the index of the rows is open
  size_t count = 0;
  if (teak_table_get_index_count(table_, &count) != TEAK_OK || count != indexes())
    return refuse("the table has other indexes in the engine than in its definition");
  return 0;
}

void Share::build_null_images(const TABLE *table) {
  for (Field **at = table->field; *at != nullptr; at++) {
    Field *field = *at;
    const uint length = field->pack_length_in_rec();
    if (field->null_ptr == nullptr || (field->flags & BLOB_FLAG) || length == 0) continue;
    NullImage image = {static_cast<uint32_t>(field->null_ptr - table->record[0]),
                       static_cast<uint32_t>(field->ptr - table->record[0]), length,
                       static_cast<uint32_t>(null_image_bytes_.size()), field->null_bit};
    std::vector<uchar> record(table->s->reclength);
    const my_ptrdiff_t away = record.data() - table->record[0];
    field->move_field_offset(away);
    field->reset();
    field->move_field_offset(-away);
    const uchar *bytes = record.data() + image.offset;
    if (std::all_of(bytes, bytes + length, [](uchar byte) { return byte == 0; })) continue;
    null_image_bytes_.insert(null_image_bytes_.end(), bytes, bytes + length);
    null_images_.push_back(image);
  }
}

void Share::write_null_images(uchar *record) const {
  for (const NullImage &image : null_images_)
    if (record[image.null_offset] & image.null_bit)
      memcpy(record + image.offset, null_image_bytes_.data() + image.image, image.length);
}

time_t Share::written_at() const {
  uint64_t when = 0;
  return teak_table_get_written_at(table_, &when) == TEAK_OK ? static_cast<time_t>(when) : 0;
}

teak_status Share::set_written_at(time_t when) {
  return teak_table_set_written_at(table_, static_cast<uint64_t>(when));
}

teak_status Share::index_statistics(uint32_t index, teak_index_statistics *statistics) const {
  *statistics = {};
  statistics->struct_size = sizeof(*statistics);
  return teak_index_get_statistics(table_, index, statistics);
}

bool Share::rest_of_entry(uint key, const teak_row &entry, EntryRest *rest) const {
  size_t columns = 0;
  if (!codec(key).skip(entry.key.data, entry.key.len, &columns)) return false;
  // Only the keys of non-unique entries contain the primary key.
  if (columns != entry.key.len) {
    rest->primary.data = entry.key.data + columns;
    rest->originals = rest->row = entry.value;
    return codec(key).primary_length(entry.key.data, entry.key.len, columns, &rest->primary.len);
  }
  rest->originals = {entry.value.data, 0};
  if (keys_[key].clustering) return split_clustering_value(entry.value, &rest->row, &rest->primary);
  if (keys_[key].originals == nullptr) {
    rest->primary = entry.value;
    return rest->primary.len != 0;
  }
  if (!primary_of_value(false, entry.value, &rest->primary)) return false;
  rest->originals = {entry.value.data + rest->primary.len, entry.value.len - rest->primary.len};
  return true;
}

bool Share::primary_of_value(bool clustering, teak_slice value, teak_slice *primary) const {
  teak_slice row;
  if (clustering) return split_clustering_value(value, &row, primary);
  size_t length = KeyCodec::HIDDEN_ROW_ID_BYTES;
  if (!hidden_primary() && !primary_->skip(value.data, value.len, &length)) return false;
  *primary = {value.data, length};
  return length != 0 && length <= value.len;
}

void Share::forget_counters() {
  note_change();
  auto_increment_.forget();
  std::lock_guard<std::mutex> guard(row_id_mutex_);
  row_id_next_ = row_id_end_ = 0;
}

teak_status Share::next_row_id(uint64_t *id) {
  std::lock_guard<std::mutex> guard(row_id_mutex_);
  if (row_id_next_ == row_id_end_) {
    uint64_t first = 0;
    teak_status status = teak_table_reserve_row_ids(table_, ROW_ID_BATCH, &first);
    if (status != TEAK_OK) return status;
    row_id_next_ = first;
    row_id_end_ = first + ROW_ID_BATCH;
  }
  *id = row_id_next_++;
  return TEAK_OK;
}

}  // namespace teak
