//! The text report of SHOW ENGINE TEAK STATUS.

use crate::core::EngineCore;
use crate::core::checkpoint_progress::CheckpointProgress;
use crate::core::delays::DelayCause;
use crate::engine::Engine;
use crate::locks::IndexNames;
use crate::statistics::{EngineStatistics, open_indexes};
use std::cmp::Reverse;
use std::fmt::{self, Write};
use std::sync::atomic::Ordering;
use teak_base::ByteSize;
use teak_base::latency::Latencies;
use teak_transactions::report::{DeadlockReport, LockRequest, WaitKind};
use teak_transactions::{BlockerKind, LockMode, RangeLockKind};

/// Maximum number of indexes in the report. The largest are listed.
const INDEXES_LISTED: usize = 20;

fn percent(part: u64, whole: u64) -> u64 {
    (part.saturating_mul(100)).checked_div(whole).unwrap_or(0)
}

fn memory(out: &mut String, s: &EngineStatistics) -> fmt::Result {
    writeln!(out, "MEMORY")?;
    writeln!(
        out,
        "budget {}, used {}, of which page cache and memtables {}",
        ByteSize(s.cache_bytes_limit),
        ByteSize(s.memory_bytes),
        ByteSize(s.cache_bytes_used)
    )?;
    writeln!(
        out,
        "memtables {} of {}, of which frozen {}, flushed but in use by readers {}; reserved for new ones {}",
        ByteSize(s.memtable_bytes),
        ByteSize(s.memtable_bytes_limit),
        ByteSize(s.memtable_frozen_bytes),
        ByteSize(s.memtable_retired_bytes),
        ByteSize(s.memtable_spare_bytes)
    )?;
    writeln!(
        out,
        "page cache {} of {}, hits {} % of {}",
        ByteSize(s.page_cache_bytes),
        ByteSize(s.page_cache_bytes_limit),
        percent(s.cache_hits, s.cache_hits + s.cache_misses),
        s.cache_hits + s.cache_misses
    )?;
    writeln!(
        out,
        "pages in use outside of the cache {}, nodes {} of {}, log buffers {}, sorts {}, write ids {}, locks {} of {}",
        ByteSize(s.uncached_block_bytes),
        ByteSize(s.node_bytes),
        ByteSize(s.node_bytes_limit),
        ByteSize(s.log_buffer_bytes),
        ByteSize(s.sort_bytes),
        ByteSize(s.write_id_bytes),
        ByteSize(s.lock_bytes),
        ByteSize(s.lock_bytes_limit)
    )
}

fn flushing(out: &mut String, s: &EngineStatistics) -> fmt::Result {
    writeln!(out, "\nFLUSHING")?;
    writeln!(
        out,
        "jobs {}, failed {}, helped by {} threads, written {} (uncompressed {}), pending {}",
        s.flushes,
        s.flush_failures,
        s.flush_helpers,
        ByteSize(s.flush_bytes_written),
        ByteSize(s.flush_bytes_uncompressed),
        ByteSize(s.pending_flush_bytes)
    )?;
    for cause in DelayCause::ALL {
        let delays = s.delays(cause);
        writeln!(
            out,
            "delays by {} {}, {} ms in total, stops {}, stopped now {}",
            cause.name(),
            delays.times.count(),
            delays.times.total_microseconds / 1000,
            delays.stops,
            delays.stopped_now
        )?;
    }
    writeln!(out, "max runs of one child {}", s.child_runs_max)?;
    writeln!(
        out,
        "blocks read {} ({}), of which prefetched {}, written {} ({}), syncs {}",
        s.blocks_read,
        ByteSize(s.bytes_read),
        s.blocks_prefetched,
        s.blocks_written,
        ByteSize(s.bytes_written),
        s.data_syncs
    )?;
    writeln!(
        out,
        "filter checks {}, negative {} %",
        s.filter_checks,
        percent(s.filter_negatives, s.filter_checks)
    )?;
    writeln!(
        out,
        "index files {}, live {}, free {}, needed by readers {}, moved to shrink files {}",
        ByteSize(s.file_bytes),
        ByteSize(s.live_bytes),
        ByteSize(s.free_bytes),
        ByteSize(s.pinned_bytes),
        ByteSize(s.bytes_moved)
    )?;
    writeln!(
        out,
        "settling read and wrote {}, idle compaction {}, rebuilding {}, background I/O waited {} ms",
        ByteSize(s.settled_bytes),
        ByteSize(s.idle_compaction_bytes),
        ByteSize(s.rebuilding_bytes),
        s.io_throttled_microseconds / 1000
    )
}

fn log(out: &mut String, s: &EngineStatistics, end: u64, replay_from: u64) -> fmt::Result {
    writeln!(out, "\nLOG")?;
    writeln!(
        out,
        "end {end}, recovery would read {}, files {}, bound {}",
        ByteSize(end.saturating_sub(replay_from)),
        ByteSize(s.log_bytes_kept),
        ByteSize(s.log_bytes_limit)
    )?;
    writeln!(
        out,
        "appended {}, written {}, syncs {}, commits {}",
        ByteSize(s.log_bytes_appended),
        ByteSize(s.log_bytes_written),
        s.log_syncs,
        s.log_commits
    )?;
    writeln!(out, "records recovered at start {}", s.recovered_records)?;
    writeln!(
        out,
        "unavailable tables {}, read-only tables {}, their retained records {}; orphan files {}, {}",
        s.unavailable_tables,
        s.read_only_tables,
        ByteSize(s.retained_bytes),
        s.orphan_files,
        ByteSize(s.orphan_bytes)
    )
}

fn checkpoints(out: &mut String, s: &EngineStatistics, now: &CheckpointProgress) -> fmt::Result {
    writeln!(out, "\nCHECKPOINTS")?;
    writeln!(
        out,
        "rounds {}, last {} ms, longest {} ms; index files {}, failed {}",
        s.checkpoints,
        s.checkpoint_microseconds_last / 1000,
        s.checkpoint_microseconds_max / 1000,
        s.checkpointed_indexes,
        s.checkpoint_failures
    )?;
    writeln!(out, "in progress: {now}")
}

fn histogram(out: &mut String, name: &str, times: &Latencies) -> fmt::Result {
    write!(out, "histogram of {name}")?;
    for (bucket, count) in times.buckets.iter().enumerate() {
        match Latencies::bucket_limit(bucket) {
            _ if *count == 0 => {}
            Some(limit) => write!(out, ", below {limit} us: {count}")?,
            None => write!(out, ", longer: {count}")?,
        }
    }
    writeln!(out)
}

/// The histograms of commits and statements; count, average and maximum of each kind of wait.
fn latency(out: &mut String, core: &EngineCore, s: &EngineStatistics) -> fmt::Result {
    writeln!(out, "\nLATENCY")?;
    histogram(out, "commits", &s.commit_times)?;
    histogram(out, "statements", &s.statement_times)?;
    let log = core.log.statistics();
    let trees = core.files.cache.lock_times();
    for (kind, times) in [
        ("commits", s.commit_times),
        ("statements", s.statement_times),
        ("delays by memory", s.delays_memory.times),
        ("delays by debt", s.delays_debt.times),
        ("delays by runs", s.delays_runs.times),
        ("delays by log", s.delays_log.times),
        ("delays by aborted ids", s.delays_aborted.times),
        ("waits for log buffer", log.space_waits),
        ("log segment changes", log.rolls),
        ("log syncs", log.sync_times),
        ("lock waits", core.transactions.counts().lock_wait_times),
        ("waits for a row latch", core.transactions.latches().waits()),
        ("waits of writers for a new memtable", trees.writers()),
        ("lock waits of freezes and installations", trees.freezes()),
        ("captures of checkpoints", trees.captures()),
    ] {
        let count = times.count();
        let average = times.total_microseconds.checked_div(count).unwrap_or(0);
        write!(out, "{kind}: {count}, average {average} us")?;
        let longest = times.longest_microseconds;
        match times.longest_at {
            0 => writeln!(out)?,
            _ => {
                let seconds = times.longest_age().as_secs();
                writeln!(out, ", longest {longest} us, {seconds} s ago")?;
            }
        }
    }
    Ok(())
}

fn transactions(out: &mut String, s: &EngineStatistics) -> fmt::Result {
    writeln!(out, "\nTRANSACTIONS")?;
    writeln!(
        out,
        "active {}, waiting {}, committed {}, rolled back {}, snapshots {}",
        s.transactions_active,
        s.transactions_waiting,
        s.transactions_committed,
        s.transactions_rolled_back,
        s.snapshots
    )?;
    writeln!(
        out,
        "lock waits {}, timeouts {}, deadlocks {}, snapshot conflicts {}, aborted write ids {} in {} of {} ranges",
        s.lock_waits,
        s.lock_timeouts,
        s.deadlocks,
        s.snapshot_conflicts,
        s.aborted_ids,
        s.aborted_ranges,
        s.aborted_ranges_limit
    )?;
    writeln!(
        out,
        "write ids: next {}, unsettled {} in {} chunks and {} pieces",
        s.next_write_id, s.write_ids_unsettled, s.write_id_chunks, s.write_id_pieces
    )?;
    writeln!(
        out,
        "row locks {}, escalations {}, requests refused because lock memory was full {}",
        s.row_locks, s.lock_escalations, s.lock_refusals
    )?;
    writeln!(
        out,
        "rows inserted {}, updated {}, deleted {}",
        s.rows_inserted, s.rows_updated, s.rows_deleted
    )
}

/// Bytes as hexadecimal digits.
struct Hex<'a>(&'a [u8]);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

fn lock_request(
    out: &mut String,
    request: &LockRequest,
    blocked_by: BlockerKind,
    names: &IndexNames,
) -> fmt::Result {
    let key = Hex(&request.key);
    match request.kind {
        WaitKind::Lock(LockMode::Shared) => write!(out, "shared lock on key {key}")?,
        WaitKind::Lock(LockMode::Exclusive) => write!(out, "exclusive lock on key {key}")?,
        WaitKind::Write => write!(out, "end of the transaction that wrote key {key}")?,
        WaitKind::RangeLock if blocked_by == BlockerKind::Gap => {
            write!(out, "insert within a gap lock at key {key}")?
        }
        WaitKind::RangeLock => write!(out, "write within a range lock at key {key}")?,
        WaitKind::RangeRequest(RangeLockKind::Gap) => {
            write!(out, "gap lock, waiting behind an insert, from key {key}")?
        }
        WaitKind::RangeRequest(RangeLockKind::Write) => {
            write!(out, "range lock, waiting behind a write, from key {key}")?
        }
    }
    match names.get(request.file) {
        Some(name) => write!(out, " in {} {}", name.table, name.index),
        None => write!(out, " in file {:08x}, which is not open", request.file.0),
    }
}

fn deadlock(out: &mut String, deadlock: &DeadlockReport, names: &IndexNames) -> fmt::Result {
    let ago = deadlock.at.elapsed().unwrap_or_default();
    writeln!(out, "\nLATEST DEADLOCK, {} s ago", ago.as_secs())?;
    for member in &deadlock.members {
        let participant = member.participant;
        write!(out, "transaction {}", participant.transaction.0)?;
        if participant.thread != 0 {
            write!(out, ", thread {}", participant.thread)?;
        }
        write!(
            out,
            ", rows written {}, row locks {}, waited {} ms for ",
            member.rows_written,
            member.row_locks,
            member.waited.as_millis()
        )?;
        lock_request(out, &member.request, member.blocked_by, names)?;
        let victim = if participant.transaction == deadlock.victim {
            ": VICTIM"
        } else {
            ""
        };
        writeln!(out, "{victim}")?;
    }
    Ok(())
}

/// # Status report
impl Engine {
    /// The report of SHOW ENGINE TEAK STATUS.
    #[must_use]
    pub fn status_text(&self) -> String {
        let mut out = String::new();
        // Writing to a string cannot fail.
        let _ = self.write_status(&mut out);
        out
    }

    fn write_status(&self, out: &mut String) -> fmt::Result {
        let statistics = self.statistics();
        memory(out, &statistics)?;
        flushing(out, &statistics)?;
        let end = self.core.log.end().0;
        let replay_from = self.core.replay_from.load(Ordering::Relaxed);
        log(out, &statistics, end, replay_from)?;
        checkpoints(out, &statistics, &self.core.checkpoints)?;
        latency(out, &self.core, &statistics)?;
        transactions(out, &statistics)?;
        if let Some(found) = self.last_deadlock() {
            deadlock(out, &found, &self.index_names())?;
        }
        self.write_indexes(out, &statistics)
    }

    fn write_indexes(&self, out: &mut String, s: &EngineStatistics) -> fmt::Result {
        writeln!(out, "\nINDEXES")?;
        writeln!(
            out,
            "tables {}, open {}, open indexes {}",
            s.tables, s.open_tables, s.indexes
        )?;
        let mut indexes: Vec<_> = open_indexes(&self.core.tables)
            .into_iter()
            .map(|(table, index)| (index.tree.file_statistics().file_bytes, table, index))
            .collect();
        indexes.sort_by_key(|(bytes, ..)| Reverse(*bytes));
        for (bytes, table, index) in indexes.iter().take(INDEXES_LISTED) {
            let tree = index.tree.statistics();
            let file = index.tree.file_statistics();
            let backlog = index.tree.backlog();
            write!(
                out,
                "{table} {}: {} on disk, {} live, {} free, {} pinned, {} moved, {} uncompressed, {} in memory, {} entries, height {}, {} runs, {} above leaves, {} due, at most {} runs of one child",
                index.entry.label,
                ByteSize(*bytes),
                ByteSize(file.live_bytes),
                ByteSize(file.free_bytes),
                ByteSize(file.pinned_bytes),
                ByteSize(file.bytes_moved),
                ByteSize(tree.raw_bytes),
                ByteSize(tree.memtable_bytes + tree.frozen_bytes),
                tree.rows,
                tree.height,
                tree.runs,
                ByteSize(tree.upper_bytes),
                ByteSize(backlog.due_bytes),
                backlog.child_runs
            )?;
            let pressure = index.load.pressure();
            if pressure > 0.0 {
                write!(out, ", writers slowed by {}", index.load.cause().name())?;
            }
            if let Some(error) = index.failure() {
                write!(out, ", NOT FLUSHED: {error}")?;
            }
            if let Some(error) = index.checkpoint_retry.failure() {
                write!(out, ", NOT CHECKPOINTED: {error}")?;
            }
            if index.access.refusal().is_some() {
                write!(out, ", READ-ONLY")?;
            }
            if index.is_log_retained() {
                write!(out, ", LOG RECORDS RETAINED")?;
            }
            writeln!(out)?;
        }
        if indexes.len() > INDEXES_LISTED {
            writeln!(out, "and {} more", indexes.len() - INDEXES_LISTED)?;
        }
        Ok(())
    }
}
