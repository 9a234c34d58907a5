/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* See background_sampling.h. */

#include "statistics/background_sampling.h"

#include "base/server_version.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>

namespace teak {

namespace background_sampling {

/* Under the mutex only that of the cancellation is taken. */
class Worker {
 public:
  void request(Task *task) try {
    if (task->waits_) return;
    std::lock_guard<std::mutex> guard(mutex_);
    if (is_stopped_ || task->waits_) return;
    if (!thread_.joinable()) thread_ = std::thread([this] { work(); });
    waiting_.push_back(task);
    task->waits_ = true;
    changed_.notify_all();
  } catch (const std::exception &error) {
    sql_print_warning("TEAK: a table is not sampled in the background: %s", error.what());
  }

  template <typename IsMeant> void withdraw(const IsMeant &is_meant) {
    std::unique_lock<std::mutex> guard(mutex_);
    auto leaves = [&](Task *task) {
      if (!is_meant(task)) return false;
      task->waits_ = false;
      return true;
    };
    waiting_.erase(std::remove_if(waiting_.begin(), waiting_.end(), leaves), waiting_.end());
    if (running_ == nullptr || !is_meant(running_)) return;
    cancellation_.cancel();
    changed_.wait(guard, [&] { return running_ == nullptr || !is_meant(running_); });
  }

  void stop() {
    {
      std::lock_guard<std::mutex> guard(mutex_);
      is_stopped_ = true;
      cancellation_.cancel();
      changed_.notify_all();
    }
    if (thread_.joinable()) thread_.join();
    thread_ = std::thread();
    is_stopped_ = false;  // the plugin may be installed again
  }

 private:
  void work() {
    my_thread_init();
    std::unique_lock<std::mutex> guard(mutex_);
    for (;;) {
      changed_.wait(guard, [this] { return is_stopped_ || !waiting_.empty(); });
      if (is_stopped_) break;
      running_ = waiting_.front();
      waiting_.pop_front();
      running_->waits_ = false;
      cancellation_.restart();
      guard.unlock();
      running_->run(&cancellation_);
      guard.lock();
      running_ = nullptr;
      changed_.notify_all();
    }
    guard.unlock();
    my_thread_end();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Task *> waiting_;
  Task *running_ = nullptr;
  Cancellation cancellation_;
  bool is_stopped_ = false;
  std::thread thread_;
};

namespace {

Worker worker;

}  // namespace

void request(Task *task) { worker.request(task); }

void withdraw(Task *task) {
  worker.withdraw([task](const Task *other) { return other == task; });
}

void withdraw_table(uint64_t table_id) {
  worker.withdraw([table_id](const Task *other) { return other->table_id() == table_id; });
}

void stop() { worker.stop(); }

}  // namespace background_sampling

}  // namespace teak
