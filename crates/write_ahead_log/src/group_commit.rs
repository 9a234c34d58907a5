//! Group commit: making records durable, with few syncs for many committing
//! threads.
//!
//! 1. A thread whose record is not durable becomes the leader if there is none and a sync may
//!    begin. It takes all pending records, including the records of other threads.
//! 2. Otherwise it waits as a member of the group whose leader took its record, or of the next
//!    group.
//! 3. After writing the records of its group, the leader syncs the file. If the segment has
//!    additional file handles, it first releases the leadership, so that the next group may be
//!    written and synced at the same time, see `groups.rs`. After the sync, the leader wakes all
//!    threads of its group and one thread of the next group, which becomes the next leader.
//!
//! Any failure except a write that found no disk space poisons the log: every
//! later append, and every sync of a record that is not durable, fails, because
//! the contents of the file are unknown.

use crate::log::WriteAheadLog;
use crate::record::make_void;
use crate::state::State;
use parking_lot::MutexGuard;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use teak_base::{Lsn, StorageResult};

/// What happens to a record that cannot be synced because the disk is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WhenFull {
    /// It is retained in memory and can be written later.
    Retain,
    /// It becomes void.
    Revoke,
}

impl WriteAheadLog {
    /// Makes the record at `lsn` and everything before it durable. A position at or beyond the end
    /// includes all records appended so far.
    ///
    /// # Errors
    /// `NoSpace` while the disk has no space for the pending records; they are retained and may
    /// become durable later. Any other failure of this call, which poisons the log; `Poisoned`
    /// after a failure of another call. After these the record may or may not be durable.
    pub fn sync(&self, lsn: Lsn) -> StorageResult<()> {
        if self.durable.load(Acquire) > lsn.0 {
            return Ok(());
        }
        self.sync_to(lsn, WhenFull::Retain)
    }

    /// Like [`WriteAheadLog::sync`], but revokes the record when the disk is full. The caller must
    /// then undo the operation of the record.
    ///
    /// # Errors
    /// As [`WriteAheadLog::sync`]. After `NoSpace` the record is void: no
    /// replay will ever apply it.
    pub fn sync_or_revoke(&self, lsn: Lsn) -> StorageResult<()> {
        self.sync_to(lsn, WhenFull::Revoke)
    }

    fn sync_to(&self, lsn: Lsn, when_full: WhenFull) -> StorageResult<()> {
        self.counters.sync_calls.fetch_add(1, Relaxed);
        let mut state = self.state.lock();
        let wanted = lsn.0.saturating_add(1).min(state.end());
        let mut gathers = state.groups.has_many_committers();
        while self.durable.load(Acquire) < wanted {
            state.check()?;
            let group = state.groups.group_of(wanted);
            let is_next = group == state.groups.next();
            if is_next && !state.leading && state.groups.may_sync() {
                if std::mem::take(&mut gathers) {
                    // Threads that were just woken can append their next records, which then join
                    // this group.
                    MutexGuard::unlocked(&mut state, std::thread::yield_now);
                    continue;
                }
                match self.lead(&mut state, true, 0) {
                    Err(error) if self.durable.load(Acquire) < wanted => {
                        // No other thread has become the leader: the state was not unlocked since
                        // the failure, or the log is poisoned.
                        if when_full == WhenFull::Retain
                            || !error.is_no_space()
                            || self.revoke(&mut state, lsn)
                        {
                            return Err(error);
                        }
                        drop(state);
                        // The record is already in the file, so a sync needs no more space.
                        return self.sync(lsn);
                    }
                    // Checks again: either the wanted record is durable, or this call has written
                    // only the retained batch, which precedes the record. An error concerns later
                    // records only.
                    _ => continue,
                }
            }
            let waiter = state.groups.enqueue(group);
            drop(state);
            waiter.wait();
            // Fast path without the mutex: the record is often durable by now.
            if self.durable.load(Acquire) >= wanted {
                return Ok(());
            }
            state = self.state.lock();
        }
        Ok(())
    }

    /// Makes a record void. Returns false if it is already in the file. Must be called while no
    /// thread leads.
    fn revoke(&self, state: &mut MutexGuard<'_, State>, lsn: Lsn) -> bool {
        match lsn.0.checked_sub(state.pending_start) {
            Some(start) => {
                usize::try_from(start).is_ok_and(|start| make_void(&mut state.pending, start))
            }
            None => self.writer.lock().make_void(lsn.0),
        }
    }
}
