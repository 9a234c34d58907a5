/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* Memory for the key and row codecs: ByteBuffer, a growable byte buffer that is cleared and reused for each row, and
   BlobArena, which holds the bytes of BLOB columns until the next row is read. Neither throws when memory
   runs out: ByteBuffer sets failed() until clear(), BlobArena returns nullptr. */

#ifndef TEAK_FORMAT_BUFFER_H
#define TEAK_FORMAT_BUFFER_H

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace teak {

class ByteBuffer {
 public:
  ByteBuffer() = default;
  ~ByteBuffer() { free(data_); }
  ByteBuffer(const ByteBuffer &) = delete;
  ByteBuffer &operator=(const ByteBuffer &) = delete;
  ByteBuffer(ByteBuffer &&other) noexcept { swap(other); }
  ByteBuffer &operator=(ByteBuffer &&other) noexcept {
    swap(other);
    return *this;
  }

  const uint8_t *data() const { return data_; }
  uint8_t *data() { return data_; }
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  /* Whether an allocation has failed since the last clear(). If so, the contents must not be used. */
  bool failed() const { return failed_; }

  /* Empties the buffer without freeing its memory. */
  void clear() {
    size_ = 0;
    failed_ = false;
  }

  /* Frees the memory if the buffer is empty and its capacity is larger than `bytes_max`. */
  void shrink(size_t bytes_max) {
    if (capacity_ <= bytes_max || size_ != 0) return;
    free(data_);
    data_ = nullptr;
    capacity_ = 0;
  }

  /* Returns space for `bytes` more bytes, to be added by advance(); nullptr when out of memory. */
  uint8_t *reserve(size_t bytes) {
    if (capacity_ - size_ >= bytes && data_ != nullptr) return data_ + size_;
    return grow(bytes);
  }
  void advance(size_t bytes) { size_ += bytes; }

  bool append(const void *bytes, size_t length) {
    uint8_t *to = reserve(length);
    if (to == nullptr) return false;
    if (length != 0) memcpy(to, bytes, length);
    size_ += length;
    return true;
  }
  bool push(uint8_t byte) {
    uint8_t *to = reserve(1);
    if (to == nullptr) return false;
    *to = byte;
    size_ += 1;
    return true;
  }

  /* Truncates to `length` bytes, at most the current size. */
  void truncate(size_t length) {
    if (length < size_) size_ = length;
  }

  void swap(ByteBuffer &other) noexcept {
    uint8_t *data = data_;
    size_t size = size_, capacity = capacity_;
    bool failed = failed_;
    data_ = other.data_, size_ = other.size_, capacity_ = other.capacity_, failed_ = other.failed_;
    other.data_ = data, other.size_ = size, other.capacity_ = capacity, other.failed_ = failed;
  }

 private:
  uint8_t *grow(size_t bytes) {
    size_t wanted = size_ + bytes;
    size_t capacity = capacity_ < 128 ? 256 : capacity_ * 2;
    if (capacity < wanted) capacity = wanted;
    auto *data = wanted < size_ ? nullptr : static_cast<uint8_t *>(realloc(data_, capacity));
    if (data == nullptr) {
      failed_ = true;
      return nullptr;
    }
    data_ = data;
    capacity_ = capacity;
    return data_ + size_;
  }

  uint8_t *data_ = nullptr;
  size_t size_ = 0;
  size_t capacity_ = 0;
  bool failed_ = false;
};

/* Holds copies with stable addresses until clear(). */
class BlobArena {
 public:
  BlobArena() = default;
  ~BlobArena() { release(); }
  BlobArena(const BlobArena &) = delete;
  BlobArena &operator=(const BlobArena &) = delete;

  /* A copy of the bytes; nullptr when out of memory. */
  uint8_t *copy(const uint8_t *bytes, size_t length) {
    uint8_t *to = take(length);
    if (to != nullptr && length != 0) memcpy(to, bytes, length);
    return to;
  }

  /* Frees all copies. Retains one chunk for the next row, unless it is larger than `keep_bytes_max`. */
  void clear(size_t keep_bytes_max = 1 << 20) {
    Chunk *keep = head_;
    if (keep != nullptr) {
      head_ = keep->older;
      release();
      if (keep->capacity > keep_bytes_max) {
        free(keep);
      } else {
        keep->older = nullptr;
        keep->used = 0;
        head_ = keep;
      }
    }
  }

 private:
  struct Chunk {
    Chunk *older;
    size_t capacity;
    size_t used;
    uint8_t *bytes() { return reinterpret_cast<uint8_t *>(this + 1); }
  };

  uint8_t *take(size_t length) {
    if (head_ == nullptr || head_->capacity - head_->used < length) {
      size_t capacity = head_ == nullptr ? 4096 : head_->capacity * 2;
      if (capacity > (1 << 20)) capacity = 1 << 20;
      if (capacity < length) capacity = length;
      if (capacity > SIZE_MAX - sizeof(Chunk)) return nullptr;
      auto *chunk = static_cast<Chunk *>(malloc(sizeof(Chunk) + capacity));
      if (chunk == nullptr) return nullptr;
      chunk->older = head_;
      chunk->capacity = capacity;
      chunk->used = 0;
      head_ = chunk;
    }
    uint8_t *to = head_->bytes() + head_->used;
    head_->used += length;
    return to;
  }

  void release() {
    while (head_ != nullptr) {
      Chunk *older = head_->older;
      free(head_);
      head_ = older;
    }
  }

  Chunk *head_ = nullptr;
};

/* Converts a prefix to the first key after all keys with this prefix. False: there is none. */
inline bool to_prefix_successor(ByteBuffer *prefix) {
  size_t length = prefix->size();
  while (length != 0 && prefix->data()[length - 1] == 0xFF) length--;
  if (length == 0) return false;
  prefix->truncate(length);
  prefix->data()[length - 1]++;
  return true;
}

}  // namespace teak

#endif
