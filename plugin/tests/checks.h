/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* Counts and reports of the codec tests. */

#ifndef TEAK_TESTS_CHECKS_H
#define TEAK_TESTS_CHECKS_H

#include <cstdint>
#include <string>
#include <vector>

namespace teak_tests {

/* Called under the test engine's mutex. */
class Checks {
 public:
  static constexpr uint64_t REPORTS_MAX = 40;

  /* Counts a check. The first failures are described in the server's error log. */
  template <typename Describe> void expect(bool holds, Describe describe) {
    if (holds) {
      passed_++;
    } else {
      failed_++;
      if (reports_++ < REPORTS_MAX) report(describe());
    }
  }
  /* Restarts the descriptions: the next failures are described again. */
  void start_reports() { reports_ = 0; }
  uint64_t passed() const { return passed_; }
  uint64_t failed() const { return failed_; }

 private:
  static void report(const std::string &text);

  uint64_t passed_ = 0;
  uint64_t failed_ = 0;
  uint64_t reports_ = 0;
};

inline int sign(int value) { return (value > 0) - (value < 0); }

/* memcmp of byte strings, the shorter first when one is a prefix of the other. */
int compare_bytes(const uint8_t *a, size_t a_length, const uint8_t *b, size_t b_length);

std::string hex(const uint8_t *bytes, size_t length);

/* A small random generator with the same sequence on all platforms. */
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15ULL + 1) {}
  uint64_t next() {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return state_;
  }
  uint32_t below(uint32_t bound) { return static_cast<uint32_t>((next() >> 11) % bound); }

 private:
  uint64_t state_;
};

/* Compares the codec with the server's own comparison for `pairs` pairs of strings of each collation of the server. */
void check_collations(uint64_t seed, uint32_t pairs, Checks *checks);

/* Checks the reading of rows of earlier schema versions, with the example of docs/design/format.md. */
void check_history(const std::vector<uint8_t> &example, Checks *checks);

/* Checks the conversion of values to other types. */
void check_conversions(uint64_t seed, Checks *checks);

}  // namespace teak_tests

#endif
