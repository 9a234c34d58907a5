/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* Checks one row with the codecs and the server: order of keys, key images, round trips, rejection of malformed
   bytes. */

#include "codec_engine.h"

namespace teak_tests {

using teak::ByteBuffer;
using teak::KeyCodec;

namespace {

/* Copies a stored row into table->record[0]; its BLOBs point to the copies. */
void restore(TABLE *table, const OriginalRow &row) {
  memcpy(table->record[0], row.record.data(), table->s->reclength);
  for (uint i = 0; i < table->s->blob_fields; i++) {
    uint number = table->s->blob_field[i];
    auto *field = static_cast<Field_blob *>(table->field[number]);
    field->set_ptr(static_cast<uint32>(row.blobs[number].size()),
                   reinterpret_cast<uchar *>(const_cast<char *>(row.blobs[number].data())));
  }
}

OriginalRow keep(TABLE *table) {
  OriginalRow row;
  row.record.assign(table->record[0], table->record[0] + table->s->reclength);
  row.blobs.resize(table->s->fields);
  for (uint i = 0; i < table->s->blob_fields; i++) {
    uint number = table->s->blob_field[i];
    auto *field = static_cast<Field_blob *>(table->field[number]);
    if (!field->is_null())
      row.blobs[number].assign(reinterpret_cast<const char *>(field->get_ptr()), field->get_length());
  }
  return row;
}

uint image_length(const KEY &key, uint parts) {
  uint length = 0;
  for (uint i = 0; i < parts; i++) length += key.key_part[i].store_length;
  return length;
}

/* The key image of the first `parts` parts of the key, from the values in record[0]; 8 spare bytes follow it. */
std::vector<uchar> image_of(TABLE *table, const KEY &key, uint parts) {
  std::vector<uchar> image(image_length(key, parts) + 8);
  key_copy(image.data(), table->record[0], const_cast<KEY *>(&key), image_length(key, parts), true);
  return image;
}

std::string name_of(TABLE *table, const KEY &key) { return std::string(table->s->table_name.str) + "." + key.name.str; }

bool same_bits(const Field_bit *field, const uchar *a, const uchar *b, const uchar *record) {
  if (field->bit_len == 0) return true;
  size_t at = static_cast<size_t>(field->bit_ptr - record);
  auto bits = [&](const uchar *from) {
    uint word = from[at];
    if (field->bit_ofs + field->bit_len > 8) word |= static_cast<uint>(from[at + 1]) << 8;
    return word >> field->bit_ofs & ((1U << field->bit_len) - 1);
  };
  return bits(a) == bits(b);
}

/* Whether a column is the same, byte for byte, in two records of the table. */
bool same_column(TABLE *table, const Field *field, const uchar *a, const uchar *b) {
  size_t offset = static_cast<size_t>(field->ptr - table->record[0]);
  if (field->null_ptr != nullptr) {
    size_t null_at = static_cast<size_t>(field->null_ptr - table->record[0]);
    bool a_null = a[null_at] & field->null_bit, b_null = b[null_at] & field->null_bit;
    if (a_null || b_null) return a_null == b_null;
  }
  if (field->flags & BLOB_FLAG) {
    uint bytes = static_cast<const Field_blob *>(field)->pack_length_no_ptr();
    if (memcmp(a + offset, b + offset, bytes) != 0) return false;
    uint64_t length = 0;
    memcpy(&length, a + offset, bytes);
    const uchar *a_blob, *b_blob;
    memcpy(&a_blob, a + offset + bytes, sizeof a_blob);
    memcpy(&b_blob, b + offset + bytes, sizeof b_blob);
    return length == 0 || memcmp(a_blob, b_blob, length) == 0;
  }
  if (field->real_type() == MYSQL_TYPE_VARCHAR || field->real_type() == MYSQL_TYPE_VARCHAR_COMPRESSED) {
    uint bytes = static_cast<const Field_varstring *>(field)->length_bytes;
    uint length = bytes == 1 ? a[offset] : uint2korr(a + offset);
    return memcmp(a + offset, b + offset, bytes + length) == 0;
  }
  if (field->real_type() == MYSQL_TYPE_BIT && !same_bits(static_cast<const Field_bit *>(field), a, b, table->record[0]))
    return false;
  return memcmp(a + offset, b + offset, field->pack_length_in_rec()) == 0;
}

class RowChecker {
 public:
  RowChecker(TABLE *table, const TableCodecs &codecs, const std::string &primary_key, StoredTable *stored,
             Checks *checks)
      : table_(table), codecs_(codecs), primary_key_(primary_key), stored_(stored), checks_(checks),
        random_(stored->originals.size() + 17) {}

  void run() {
    original_ = keep(table_);
    for (uint i = 0; i < table_->s->keys; i++) {
      check_key(table_->key_info[i], codecs_.of(i), i != codecs_.primary_number);
      restore(table_, original_);
    }
    check_row();
    memcpy(table_->record[0], original_.record.data(), original_.record.size());  // with the server's own BLOB pointers
  }

 private:
  void back_to_row() { restore(table_, original_); }

  void check_key(const KEY &key, const KeyCodec &codec, bool secondary) {
    ByteBuffer mine;
    codec.encode_record(table_->record[0], &mine);
    check_images(key, codec, mine, secondary);
    check_skip_and_decode(key, codec, mine);
    check_order(key, codec, mine);
  }

  void check_images(const KEY &key, const KeyCodec &codec, const ByteBuffer &mine, bool secondary) {
    uint parts = secondary ? key.ext_key_parts : key.user_defined_key_parts;
    std::vector<uchar> image = image_of(table_, key, parts);
    std::string entry(reinterpret_cast<const char *>(mine.data()), mine.size());
    if (secondary) entry += primary_key_;
    size_t before = 0;
    ByteBuffer prefix;
    for (uint count = 1; count <= parts; count++) {
      prefix.clear();
      codec.encode_prefix(image.data(), (key_part_map{1} << count) - 1, &prefix);
      bool fits = prefix.size() >= before && prefix.size() <= entry.size() &&
                  memcmp(prefix.data(), entry.data(), prefix.size()) == 0 &&
                  (count != key.user_defined_key_parts || prefix.size() == mine.size() || count < parts);
      ByteBuffer by_length;
      codec.encode_image(image.data(), image_length(key, count), &by_length);
      fits = fits && by_length.size() == prefix.size();
      checks_->expect(fits, [&] {
        return name_of(table_, key) + " image of " + std::to_string(count) + " parts " +
               hex(prefix.data(), prefix.size()) + " entry " +
               hex(reinterpret_cast<const uint8_t *>(entry.data()), entry.size());
      });
      before = prefix.size();
    }
    checks_->expect(codec.has_null(table_->record[0]) == codec.image_has_null(image.data(), HA_WHOLE_KEY),
                    [&] { return name_of(table_, key) + " has_null"; });
  }

  void check_skip_and_decode(const KEY &key, const KeyCodec &codec, const ByteBuffer &mine) {
    ByteBuffer entry;
    entry.append(mine.data(), mine.size());
    codec.append_primary(reinterpret_cast<const uint8_t *>(primary_key_.data()), primary_key_.size(), &entry);
    std::string bytes(reinterpret_cast<const char *>(entry.data()), entry.size());
    auto *data = reinterpret_cast<const uint8_t *>(bytes.data());
    size_t columns = 0, primary = 0;
    checks_->expect(codec.skip(data, bytes.size(), &columns) && columns == mine.size() && columns <= codec.length_max(),
                    [&] { return name_of(table_, key) + " skip " + hex(mine.data(), mine.size()); });
    checks_->expect(codec.primary_length(data, bytes.size(), columns, &primary) && primary == primary_key_.size(),
                    [&] { return name_of(table_, key) + " primary key at the end of " + hex(data, bytes.size()); });
    if (codec.primary_varies())
      checks_->expect(!codec.primary_length(data, bytes.size() - 1, columns, &primary),
                      [&] { return name_of(table_, key) + " primary key at the end of a cut entry"; });
    if (mine.size() > 0) {
      const std::vector<uint8_t> cut(data, data + random_.below(static_cast<uint32_t>(mine.size())));
      checks_->expect(!codec.skip(cut.data(), cut.size(), &columns),
                      [&] { return name_of(table_, key) + " skip of a cut key " + hex(mine.data(), mine.size()); });
    }
    std::vector<uchar> other(table_->s->reclength, 0xA5);
    bool decoded = codec.decode(data, bytes.size(), other.data(), nullptr);
    for (uint i = 0; decoded && i < codec.parts(); i++)
      decoded =
          !codec.decodable(i) || same_column(table_, table_->field[codec.column(i)], table_->record[0], other.data());
    checks_->expect(decoded, [&] { return name_of(table_, key) + " decode " + hex(mine.data(), mine.size()); });
    if (bytes.empty()) return;
    bytes[random_.below(static_cast<uint32_t>(bytes.size()))] ^= static_cast<char>(1 << random_.below(8));
    const std::vector<uint8_t> broken(bytes.begin(),
                                      bytes.begin() + random_.below(static_cast<uint32_t>(bytes.size()) + 1));
    codec.decode(broken.data(), broken.size(), other.data(), nullptr);
    codec.skip(broken.data(), broken.size(), &columns);
  }

  void check_order(const KEY &key, const KeyCodec &codec, const ByteBuffer &mine) {
    const uint length = image_length(key, key.user_defined_key_parts);
    ByteBuffer theirs;
    for (const OriginalRow &earlier : stored_->originals) {
      restore(table_, earlier);
      std::vector<uchar> image = image_of(table_, key, key.user_defined_key_parts);
      theirs.clear();
      codec.encode_record(table_->record[0], &theirs);
      back_to_row();
      int server = sign(key_cmp(key.key_part, image.data(), length));
      int ours = compare_bytes(mine.data(), mine.size(), theirs.data(), theirs.size());
      checks_->expect(server == ours, [&] {
        return name_of(table_, key) + " order: server " + std::to_string(server) + " codec " + std::to_string(ours) +
               " " + hex(mine.data(), mine.size()) + " and " + hex(theirs.data(), theirs.size());
      });
    }
  }

  void check_row() {
    ByteBuffer value;
    codecs_.row->encode(table_->record[0], &value);
    auto *key = reinterpret_cast<const uint8_t *>(primary_key_.data());
    std::vector<uchar> other(table_->s->reclength, 0x5A);
    bool decoded =
        codecs_.row->decode(value.data(), value.size(), key, primary_key_.size(), other.data(), nullptr, nullptr);
    std::string column;
    for (uint i = 0; decoded && i < table_->s->fields; i++) {
      if (!table_->field[i]->stored_in_db()) continue;
      decoded = same_column(table_, table_->field[i], table_->record[0], other.data());
      if (!decoded) column = table_->field[i]->field_name.str;
    }
    checks_->expect(decoded, [&] {
      return std::string(table_->s->table_name.str) + " row: " + column + " " + hex(value.data(), value.size());
    });

    teak::BlobArena arena;
    MY_BITMAP some;
    std::vector<my_bitmap_map> words(bitmap_buffer_size(table_->s->fields) / sizeof(my_bitmap_map) + 1);
    my_bitmap_init(&some, words.data(), table_->s->fields);
    for (uint i = 0; i < table_->s->fields; i++)
      if (random_.below(2) != 0) bitmap_set_bit(&some, i);
    memset(other.data(), 0xA5, other.size());
    decoded = codecs_.row->decode(value.data(), value.size(), key, primary_key_.size(), other.data(), &some, &arena);
    for (uint i = 0; decoded && i < table_->s->fields; i++)
      decoded = !table_->field[i]->stored_in_db() || !bitmap_is_set(&some, i) ||
                same_column(table_, table_->field[i], table_->record[0], other.data());
    checks_->expect(decoded, [&] { return std::string(table_->s->table_name.str) + " row, some columns"; });

    /* Copies exactly these bytes, so that a sanitizer detects a read beyond them. */
    const std::vector<uint8_t> cut(value.data(), value.data() + random_.below(static_cast<uint32_t>(value.size())));
    checks_->expect(
        !codecs_.row->decode(cut.data(), cut.size(), key, primary_key_.size(), other.data(), nullptr, &arena),
        [&] { return std::string(table_->s->table_name.str) + " took a cut row"; });
    std::vector<uint8_t> broken(value.data(), value.data() + value.size());
    for (int i = 0; i < 3; i++) {
      broken[random_.below(static_cast<uint32_t>(broken.size()))] ^= static_cast<uint8_t>(1 << random_.below(8));
      codecs_.row->decode(broken.data(), broken.size(), key, primary_key_.size(), other.data(), nullptr, &arena);
    }
  }

  TABLE *table_;
  const TableCodecs &codecs_;
  const std::string &primary_key_;
  StoredTable *stored_;
  Checks *checks_;
  Random random_;
  OriginalRow original_;
};

/* Returns the time per call in the fastest of several rounds, because other processes slow the other rounds more. */
template <typename Work> double nanoseconds_per(size_t times, Work work) {
  constexpr size_t ROUNDS = 20;
  ulonglong best = ULONGLONG_MAX;
  for (size_t round = 0; round < ROUNDS; round++) {
    ulonglong start = my_interval_timer();
    for (size_t i = 0; i < times / ROUNDS; i++) work(i);
    best = std::min(best, my_interval_timer() - start);
  }
  return static_cast<double>(best) / static_cast<double>(times / ROUNDS);
}

}  // namespace

void check_record(TABLE *table, const TableCodecs &codecs, const std::string &primary_key, StoredTable *stored,
                  Checks *checks) {
  RowChecker(table, codecs, primary_key, stored, checks).run();
  if (stored->originals.size() < StoredTable::ORIGINALS_MAX) stored->originals.push_back(keep(table));
}

void measure(TABLE *table, const TableCodecs &codecs, const StoredTable &stored) {
  const size_t rows = stored.originals.size(), times = 200000;
  if (rows == 0) return;
  std::vector<std::vector<uchar>> records;
  for (const OriginalRow &row : stored.originals) {
    restore(table, row);
    records.emplace_back(table->record[0], table->record[0] + table->s->reclength);
  }
  ByteBuffer out;
  size_t sum = 0;
  for (uint i = 0; i < table->s->keys; i++) {
    const KeyCodec &codec = codecs.of(i);
    double encode = nanoseconds_per(times, [&](size_t at) {
      out.clear();
      codec.encode_record(records[at % rows].data(), &out);
      sum += out.size();
    });
    double skip = nanoseconds_per(times, [&](size_t) {
      size_t columns = 0;
      codec.skip(out.data(), out.size(), &columns);
      sum += columns;
    });
    std::vector<uchar> record(table->s->reclength);
    double decode =
        nanoseconds_per(times, [&](size_t) { codec.decode(out.data(), out.size(), record.data(), nullptr); });
    sql_print_information("TEAKCODEC %s: %u parts, %.0f bytes, encode %.1f ns, skip %.1f ns, decode %.1f ns",
                          name_of(table, table->key_info[i]).c_str(), codec.parts(), static_cast<double>(out.size()),
                          encode, skip, decode);
  }
  ByteBuffer key;
  std::vector<std::string> values, keys;
  for (const auto &record : records) {
    out.clear(), key.clear();
    codecs.row->encode(record.data(), &out);
    codecs.primary->encode_record(record.data(), &key);
    values.emplace_back(reinterpret_cast<const char *>(out.data()), out.size());
    keys.emplace_back(reinterpret_cast<const char *>(key.data()), key.size());
  }
  double encode = nanoseconds_per(times, [&](size_t at) {
    out.clear();
    codecs.row->encode(records[at % rows].data(), &out);
    sum += out.size();
  });
  std::vector<uchar> record(table->s->reclength);
  size_t failures = 0;
  double decode = nanoseconds_per(times, [&](size_t at) {
    const std::string &value = values[at % rows], &row_key = keys[at % rows];
    failures += !codecs.row->decode(reinterpret_cast<const uint8_t *>(value.data()), value.size(),
                                    reinterpret_cast<const uint8_t *>(row_key.data()), row_key.size(), record.data(),
                                    nullptr, nullptr);
  });
  sql_print_information("TEAKCODEC %s: row of %u columns, %.0f bytes of %lu, encode %.1f ns, decode %.1f ns%s",
                        table->s->table_name.str, table->s->fields, static_cast<double>(out.size()),
                        table->s->reclength, encode, decode, failures + (sum == 0) != 0 ? " (failed)" : "");
}

}  // namespace teak_tests
