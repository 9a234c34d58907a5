/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* See row_prefetcher.h. */

#include "handler/row_prefetcher.h"

namespace teak {

namespace {

constexpr uint LOOKUPS_MIN = 3;
constexpr size_t KEYS_BYTES_MAX = 1 << 20;  // further lookups are not prefetched
constexpr size_t KEEP_BYTES = 16 << 10;     // of keys_, between statements

}  // namespace

void RowPrefetcher::begin(uint key) {
  key_ = key;
  // What an earlier scan has measured says nothing about this one, which may need no rows.
  window_ = PrefetchWindow();
  restart();
}

void RowPrefetcher::restart() {
  window_.restart();
  is_ahead_ = at_end_ = false;
}

void RowPrefetcher::close() {
  entries_.close();
  rows_.close();
  restart();
  forget_lookups();
}

void RowPrefetcher::forget_lookups() {
  keys_.clear();
  keys_.shrink(KEEP_BYTES);
  next_key_ = 0;
}

void RowPrefetcher::bind(Cursor *cursor, uint32_t index) {
  Cursor::Options options;
  options.reads_newest = true;
  cursor->bind(open_.session(), open_.share()->table(), index, TEAK_LOCK_NONE, options);
}

void RowPrefetcher::prefetch_entries(const Cursor &scan, const teak_row &entry, bool forward, unsigned rows) {
  if (at_end_) return;
  const Share &share = *open_.share();
  teak_row ahead;
  teak_status status;
  if (is_ahead_) {
    status = forward ? entries_.next(&ahead) : entries_.previous(&ahead);
  } else {
    bind(&entries_, share.index_of(key_));
    if (entries_.copy_bounds(scan) != TEAK_OK) return;
    bind(&rows_, 0);
    status = entries_.seek(entry.key, forward ? TEAK_SEEK_AFTER_PREFIX : TEAK_SEEK_BEFORE, &ahead);
  }
  unsigned done = 0;
  while (status == TEAK_OK) {
    Share::EntryRest rest;
    if (!share.rest_of_entry(key_, ahead, &rest) || rows_.prefetch(rest.primary) != TEAK_OK) break;
    if (++done == rows) break;
    status = forward ? entries_.next(&ahead) : entries_.previous(&ahead);
  }
  // Errors are those of the scan, which reads the same entries later.
  at_end_ = done < rows;
  is_ahead_ = true;
  window_.add(done);
}

void RowPrefetcher::begin_lookups(uint key, const RANGE_SEQ_IF &ranges, void *parameter, uint count, uint mode) {
  forget_lookups();
  const Share &share = *open_.share();
  if (key != share.primary_key() || count < LOOKUPS_MIN) return;
  const key_part_map all = share.key(key).all_parts;
  const range_seq_t sequence = ranges.init(parameter, count, mode);
  KEY_MULTI_RANGE range;
  while (keys_.size() < KEYS_BYTES_MAX && !ranges.next(sequence, &range)) {
    const key_range &start = range.start_key;
    if (!(range.range_flag & EQ_RANGE) || start.key == nullptr || (start.keypart_map & all) != all)
      return forget_lookups();
    const size_t at = keys_.size();
    uint32_t length = 0;
    keys_.append(&length, sizeof length);
    share.codec(key).encode_prefix(start.key, start.keypart_map, &keys_);
    if (keys_.failed()) return forget_lookups();
    length = static_cast<uint32_t>(keys_.size() - at - sizeof length);
    memcpy(keys_.data() + at, &length, sizeof length);
  }
  restart();
  bind(&rows_, 0);
}

void RowPrefetcher::prefetch_keys(unsigned rows) {
  unsigned done = 0;
  for (; done < rows && next_key_ < keys_.size(); done++) {
    uint32_t length;
    memcpy(&length, keys_.data() + next_key_, sizeof length);
    next_key_ += sizeof length;
    if (rows_.prefetch({keys_.data() + next_key_, length}) != TEAK_OK) break;
    next_key_ += length;
  }
  if (done < rows) next_key_ = keys_.size();
  window_.add(done);
}

}  // namespace teak
