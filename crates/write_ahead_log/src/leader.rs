//! The leader: the one thread that writes to the file.
//!
//! 1. Under the state's mutex the leader swaps the pending buffer for an empty
//!    one. If an earlier batch found no space, it writes that batch instead.
//! 2. It compresses and writes the batch without the mutex.
//! 3. If it leads a group, it syncs the file. If the segment has additional file handles, it
//!    releases the leadership first, so that the next batch can be written and synced concurrently.
//! 4. It reports the outcome: wakes its group and the next leader, or poisons
//!    the log.
//!
//! A batch for which there is no disk space is retained in memory and written later. Until then a
//! committing thread can revoke its record.

use crate::error::WriteError;
use crate::groups::Group;
use crate::log::WriteAheadLog;
use crate::options::SegmentCreation;
use crate::state::{LogFailure, State};
use crate::writer::Writer;
use parking_lot::MutexGuard;
use std::path::PathBuf;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::Instant;
use teak_base::StorageResult;
use teak_disk::DiskFile;

impl WriteAheadLog {
    /// Leads once: writes all pending records, makes them durable if `sync` is set, and reserves
    /// space for at least `min_bytes` more. If there is a retained batch, only that one is written.
    /// The state is unlocked during I/O. No thread may lead when this is called; no thread leads
    /// when this returns `NoSpace`.
    pub(crate) fn lead(
        &self,
        state: &mut MutexGuard<'_, State>,
        sync: bool,
        min_bytes: u64,
    ) -> StorageResult<()> {
        assert!(!state.leading, "two leaders of one log");
        let mut writer = self.writer.lock();
        if writer.raw.is_empty() {
            std::mem::swap(&mut state.pending, &mut writer.raw);
            state.pending_start += writer.raw.len() as u64;
            writer.batch_space = state.space.begin_batch();
            self.publish_limit(state);
            self.credit.release(writer.batch_space);
        }
        state.leading = true;
        let group = sync.then(|| state.groups.begin(writer.taken()));
        self.space_available.notify_all();
        let mut leader = Leader {
            log: self,
            state,
            group,
            leads: true,
            durable_before: self.durable.load(Acquire),
            ended: false,
        };
        let written = MutexGuard::unlocked(leader.state, || {
            writer.raise_durable(self.durable.load(Acquire));
            self.write_out(&mut writer, min_bytes)
        });
        let (reserved, retained) = (writer.reserved_bytes(), writer.batch_space);
        leader.state.space.end_batch(reserved, retained);
        self.publish_limit(leader.state);
        leader.state.batch_retained = !writer.raw.is_empty();
        let buffers = writer.buffer_bytes() + leader.state.pending.capacity();
        self.counters.buffer_bytes.store(buffers as u64, Relaxed);
        let path = writer.path();
        // If there was no space for a batch, the data written before it is still synced.
        let synced = match group {
            Some(group) if !matches!(written, Err(WriteError::Broken(_))) => {
                // If there was no space, this thread remains the leader during the sync, so that
                // the caller can revoke its record before another thread leads.
                leader.sync(writer, group, written.is_ok())
            }
            _ => {
                drop(writer);
                Ok(())
            }
        };
        // The writer is unlocked here: `end` may unlock the state to wake others.
        leader.end(path, synced.and(written))
    }

    /// Begins the next segment if the current one is full, writes the batch, and reserves space
    /// after it.
    fn write_out(&self, writer: &mut Writer, min_bytes: u64) -> Result<(), WriteError> {
        let rolled = match writer.must_roll() {
            true => self.roll(writer),
            false => Ok(()),
        };
        let written = rolled.and_then(|()| writer.write(&self.counters));
        let half_full = {
            let mut segments = self.segments.lock();
            let before = self.is_half_full(segments.current_bytes());
            for segment in writer.begun.drain(..) {
                segments.push(segment);
            }
            segments.set_current_bytes(writer.offset());
            self.file_bytes.store(segments.totals().bytes, Relaxed);
            !before && self.is_half_full(writer.offset())
        };
        if half_full {
            self.wake_preparation();
        }
        // Everything before a new segment is durable.
        self.durable.fetch_max(writer.durable(), Release);
        written.and_then(|()| {
            match writer.reserve(min_bytes, self.policy.target_bytes) {
                Err(error) if min_bytes > 0 => Err(WriteError::Full(error)),
                // Ignored: the next append that needs the space receives the error.
                _ => Ok(()),
            }
        })
    }
}

impl WriteAheadLog {
    /// Continues in the next segment. If another thread must prepare that segment and has not
    /// finished, the current segment grows beyond its size.
    fn roll(&self, writer: &mut Writer) -> Result<(), WriteError> {
        let since = Instant::now();
        if let Some(next) = self.take_prepared() {
            let unused = writer.roll_into(next, &self.counters)?;
            self.end_take_prepared(unused);
        } else if self.segment_creation != SegmentCreation::Ahead {
            let created = self.create_on_demand(|| writer.roll(&self.counters));
            created.unwrap_or(Ok(()))?;
            self.note_created(writer.number());
        }
        self.counters.rolls.record(since.elapsed());
        Ok(())
    }
}

/// How a leadership ends.
enum Ending {
    /// All data was written, and synced if requested.
    Done,
    /// The disk is full. Threads that need the space request it again and receive the error.
    Full,
    /// The log is poisoned.
    Broken(LogFailure),
}

/// A leadership in progress. [`Leader::end`] ends it. If a call of the disk panics, the leadership
/// ends with a failure, so that no thread waits forever.
struct Leader<'l, 'g, 's> {
    log: &'l WriteAheadLog,
    state: &'s mut MutexGuard<'g, State>,
    /// The group that this leader makes durable, if any.
    group: Option<Group>,
    /// False after the leadership was released for a concurrent sync.
    leads: bool,
    /// The durable position at the start.
    durable_before: u64,
    ended: bool,
}

impl Leader<'_, '_, '_> {
    /// Syncs the written data. If `concurrently` is set and the segment has additional file
    /// handles, other threads can write and sync at the same time.
    fn sync(
        &mut self,
        mut writer: MutexGuard<'_, Writer>,
        group: Group,
        concurrently: bool,
    ) -> Result<(), WriteError> {
        let log = self.log;
        let handle = concurrently.then(|| writer.sync_handle(group.handle));
        match handle.flatten() {
            Some(file) => {
                let end = writer.end();
                drop(writer);
                self.sync_concurrently(group, &*file, end)
            }
            None => MutexGuard::unlocked(self.state, || {
                let synced = writer.sync(&log.counters);
                log.durable.fetch_max(writer.durable(), Release);
                synced
            }),
        }
    }

    /// Syncs the data written up to `end` while other threads write.
    fn sync_concurrently(
        &mut self,
        group: Group,
        file: &dyn DiskFile,
        end: u64,
    ) -> Result<(), WriteError> {
        let log = self.log;
        self.leads = false;
        self.state.leading = false;
        let since = Instant::now();
        self.state.groups.begin_sync(group, since);
        log.space_available.notify_all();
        let next = self.state.take_next_leader();
        let synced = MutexGuard::unlocked(self.state, || {
            next.iter().for_each(|waiter| waiter.wake());
            file.sync()
        });
        // After a failure of another thread the contents of the file are
        // unknown.
        synced
            .and_then(|()| self.state.check())
            .map_err(WriteError::Broken)?;
        log.counters.syncs.fetch_add(1, Relaxed);
        log.counters.sync_times.record(since.elapsed());
        log.durable.fetch_max(end, Release);
        Ok(())
    }

    /// Ends the leadership; `path` is the file that was written.
    fn end(mut self, path: PathBuf, outcome: Result<(), WriteError>) -> StorageResult<()> {
        let (ending, result) = match outcome {
            Ok(()) => (Ending::Done, Ok(())),
            Err(WriteError::Full(error)) => (Ending::Full, Err(error)),
            Err(WriteError::Broken(error)) => {
                let reason = error.to_string();
                let failure = LogFailure { path, reason };
                // `NoSpace` is only returned while the log continues: a caller may then revoke its
                // record and try again.
                let error = match error.is_no_space() {
                    true => failure.to_error(),
                    false => error,
                };
                (Ending::Broken(failure), Err(error))
            }
        };
        self.release(ending);
        result
    }

    /// Releases the leadership and wakes the threads that wait for it.
    fn release(&mut self, ending: Ending) {
        self.ended = true;
        let log = self.log;
        if self.leads {
            self.state.leading = false;
        }
        let groups = &mut self.state.groups;
        let mut woken = match self.group {
            Some(group) => groups.end(group, Instant::now()),
            // The switch to a new segment has made records durable that threads may wait for.
            None if log.durable.load(Acquire) > self.durable_before => {
                groups.take_all(groups.next())
            }
            None => Vec::new(),
        };
        woken.extend(self.state.take_next_leader());
        // Appending threads retry: there is space now, or one of them becomes the leader.
        log.space_available.notify_all();
        let is_full = matches!(ending, Ending::Full);
        if let Ending::Broken(failure) = ending {
            self.state.failed.get_or_insert(failure);
            woken.extend(self.state.groups.take_all_groups());
            log.pending_grew.notify_all();
        }
        let wake = || woken.iter().for_each(|waiter| waiter.wake());
        // After `Full` the state remains locked, so that no thread leads before the caller can
        // revoke its record.
        if is_full || woken.is_empty() {
            wake();
        } else {
            MutexGuard::unlocked(self.state, wake);
        }
    }
}

impl Drop for Leader<'_, '_, '_> {
    fn drop(&mut self) {
        if !self.ended {
            self.release(Ending::Broken(LogFailure {
                path: self.log.directory.clone(),
                reason: "the writer panicked".into(),
            }));
        }
    }
}
