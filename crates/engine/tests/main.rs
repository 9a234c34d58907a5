//! The tests of this crate that use its public interface, in one program: each program takes some seconds to be linked.

// A test fails by a panic, and the numbers that it converts are small.
#![allow(
    clippy::cast_possible_truncation,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used
)]

mod aborted_ids;
mod alter;
mod backpressure;
mod backup;
mod backup_failures;
mod backup_increments;
mod checkpoints;
mod closed_files;
mod common;
mod count_rows;
mod delete_range;
mod direct_io;
mod divided_jobs;
mod dropping;
mod encryption;
mod failed_files;
mod failures;
mod full_disk;
mod fuzz_smoke;
mod garbage;
mod group_scan;
mod idle_tables;
mod insight;
mod io_limit;
mod large_values;
mod latched_reads;
mod latency;
mod load;
mod load_stream;
mod lock_reports;
mod lock_row;
mod locking_reads;
mod log_bound;
mod many_write_ids;
mod memory;
mod metadata;
mod older_files;
mod older_snapshots;
mod online_unique;
mod open_files;
mod orphans;
mod page_filter;
mod page_rows;
mod parallel_recovery;
mod prepared;
mod range_locks;
mod read_only_tables;
mod recovery;
mod repair;
mod repair_retained;
mod space;
mod temporary;
mod transactions;
mod unavailable;
mod upserts;
mod waiting_writes;
