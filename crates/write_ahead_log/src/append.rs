//! Appending records to the pending buffer, and writing the buffer to the file
//! without a sync.
//!
//! 1. A record's space is taken: in the pending buffer, in the file
//!    (`space.rs`), and for a row record below the log's bound (`bound.rs`).
//!    Usually that is one atomic addition. A thread that finds the buffer or the
//!    space used up becomes the leader and writes the buffer to the file
//!    (`leader.rs`), or waits while another thread leads.
//! 2. The record is copied into the pending buffer under one short mutex.
//!
//! A caller that appends under locks does step 1 before it takes them
//! ([`WriteAheadLog::reserve`]). Step 2 neither waits for a file nor writes one.

use crate::log::WriteAheadLog;
use crate::record::{RECORD_BYTES_MAX, Record};
use crate::state::State;
use parking_lot::MutexGuard;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::time::{Duration, Instant};
use teak_base::{Lsn, StorageError, StorageResult};

/// Space for one record, which is released when this is dropped.
#[derive(Debug)]
pub struct LogReservation<'l> {
    log: &'l WriteAheadLog,
    bytes: u64,
}

/// The result of [`WriteAheadLog::reserve`].
#[derive(Debug)]
pub enum LogSpace<'l> {
    /// Space for the record.
    Reserved(LogReservation<'l>),
    /// The log has reached the size at which row records are refused. There is
    /// space again after a trim.
    BoundReached,
}

impl LogReservation<'_> {
    /// Ends the reservation without releasing the space, which an appended record now uses. Returns
    /// the space in bytes.
    fn use_up(mut self) -> u64 {
        std::mem::take(&mut self.bytes)
    }
}

impl Drop for LogReservation<'_> {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.log.credit.release(self.bytes);
            if self.log.credit.waiting.load(SeqCst) > 0 {
                let _state = self.log.state.lock();
                self.log.space_available.notify_all();
            }
        }
    }
}

/// The space that a record must leave unused.
#[derive(Clone, Copy)]
struct Headroom {
    /// Reserved space of the file, in bytes.
    bytes: u64,
    /// Whether the log's bound applies.
    is_bounded: bool,
}

/// Why a record's space could not be taken.
enum Refusal {
    Bound,
    File,
    Buffer,
}

fn checked_bytes(record: &Record<'_>) -> StorageResult<usize> {
    let bytes = record.bytes_max();
    if bytes > RECORD_BYTES_MAX {
        return Err(StorageError::TooLarge {
            what: "log record",
            bytes: bytes as u64,
            limit: RECORD_BYTES_MAX as u64,
        });
    }
    Ok(bytes)
}

impl WriteAheadLog {
    /// Reserves space for a row record, for
    /// [`WriteAheadLog::append_reserved`]. May write to the file and wait.
    ///
    /// # Errors
    /// Those of [`WriteAheadLog::append`].
    pub fn reserve(&self, record: &Record<'_>) -> StorageResult<LogSpace<'_>> {
        let bytes = self.policy.record_space(checked_bytes(record)?);
        let headroom = Headroom {
            bytes: self.policy.headroom_of_rows(),
            is_bounded: true,
        };
        if self.credit.take(bytes) || self.take_slow_path(bytes, headroom)? {
            return Ok(LogSpace::Reserved(LogReservation { log: self, bytes }));
        }
        Ok(LogSpace::BoundReached)
    }

    /// Appends the record that space was reserved for. Does not wait for a file.
    ///
    /// # Errors
    /// `Poisoned` after a failure: the record is not in the log.
    ///
    /// # Panics
    /// If the record is larger than the one that space was reserved for.
    pub fn append_reserved(
        &self,
        reservation: LogReservation<'_>,
        record: &Record<'_>,
    ) -> StorageResult<Lsn> {
        let mut state = self.state.lock();
        if let Err(error) = state.check() {
            // Dropping the reservation may lock the state.
            drop(state);
            return Err(error);
        }
        Ok(self.put(&mut state, record, reservation.use_up()))
    }

    /// Appends a record to the pending buffer and returns its position. The
    /// record is durable after [`WriteAheadLog::sync`] of that position. The
    /// log's bound does not apply.
    ///
    /// # Errors
    /// `TooLarge` beyond [`RECORD_BYTES_MAX`]; `NoSpace` when the disk has no space for the record;
    /// `Poisoned` after an earlier failure; the error of the write if this call had to write the
    /// buffer. After an error the record is not in the log.
    pub fn append(&self, record: &Record<'_>) -> StorageResult<Lsn> {
        self.append_leaving(record, self.policy.headroom_of(record))
    }

    /// Appends a record that the caller can do without. The record may not use the headroom that is
    /// reserved for records that free resources.
    ///
    /// # Errors
    /// As [`WriteAheadLog::append`].
    pub fn append_best_effort(&self, record: &Record<'_>) -> StorageResult<Lsn> {
        self.append_leaving(record, self.policy.headroom_of_best_effort())
    }

    fn append_leaving(&self, record: &Record<'_>, headroom: u64) -> StorageResult<Lsn> {
        let bytes = self.policy.record_space(checked_bytes(record)?);
        let headroom = Headroom {
            bytes: headroom,
            is_bounded: false,
        };
        if !self.credit.take(bytes) {
            self.take_slow_path(bytes, headroom)?;
        }
        self.append_reserved(LogReservation { log: self, bytes }, record)
    }

    fn put(&self, state: &mut MutexGuard<'_, State>, record: &Record<'_>, space: u64) -> Lsn {
        let lsn = state.end();
        let before = state.pending.len();
        record.encode(&mut state.pending);
        let bytes = self.policy.record_space(state.pending.len() - before);
        assert!(
            bytes <= space,
            "a log record is larger than its reservation"
        );
        state.space.pending_bytes += space;
        if state.awaits_pending && state.pending.len() >= self.pending_bytes / 8 {
            state.awaits_pending = false;
            self.pending_grew.notify_one();
        }
        if self.credit.waiting.load(SeqCst) > 0 {
            self.space_available.notify_all();
        }
        Lsn(lsn)
    }

    /// Takes space that is not immediately available: writes the pending buffer out and reserves
    /// space in the file, or waits until another thread has done so or has released space. `false`
    /// when the log's bound refuses the record.
    #[cold]
    fn take_slow_path(&self, bytes: u64, headroom: Headroom) -> StorageResult<bool> {
        let since = Instant::now();
        let mut state = self.state.lock();
        loop {
            state.check()?;
            let refusal = match self.try_take(&state, bytes, headroom) {
                Ok(()) => break,
                Err(Refusal::Bound) => return Ok(false),
                Err(refusal) => refusal,
            };
            if state.leading {
                self.space_available.wait(&mut state);
            } else if state.has_unwritten() || matches!(refusal, Refusal::File) {
                let reserved = self.credit.taken() - state.space.pending_bytes;
                self.lead(&mut state, false, bytes + headroom.bytes + reserved)?;
            } else {
                self.wait_for_reservations(&mut state);
            }
        }
        drop(state);
        self.counters.space_waits.record(since.elapsed());
        Ok(true)
    }

    /// Takes space under the mutex of the state. The pending buffer accepts a
    /// record of any size while it is not full.
    fn try_take(&self, state: &State, bytes: u64, headroom: Headroom) -> Result<(), Refusal> {
        let before = self.credit.take_unchecked(bytes);
        let needed = before.saturating_add(bytes);
        let position = state.pending_start.saturating_add(before);
        let refusal = if headroom.is_bounded && !self.bound.accepts(state, position, bytes) {
            Refusal::Bound
        } else if needed.saturating_add(headroom.bytes) > state.space.file_bytes {
            Refusal::File
        } else if before >= self.pending_bytes as u64 {
            Refusal::Buffer
        } else {
            return Ok(());
        };
        self.credit.release(bytes);
        Err(refusal)
    }

    /// Waits until a thread that has reserved space appends its record or releases the space.
    fn wait_for_reservations(&self, state: &mut MutexGuard<'_, State>) {
        let credit = &self.credit;
        credit.waiting.fetch_add(1, SeqCst);
        // `taken` is read after `waiting` was incremented: a release before the read is seen here,
        // and a later release notifies this thread.
        if credit.taken() >= self.pending_bytes as u64 {
            self.space_available.wait(state);
        }
        credit.waiting.fetch_sub(1, SeqCst);
    }

    /// Writes the pending records, or only the retained batch if there is one,
    /// to the file without a sync. Returns whether there was anything to write.
    /// For the engine's log thread.
    ///
    /// # Errors
    /// As [`WriteAheadLog::sync`].
    pub fn write_pending(&self) -> StorageResult<bool> {
        let mut state = self.state.lock();
        state.check()?;
        while state.leading {
            self.space_available.wait(&mut state);
            state.check()?;
        }
        if !state.has_unwritten() {
            return Ok(false);
        }
        self.lead(&mut state, false, 0)?;
        Ok(true)
    }

    /// Bytes of records that are not known to be durable.
    #[must_use]
    pub fn unsynced_bytes(&self) -> u64 {
        self.end().0.saturating_sub(self.durable.load(Relaxed))
    }

    /// Waits until an eighth of the pending buffer is filled, the log fails or the timeout has
    /// expired. [`WriteAheadLog::wake`] ends the wait, or the next one if there is none. Returns
    /// whether any record is not yet written to the file.
    pub fn wait_for_pending(&self, timeout: Duration) -> bool {
        let mut state = self.state.lock();
        if !state.is_woken && state.pending.len() < self.pending_bytes / 8 {
            state.awaits_pending = true;
            self.pending_grew.wait_for(&mut state, timeout);
            state.awaits_pending = false;
        }
        state.is_woken = false;
        state.has_unwritten()
    }

    /// Ends the present or next call of [`WriteAheadLog::wait_for_pending`], and of
    /// [`WriteAheadLog::wait_for_preparation`].
    pub fn wake(&self) {
        self.state.lock().is_woken = true;
        self.pending_grew.notify_all();
        self.wake_preparation();
    }
}
