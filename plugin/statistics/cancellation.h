/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* Cancellation: lets one thread end the reads of another one. */

#ifndef TEAK_STATISTICS_CANCELLATION_H
#define TEAK_STATISTICS_CANCELLATION_H

#include <atomic>
#include <mutex>

#include "base/core.h"

namespace teak {

class Cancellation {
 public:
  bool is_cancelled() const { return is_cancelled_.load(std::memory_order_relaxed); }

  void cancel() {
    std::lock_guard<std::mutex> guard(mutex_);
    is_cancelled_ = true;
    if (transaction_ != nullptr) teak_transaction_interrupt(transaction_);
  }
  void restart() { is_cancelled_ = false; }

  /* Sets the transaction that reads; nullptr before it ends. */
  void set_transaction(teak_transaction *transaction) {
    std::lock_guard<std::mutex> guard(mutex_);
    transaction_ = transaction;
    if (is_cancelled_ && transaction != nullptr) teak_transaction_interrupt(transaction);
  }

 private:
  std::mutex mutex_;  // the transaction cannot end under it; locks of the engine are taken under it
  std::atomic<bool> is_cancelled_{false};
  teak_transaction *transaction_ = nullptr;
};

}  // namespace teak

#endif
