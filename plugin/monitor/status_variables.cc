/* Copyright (c) 2026, the Teak contributors.
   SPDX-License-Identifier: GPL-2.0-only

   This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
   License, version 2, as published by the Free Software Foundation. */

/* See status_variables.h. */

#include "monitor/status_variables.h"

#include "base/engine.h"
#include "monitor/measurements.h"
#include "monitor/refusals.h"

namespace teak {

namespace {

struct Counter {
  const char *name;
  uint64_t teak_engine_statistics::*value;
};

constexpr Counter counters[] = {
    {"cache_bytes_limit", &teak_engine_statistics::cache_bytes_limit},
    {"cache_bytes_used", &teak_engine_statistics::cache_bytes_used},
    {"page_cache_bytes", &teak_engine_statistics::page_cache_bytes},
    {"page_cache_bytes_limit", &teak_engine_statistics::page_cache_bytes_limit},
    {"memory_bytes", &teak_engine_statistics::memory_bytes},
    {"memory_log_buffer_bytes", &teak_engine_statistics::log_buffer_bytes},
    {"memory_node_bytes", &teak_engine_statistics::node_bytes},
    {"memory_node_bytes_limit", &teak_engine_statistics::node_bytes_limit},
    {"memory_nodes", &teak_engine_statistics::nodes_in_memory},
    {"memory_sort_bytes", &teak_engine_statistics::sort_bytes},
    {"memory_uncached_block_bytes", &teak_engine_statistics::uncached_block_bytes},
    {"memtable_bytes", &teak_engine_statistics::memtable_bytes},
    {"memtable_bytes_limit", &teak_engine_statistics::memtable_bytes_limit},
    {"memtable_frozen_bytes", &teak_engine_statistics::memtable_frozen_bytes},
    {"memtable_retired_bytes", &teak_engine_statistics::memtable_retired_bytes},
    {"cache_hits", &teak_engine_statistics::cache_hits},
    {"cache_misses", &teak_engine_statistics::cache_misses},
    {"node_evictions", &teak_engine_statistics::node_evictions},
    {"node_reads", &teak_engine_statistics::node_reads},
    {"blocks_read", &teak_engine_statistics::blocks_read},
    {"blocks_prefetched", &teak_engine_statistics::blocks_prefetched},
    {"blocks_written", &teak_engine_statistics::blocks_written},
    {"bytes_read", &teak_engine_statistics::bytes_read},
    {"bytes_written", &teak_engine_statistics::bytes_written},
    {"data_fsyncs", &teak_engine_statistics::data_syncs},
    {"log_bytes_appended", &teak_engine_statistics::log_bytes_appended},
    {"log_bytes_written", &teak_engine_statistics::log_bytes_written},
    {"log_fsyncs", &teak_engine_statistics::log_syncs},
    {"log_commits", &teak_engine_statistics::log_commits},
    {"flushes", &teak_engine_statistics::flushes},
    {"flush_failures", &teak_engine_statistics::flush_failures},
    {"flush_helpers", &teak_engine_statistics::flush_helpers},
    {"flush_bytes_uncompressed", &teak_engine_statistics::flush_bytes_uncompressed},
    {"flush_bytes_written", &teak_engine_statistics::flush_bytes_written},
    {"checkpoints", &teak_engine_statistics::checkpoints},
    {"checkpointed_indexes", &teak_engine_statistics::checkpointed_indexes},
    {"checkpoint_failures", &teak_engine_statistics::checkpoint_failures},
    {"checkpoint_microseconds_last", &teak_engine_statistics::checkpoint_microseconds_last},
    {"checkpoint_microseconds_max", &teak_engine_statistics::checkpoint_microseconds_max},
    {"freeze_wait_microseconds_max", &teak_engine_statistics::freeze_wait_microseconds_max},
    {"pending_flush_bytes", &teak_engine_statistics::pending_flush_bytes},
    {"filter_checks", &teak_engine_statistics::filter_checks},
    {"filter_negatives", &teak_engine_statistics::filter_negatives},
    {"writer_stalls", &teak_engine_statistics::writer_stalls},
    {"writer_stall_microseconds", &teak_engine_statistics::writer_stall_microseconds},
    {"writer_stall_longest_microseconds", &teak_engine_statistics::writer_stall_longest_microseconds},
    {"writer_stops", &teak_engine_statistics::writer_stops},
    {"writers_stopped", &teak_engine_statistics::writers_stopped},
    {"child_runs_max", &teak_engine_statistics::child_runs_max},
    {"lock_waits", &teak_engine_statistics::lock_waits},
    {"lock_timeouts", &teak_engine_statistics::lock_timeouts},
    {"deadlocks", &teak_engine_statistics::deadlocks},
    {"snapshot_conflicts", &teak_engine_statistics::snapshot_conflicts},
    {"row_locks", &teak_engine_statistics::row_locks},
    {"lock_memory_bytes", &teak_engine_statistics::lock_bytes},
    {"lock_memory_bytes_limit", &teak_engine_statistics::lock_bytes_limit},
    {"lock_escalations", &teak_engine_statistics::lock_escalations},
    {"lock_refusals", &teak_engine_statistics::lock_refusals},
    {"transactions_waiting", &teak_engine_statistics::transactions_waiting},
    {"transactions_active", &teak_engine_statistics::transactions_active},
    {"transactions_committed", &teak_engine_statistics::transactions_committed},
    {"transactions_rolled_back", &teak_engine_statistics::transactions_rolled_back},
    {"snapshots", &teak_engine_statistics::snapshots},
    {"bulk_loads", &teak_engine_statistics::bulk_loads},
    {"bulk_load_rows", &teak_engine_statistics::bulk_load_rows},
    {"rows_inserted", &teak_engine_statistics::rows_inserted},
    {"rows_updated", &teak_engine_statistics::rows_updated},
    {"rows_deleted", &teak_engine_statistics::rows_deleted},
    {"open_tables", &teak_engine_statistics::open_tables},
    {"tables", &teak_engine_statistics::tables},
    {"indexes", &teak_engine_statistics::indexes},
    {"recovered_records", &teak_engine_statistics::recovered_records},
    {"aborted_ids", &teak_engine_statistics::aborted_ids},
    {"aborted_ranges", &teak_engine_statistics::aborted_ranges},
    {"aborted_ranges_limit", &teak_engine_statistics::aborted_ranges_limit},
    {"unavailable_tables", &teak_engine_statistics::unavailable_tables},
    {"retained_log_bytes", &teak_engine_statistics::retained_bytes},
    {"orphan_files", &teak_engine_statistics::orphan_files},
    {"orphan_bytes", &teak_engine_statistics::orphan_bytes},
    {"read_only_tables", &teak_engine_statistics::read_only_tables},
    {"log_bytes_used", &teak_engine_statistics::log_bytes_used},
    {"log_bytes_limit", &teak_engine_statistics::log_bytes_limit},
    {"log_bytes_kept", &teak_engine_statistics::log_bytes_kept},
    {"log_slowdowns", &teak_engine_statistics::log_slowdowns},
    {"log_stops", &teak_engine_statistics::log_stops},
    {"log_stop_microseconds", &teak_engine_statistics::log_stop_microseconds},
    {"write_ids_unsettled", &teak_engine_statistics::write_ids_unsettled},
    {"write_id_chunks", &teak_engine_statistics::write_id_chunks},
    {"write_id_pieces", &teak_engine_statistics::write_id_pieces},
    {"write_id_memory_bytes", &teak_engine_statistics::write_id_bytes},
    {"file_bytes", &teak_engine_statistics::file_bytes},
    {"file_live_bytes", &teak_engine_statistics::live_bytes},
    {"file_free_bytes", &teak_engine_statistics::free_bytes},
    {"file_pinned_bytes", &teak_engine_statistics::pinned_bytes},
    {"moved_bytes", &teak_engine_statistics::bytes_moved},
    {"settled_bytes", &teak_engine_statistics::settled_bytes},
    {"idle_compaction_bytes", &teak_engine_statistics::idle_compaction_bytes},
    {"rebuilding_bytes", &teak_engine_statistics::rebuilding_bytes},
    {"io_throttled_microseconds", &teak_engine_statistics::io_throttled_microseconds},
};

struct Measurement {
  const char *name;
  uint64_t Measurements::*value;
};

constexpr Measurement measurement_variables[] = {
    {"oldest_snapshot_seconds", &Measurements::oldest_snapshot_seconds},
    {"oldest_writer_seconds", &Measurements::oldest_writer_seconds},
    {"disk_bytes", &Measurements::disk_bytes},
    {"disk_bytes_free", &Measurements::disk_bytes_free},
    {"corruption_errors", &Measurements::corruption_errors},
    {"group_by_pushdowns", &Measurements::group_by_pushdowns},
    {"pages_passed_over", &Measurements::pages_passed_over},
    {"pages_unread", &Measurements::pages_unread},
    {"read_free_rows", &Measurements::read_free_rows},
    {"tables_analyzed", &Measurements::tables_analyzed},
};

/* A histogram as variables. Each of `below` counts all times below a limit, which is 2^bits microseconds; the last one
   counts all times. */
struct TimeVariables {
  struct Below {
    const char *name;
    uint bits;
  };
  struct Value {
    const char *name;
    uint64_t teak_latencies::*value;
  };
  teak_latencies teak_engine_statistics::*times;
  Below below[10];
  Value values[5];
};

#define TIME_VARIABLES(operation, times)                                                                              \
  {                                                                                                                   \
    times,                                                                                                            \
        {{operation "_microseconds_below_64", 6},       {operation "_microseconds_below_256", 8},                     \
         {operation "_microseconds_below_1024", 10},    {operation "_microseconds_below_4096", 12},                   \
         {operation "_microseconds_below_16384", 14},   {operation "_microseconds_below_65536", 16},                  \
         {operation "_microseconds_below_262144", 18},  {operation "_microseconds_below_1048576", 20},                \
         {operation "_microseconds_below_4194304", 22}, {operation "_microseconds_count", TEAK_LATENCY_BUCKETS - 1}}, \
    {                                                                                                                 \
      {operation "_microseconds_sum", &teak_latencies::total_microseconds},                                           \
          {operation "_microseconds_p50", &teak_latencies::p50_microseconds},                                         \
          {operation "_microseconds_p99", &teak_latencies::p99_microseconds},                                         \
          {operation "_microseconds_p999", &teak_latencies::p999_microseconds},                                       \
          {operation "_microseconds_max", &teak_latencies::longest_microseconds},                                     \
    }                                                                                                                 \
  }

constexpr TimeVariables time_variables[] = {
    TIME_VARIABLES("commit", &teak_engine_statistics::commit_times),
    TIME_VARIABLES("statement", &teak_engine_statistics::statement_times),
};

#undef TIME_VARIABLES

/* The delays of writers because of one cause. */
struct DelayVariables {
  teak_delays teak_engine_statistics::*delays;
  const char *count;
  const char *microseconds;
  const char *stops;
  const char *stopped_now;
};

#define DELAY_VARIABLES(cause)                                                                   \
  {                                                                                              \
    &teak_engine_statistics::delays_##cause, "delays_" #cause, "delays_" #cause "_microseconds", \
        "delays_" #cause "_stops", "delays_" #cause "_stopped_now"                               \
  }

constexpr DelayVariables delay_variables[] = {DELAY_VARIABLES(memory), DELAY_VARIABLES(debt), DELAY_VARIABLES(runs),
                                              DELAY_VARIABLES(log), DELAY_VARIABLES(aborted)};

#undef DELAY_VARIABLES

constexpr size_t VARIABLES =
    array_elements(counters) + array_elements(measurement_variables) + REFUSALS + 4 * array_elements(delay_variables) +
    array_elements(time_variables) * (array_elements(TimeVariables().below) + array_elements(TimeVariables().values));

/* The array of variables for the server, and their values. */
class StatusReport {
 public:
  /* Allocates the report in the memory of the calling thread's statement, during which the server copies the values.
     The buffer that the server passes is too small, and the THD that it passes may be that of another session. Returns
     nullptr if there is no memory. */
  static StatusReport *create() {
    void *memory = current_thd->alloc(sizeof(StatusReport));
    return memory == nullptr ? nullptr : new (memory) StatusReport;
  }

  st_mysql_show_var *variables() { return variables_; }

 private:
  StatusReport() {
    statistics_.struct_size = sizeof(statistics_);
    if (engine != nullptr && teak_engine_get_statistics(engine, &statistics_) != TEAK_OK) statistics_ = {};
    for (const Counter &counter : counters) add(counter.name, &(statistics_.*counter.value));
    for (const Measurement &measurement : measurement_variables)
      add(measurement.name, &(measurements_.*measurement.value));
    for (size_t reason = 0; reason < REFUSALS; reason++) {
      refusals_[reason] = refusals[reason].load(std::memory_order_relaxed);
      add(refusal_names[reason], &refusals_[reason]);
    }
    for (const DelayVariables &of : delay_variables) add_delays(of, &(statistics_.*of.delays));
    for (const TimeVariables &of : time_variables) add_times(of, &(statistics_.*of.times));
  }

  void add(const char *name, uint64_t *value) { variables_[count_++] = {name, value, SHOW_ULONGLONG}; }

  void add_delays(const DelayVariables &variables, teak_delays *delays) {
    uint64_t *count = &sums_[count_];
    for (uint64_t delays_of_length : delays->times.buckets) *count += delays_of_length;
    add(variables.count, count);
    add(variables.microseconds, &delays->times.total_microseconds);
    add(variables.stops, &delays->stops);
    add(variables.stopped_now, &delays->stopped_now);
  }

  void add_times(const TimeVariables &variables, teak_latencies *times) {
    for (const TimeVariables::Below &below : variables.below) {
      uint64_t *value = &sums_[count_];
      for (uint bucket = 0; bucket <= below.bits; bucket++) *value += times->buckets[bucket];
      add(below.name, value);
    }
    for (const TimeVariables::Value &figure : variables.values) add(figure.name, &(times->*figure.value));
  }

  teak_engine_statistics statistics_ = {};
  Measurements measurements_ = measure();
  uint64_t refusals_[REFUSALS] = {};
  uint64_t sums_[VARIABLES] = {};  // of buckets, by the number of the variable
  st_mysql_show_var variables_[VARIABLES + 1] = {};
  size_t count_ = 0;
};

int show_counters(THD *, st_mysql_show_var *variable, void *, system_status_var *, enum_var_type) {
  static st_mysql_show_var none = {nullptr, nullptr, SHOW_UNDEF};
  StatusReport *report = StatusReport::create();
  variable->type = SHOW_ARRAY;
  variable->value = report == nullptr ? &none : report->variables();
  return 0;
}

}  // namespace

struct st_mysql_show_var status_variables[] = {{"Teak", reinterpret_cast<void *>(show_counters), SHOW_FUNC},
                                               {nullptr, nullptr, SHOW_UNDEF}};

}  // namespace teak
