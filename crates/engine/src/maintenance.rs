//! Background work: flushing and compaction, admission of writers,
//! checkpoints, closing idle tables, settling write ids, tables with failed
//! files, and clean-up after rollbacks.
//!
//! Threads of an engine, by their names in the operating system:
//! - `teak-flush-N` run flush and compaction jobs (see `flusher`),
//! - `teak-log` writes and syncs log records that no commit waits for,
//! - `teak-segment` prepares, reuses and removes files of the log,
//! - `teak-maint` makes maintenance passes (see `checkpoint`),
//! - `teak-keys` writes files again whose encryption key has changed (see `crate::key_changes`), if there are keys,
//! - `teak-space` keeps files close to the size of their live bytes (see
//!   `space`).
//!
//! In an engine without threads, writers flush when memory is short, and make a
//! maintenance pass when the log has reached its bound. Tests call `Engine::step`
//! and `Engine::run_maintenance`.

pub(crate) mod admission;
pub(crate) mod catalogue_writer;
pub(crate) mod checkpoint;
mod checkpoint_index;
mod checkpoint_plan;
mod checkpoint_round;
pub(crate) mod delay;
mod divided_job;
mod failed_tables;
pub(crate) mod flusher;
mod idle_compaction;
mod idle_flush;
mod idle_tables;
pub(crate) mod key_change;
pub(crate) mod log_space;
pub(crate) mod rollback;
mod settling;
pub(crate) mod space;
pub(crate) mod threads;
