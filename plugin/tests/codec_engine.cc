/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* ENGINE=TEAKCODEC (codec_engine.h). SHOW STATUS LIKE 'teakcodec%' counts the checks; SET GLOBAL
   teakcodec_collation_pairs = N compares N pairs of strings per collation, teakcodec_history = BYTES checks how rows of
   earlier versions are read, and values of other types; OPTIMIZE TABLE measures the codecs' speed. */

#include "codec_engine.h"

#include <mysql/plugin.h>

#include <mutex>

namespace teak_tests {

namespace {

std::mutex engine_mutex;
std::map<std::string, StoredTable> tables;
Checks checks;
std::string last_row;  // the last inserted row, in hexadecimal: primary key, entries of the other indexes, value
handlerton *codec_hton;

std::string bytes_of(const teak::ByteBuffer &buffer) {
  return std::string(reinterpret_cast<const char *>(buffer.data()), buffer.size());
}
const uint8_t *data_of(const std::string &bytes) { return reinterpret_cast<const uint8_t *>(bytes.data()); }

/* The first string after all strings with this prefix; false if there is none. */
bool successor(std::string *bytes) {
  while (!bytes->empty() && static_cast<uint8_t>(bytes->back()) == 0xFF) bytes->pop_back();
  if (bytes->empty()) return false;
  bytes->back() = static_cast<char>(static_cast<uint8_t>(bytes->back()) + 1);
  return true;
}

}  // namespace

void Checks::report(const std::string &text) { sql_print_error("TEAKCODEC %s", text.c_str()); }

int compare_bytes(const uint8_t *a, size_t a_length, const uint8_t *b, size_t b_length) {
  int order = memcmp(a, b, std::min(a_length, b_length));
  return order != 0 ? sign(order) : (a_length > b_length) - (a_length < b_length);
}

std::string hex(const uint8_t *bytes, size_t length) {
  std::string text;
  for (size_t i = 0; i < length && i < 200; i++) {
    static const char digits[] = "0123456789abcdef";
    text += digits[bytes[i] >> 4];
    text += digits[bytes[i] & 15];
  }
  return text.empty() ? "''" : text;
}

class ha_teakcodec final : public handler {
 public:
  ha_teakcodec(handlerton *hton, TABLE_SHARE *share) : handler(hton, share) {}

  ulonglong table_flags() const override {
    return HA_NULL_IN_KEY | HA_CAN_INDEX_BLOBS | HA_CAN_GEOMETRY | HA_BINLOG_STMT_CAPABLE | HA_BINLOG_ROW_CAPABLE |
           HA_REC_NOT_IN_SEQ | HA_CAN_VIRTUAL_COLUMNS | HA_PRIMARY_KEY_IN_READ_INDEX | HA_FAST_KEY_READ |
           (bit_fields ? HA_CAN_BIT_FIELD : 0);
  }
  ulong index_flags(uint number, uint part, bool all_parts) const override {
    ulong flags = HA_READ_NEXT | HA_READ_PREV | HA_READ_RANGE | HA_READ_ORDER;
    bool decodable = true;
    for (uint i = all_parts ? 0 : part; i <= part; i++)
      decodable = decodable && teak::KeyCodec::part_decodable(table_share, number, i);
    return decodable ? flags | HA_KEYREAD_ONLY : flags;
  }
  uint max_supported_keys() const override { return MAX_KEY; }
  uint max_supported_key_length() const override { return 3072; }
  uint max_supported_key_part_length() const override { return 3072; }

  int create(const char *name, TABLE *, HA_CREATE_INFO *) override {
    std::lock_guard<std::mutex> guard(engine_mutex);
    tables[name];
    return 0;
  }
  int delete_table(const char *name) override {
    std::lock_guard<std::mutex> guard(engine_mutex);
    tables.erase(name);
    return 0;
  }
  int rename_table(const char *from, const char *to) override {
    std::lock_guard<std::mutex> guard(engine_mutex);
    auto entry = tables.extract(from);
    if (entry.empty()) return HA_ERR_NO_SUCH_TABLE;
    entry.key() = to;
    tables.insert(std::move(entry));
    return 0;
  }
  int open(const char *name, int, uint) override;
  int close() override { return 0; }
  int info(uint) override {
    stats.records = stored_ != nullptr ? stored_->indexes[codecs_.primary_number].size() : 2;
    if (stats.records < 2) stats.records = 2;
    return 0;
  }
  ha_rows records_in_range(uint, const key_range *, const key_range *, page_range *) override { return 3; }
  int extra(enum ha_extra_function operation) override {
    if (operation == HA_EXTRA_KEYREAD) keyread_ = true;
    if (operation == HA_EXTRA_NO_KEYREAD) keyread_ = false;
    return 0;
  }
  THR_LOCK_DATA **store_lock(THD *, THR_LOCK_DATA **to, enum thr_lock_type) override { return to; }
  int external_lock(THD *, int) override { return 0; }

  int write_row(const uchar *record) override;
  int rnd_init(bool) override { return start(codecs_.primary_number); }
  int rnd_next(uchar *record) override { return next(record); }
  int rnd_pos(uchar *record, uchar *position) override;
  void position(const uchar *) override { memcpy(ref, &row_key_, sizeof row_key_); }
  int index_init(uint number, bool) override {
    active_index = number;
    return start(number);
  }
  int index_end() override {
    active_index = MAX_KEY;
    return 0;
  }
  int index_read_map(uchar *record, const uchar *key, key_part_map parts, enum ha_rkey_function how) override;
  int index_next(uchar *record) override { return next(record); }
  /* Compares the bytes of the entry, because the record does not contain virtual columns yet. */
  int index_next_same(uchar *record, const uchar *key, uint length) override {
    teak::ByteBuffer buffer;
    codecs_.of(number_).encode_image(key, length, &buffer);
    if (cursor_ != index_->end()) ++cursor_;
    if (cursor_ == index_->end() || cursor_->first.compare(0, buffer.size(), bytes_of(buffer)) != 0)
      return HA_ERR_END_OF_FILE;
    return fetch(record);
  }
  int index_prev(uchar *record) override { return previous(record); }
  int index_first(uchar *record) override {
    cursor_ = index_->begin();
    started_ = false;
    return next(record);
  }
  int index_last(uchar *record) override {
    cursor_ = index_->end();
    return previous(record);
  }
  int optimize(THD *, HA_CHECK_OPT *) override {
    std::lock_guard<std::mutex> guard(engine_mutex);
    measure(table, codecs_, *stored_);
    return HA_ADMIN_OK;
  }

  static my_bool bit_fields;

 private:
  int start(uint number) {
    number_ = number;
    index_ = &stored_->indexes[number];
    cursor_ = index_->begin();
    started_ = false;
    return 0;
  }
  int next(uchar *record) {
    if (started_ && cursor_ != index_->end()) ++cursor_;
    started_ = true;
    return fetch(record);
  }
  int previous(uchar *record) {
    started_ = true;
    if (cursor_ == index_->begin()) return HA_ERR_END_OF_FILE;
    --cursor_;
    return fetch(record);
  }
  int fetch(uchar *record);
  int put(uint number, const uchar *record, const std::string &primary_key, std::string *key, std::string *value);

  StoredTable *stored_ = nullptr;
  TableCodecs codecs_;
  StoredTable::Index *index_ = nullptr;
  StoredTable::Index::iterator cursor_;
  const std::string *row_key_ = nullptr;
  uint number_ = 0;
  bool started_ = false;
  bool keyread_ = false;
  teak::BlobArena blobs_;
};

my_bool ha_teakcodec::bit_fields = TRUE;

int ha_teakcodec::open(const char *name, int, uint) {
  std::lock_guard<std::mutex> guard(engine_mutex);
  stored_ = &tables[name];
  std::string error;
  codecs_.primary_number = table->s->primary_key < MAX_KEY ? table->s->primary_key : table->s->keys;
  codecs_.primary = codecs_.primary_number < table->s->keys
                        ? teak::KeyCodec::create(table, codecs_.primary_number, nullptr, &error)
                        : teak::KeyCodec::create_hidden();
  if (codecs_.primary != nullptr) {
    codecs_.keys.resize(table->s->keys);
    for (uint i = 0; i < table->s->keys && error.empty(); i++)
      if (i != codecs_.primary_number)
        codecs_.keys[i] = teak::KeyCodec::create(table, i, codecs_.primary.get(), &error);
    if (error.empty()) codecs_.row = teak::RowCodec::create(table, codecs_.primary, 300, nullptr, &error);
  }
  if (!error.empty()) {
    my_printf_error(ER_UNKNOWN_ERROR, "TEAKCODEC: %s", MYF(0), error.c_str());
    return HA_ERR_UNSUPPORTED;
  }
  check_memory(table, codecs_, &checks);
  if (stored_->indexes.empty()) stored_->indexes.resize(table->s->keys + 1);
  ref_length = sizeof row_key_;
  return 0;
}

/* Encodes the entry of one index. An error if the index contains a duplicate. */
int ha_teakcodec::put(uint number, const uchar *record, const std::string &primary_key, std::string *key,
                      std::string *value) {
  const KEY &info = table->key_info[number];
  const teak::KeyCodec &codec = codecs_.of(number);
  teak::ByteBuffer buffer;
  codec.encode_record(record, &buffer);
  *key = bytes_of(buffer);
  bool unique = number == codecs_.primary_number || ((info.flags & HA_NOSAME) && !codec.has_null(record));
  if (unique && stored_->indexes[number].count(*key) != 0) {
    errkey = number;
    return HA_ERR_FOUND_DUPP_KEY;
  }
  if (!unique) {
    codec.append_primary(data_of(primary_key), primary_key.size(), &buffer);
    *key = bytes_of(buffer);
  }
  *value = unique ? primary_key : std::string();
  return 0;
}

int ha_teakcodec::write_row(const uchar *record) {
  std::lock_guard<std::mutex> guard(engine_mutex);
  std::string primary_key;
  teak::ByteBuffer buffer;
  if (codecs_.primary->hidden()) {
    uint64_t id = __builtin_bswap64(stored_->next_row_id);
    primary_key.assign(reinterpret_cast<const char *>(&id), sizeof id);
  } else {
    codecs_.primary->encode_record(record, &buffer);
    primary_key = bytes_of(buffer);
  }
  if (record == table->record[0]) check_record(table, codecs_, primary_key, stored_, &checks);
  std::vector<std::pair<std::string, std::string>> entries(table->s->keys);
  for (uint i = 0; i < table->s->keys; i++)
    if (int error = put(i, record, primary_key, &entries[i].first, &entries[i].second)) return error;
  buffer.clear();
  codecs_.row->encode(record, &buffer);
  last_row = hex(data_of(primary_key), primary_key.size());
  for (uint i = 0; i < table->s->keys; i++) {
    if (i == codecs_.primary_number) continue;
    last_row += hex(data_of(entries[i].first), entries[i].first.size()) +
                (entries[i].second.empty() ? "" : hex(data_of(entries[i].second), entries[i].second.size()));
    teak::ByteBuffer originals;
    std::unique_ptr<teak::KeyOriginals> kept;
    std::string error;
    if (!teak::KeyOriginals::create(table, i, &kept, &error)) return HA_ERR_OUT_OF_MEM;
    if (kept != nullptr) kept->encode(record, &originals);
    if (originals.size() != 0) last_row += hex(originals.data(), originals.size());
  }
  last_row += hex(buffer.data(), buffer.size());
  for (uint i = 0; i < table->s->keys; i++)
    if (i != codecs_.primary_number) stored_->indexes[i].insert(std::move(entries[i]));
  stored_->indexes[codecs_.primary_number][primary_key] = bytes_of(buffer);
  stored_->next_row_id++;
  return 0;
}

int ha_teakcodec::fetch(uchar *record) {
  if (cursor_ == index_->end()) return HA_ERR_END_OF_FILE;
  blobs_.clear();
  std::string primary_key = cursor_->first;
  if (number_ != codecs_.primary_number) {
    const teak::KeyCodec &codec = *codecs_.keys[number_];
    size_t columns = 0;
    if (!codec.skip(data_of(cursor_->first), cursor_->first.size(), &columns)) return HA_ERR_CRASHED;
    if (columns == cursor_->first.size()) {
      primary_key = cursor_->second;
    } else {
      size_t length = 0;
      if (!codec.primary_length(data_of(cursor_->first), cursor_->first.size(), columns, &length))
        return HA_ERR_CRASHED;
      primary_key = cursor_->first.substr(columns, length);
    }
    if (!codec.decode(data_of(cursor_->first), cursor_->first.size(), record, nullptr)) return HA_ERR_CRASHED;
    if (keyread_) {
      bool covered = true;
      for (uint i = 0; i < table->s->fields; i++) {
        if (!bitmap_is_set(table->read_set, i)) continue;
        bool found = false;
        for (uint part = 0; part < codec.parts(); part++) found |= codec.column(part) == i && codec.decodable(part);
        for (uint part = 0; part < codecs_.primary->parts(); part++)
          found |= codecs_.primary->column(part) == i && codecs_.primary->decodable(part);
        covered &= found;
      }
      if (covered) {
        auto row = stored_->indexes[codecs_.primary_number].find(primary_key);
        if (row == stored_->indexes[codecs_.primary_number].end()) return HA_ERR_CRASHED;
        row_key_ = &row->first;
        return codec.decode(data_of(cursor_->first), cursor_->first.size(), record, table->read_set) &&
                       codecs_.primary->decode(data_of(primary_key), primary_key.size(), record, table->read_set)
                   ? 0
                   : HA_ERR_CRASHED;
      }
    }
  }
  auto row = stored_->indexes[codecs_.primary_number].find(primary_key);
  if (row == stored_->indexes[codecs_.primary_number].end()) return HA_ERR_CRASHED;
  row_key_ = &row->first;
  return codecs_.row->decode(data_of(row->second), row->second.size(), data_of(row->first), row->first.size(), record,
                             table->read_set, &blobs_)
             ? 0
             : HA_ERR_CRASHED;
}

int ha_teakcodec::rnd_pos(uchar *record, uchar *position) {
  const std::string *key;
  memcpy(&key, position, sizeof key);
  start(codecs_.primary_number);
  cursor_ = index_->find(*key);
  started_ = true;
  return fetch(record);
}

int ha_teakcodec::index_read_map(uchar *record, const uchar *key, key_part_map parts, enum ha_rkey_function how) {
  teak::ByteBuffer buffer;
  codecs_.of(number_).encode_prefix(key, parts, &buffer);
  std::string prefix = bytes_of(buffer), after = prefix;
  const bool bounded = successor(&after);
  auto begins = [&] { return cursor_ != index_->end() && cursor_->first.compare(0, prefix.size(), prefix) == 0; };
  started_ = true;
  switch (how) {
    case HA_READ_KEY_EXACT:
    case HA_READ_PREFIX:
      cursor_ = index_->lower_bound(prefix);
      return begins() ? fetch(record) : HA_ERR_KEY_NOT_FOUND;
    case HA_READ_KEY_OR_NEXT:
      cursor_ = index_->lower_bound(prefix);
      return fetch(record);
    case HA_READ_AFTER_KEY:
      cursor_ = bounded ? index_->lower_bound(after) : index_->end();
      return fetch(record);
    case HA_READ_BEFORE_KEY:
      cursor_ = index_->lower_bound(prefix);
      return previous(record);
    case HA_READ_PREFIX_LAST:
    case HA_READ_PREFIX_LAST_OR_PREV:
    case HA_READ_KEY_OR_PREV:
      cursor_ = bounded ? index_->lower_bound(after) : index_->end();
      if (cursor_ == index_->begin()) return HA_ERR_KEY_NOT_FOUND;
      --cursor_;
      return how != HA_READ_PREFIX_LAST || begins() ? fetch(record) : HA_ERR_KEY_NOT_FOUND;
    default:
      return HA_ERR_WRONG_COMMAND;
  }
}

}  // namespace teak_tests

using namespace teak_tests;

static handler *create_handler(handlerton *hton, TABLE_SHARE *share, MEM_ROOT *root) {
  return new (root) ha_teakcodec(hton, share);
}

static int start_engine(void *p) {
  codec_hton = static_cast<handlerton *>(p);
  codec_hton->create = create_handler;
  codec_hton->flags = HTON_CAN_RECREATE | HTON_SUPPORTS_EXTENDED_KEYS;
  codec_hton->drop_table = [](handlerton *, const char *name) {
    std::lock_guard<std::mutex> guard(engine_mutex);
    return tables.erase(name) != 0 ? 0 : ENOENT;
  };
  return 0;
}

static uint collation_pairs;
static ulonglong status_checks, status_failures;

static void update_collation_pairs(MYSQL_THD, st_mysql_sys_var *, void *to, const void *value) {
  *static_cast<uint *>(to) = *static_cast<const uint *>(value);
  std::lock_guard<std::mutex> guard(engine_mutex);
  check_collations(1, collation_pairs, &checks);
  checks.start_reports();
}

static char *history;

static void update_history(MYSQL_THD, st_mysql_sys_var *, void *to, const void *value) {
  const char *text = *static_cast<char *const *>(value);
  *static_cast<const char **>(to) = text;
  std::vector<uint8_t> bytes;
  for (unsigned byte; sscanf(text, "%2x", &byte) == 1; text += 2) bytes.push_back(static_cast<uint8_t>(byte));
  std::lock_guard<std::mutex> guard(engine_mutex);
  check_history(bytes, &checks);
  check_conversions(1, &checks);
  checks.start_reports();
}

static int show_checks(MYSQL_THD, SHOW_VAR *variable, char *) {
  std::lock_guard<std::mutex> guard(engine_mutex);
  status_checks = checks.passed();
  variable->type = SHOW_LONGLONG;
  variable->value = reinterpret_cast<char *>(&status_checks);
  return 0;
}

static int show_failures(MYSQL_THD, SHOW_VAR *variable, char *) {
  std::lock_guard<std::mutex> guard(engine_mutex);
  status_failures = checks.failed();
  variable->type = SHOW_LONGLONG;
  variable->value = reinterpret_cast<char *>(&status_failures);
  return 0;
}

static int show_last_row(MYSQL_THD, SHOW_VAR *variable, char *buffer) {
  std::lock_guard<std::mutex> guard(engine_mutex);
  last_row.copy(buffer, SHOW_VAR_FUNC_BUFF_SIZE - 1);
  buffer[std::min<size_t>(last_row.size(), SHOW_VAR_FUNC_BUFF_SIZE - 1)] = 0;
  variable->type = SHOW_CHAR;
  variable->value = buffer;
  return 0;
}

static MYSQL_SYSVAR_UINT(collation_pairs, collation_pairs, PLUGIN_VAR_RQCMDARG,
                         "Pairs of strings to compare per collation", nullptr, update_collation_pairs, 0, 0, 10000000,
                         0);
static MYSQL_SYSVAR_BOOL(bit_fields, ha_teakcodec::bit_fields, PLUGIN_VAR_RQCMDARG, "Keep BIT bits among the NULL bits",
                         nullptr, nullptr, TRUE);
static MYSQL_SYSVAR_STR(history, history, PLUGIN_VAR_RQCMDARG | PLUGIN_VAR_MEMALLOC,
                        "Description of rows of earlier versions to check, in hexadecimal", nullptr, update_history,
                        "");
static st_mysql_sys_var *variables[] = {MYSQL_SYSVAR(collation_pairs), MYSQL_SYSVAR(bit_fields), MYSQL_SYSVAR(history),
                                        nullptr};
static SHOW_VAR status_variables[] = {{"teakcodec_passed", reinterpret_cast<char *>(&show_checks), SHOW_FUNC},
                                      {"teakcodec_failed", reinterpret_cast<char *>(&show_failures), SHOW_FUNC},
                                      {"teakcodec_last_row", reinterpret_cast<char *>(&show_last_row), SHOW_FUNC},
                                      {nullptr, nullptr, SHOW_LONG}};
static st_mysql_storage_engine engine = {MYSQL_HANDLERTON_INTERFACE_VERSION};

maria_declare_plugin(teakcodec){MYSQL_STORAGE_ENGINE_PLUGIN,
                                &engine,
                                "TEAKCODEC",
                                "the Teak contributors",
                                "Checks of Teak's key and row codecs",
                                PLUGIN_LICENSE_GPL,
                                start_engine,
                                nullptr,
                                0x0001,
                                status_variables,
                                variables,
                                "0.1",
                                MariaDB_PLUGIN_MATURITY_EXPERIMENTAL} maria_declare_plugin_end;
