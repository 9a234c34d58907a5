//! Appending records to the pending buffer, and writing the buffer to the file
//! without a sync.
//!
//! Appending reserves disk space for the record (`space.rs`) and copies it into the pending buffer
//! under one short mutex. If the buffer is full or no reserved space is left, the thread becomes
//! the leader and writes the buffer to the file (`leader.rs`).

use crate::log::WriteAheadLog;
use crate::record::{RECORD_BYTES_MAX, Record};
use crate::space::record_space;
use crate::state::State;
use parking_lot::MutexGuard;
use std::time::Duration;
use teak_base::{Lsn, StorageError, StorageResult};

impl WriteAheadLog {
    /// Appends a record to the pending buffer and returns its position. The
    /// record is durable after [`WriteAheadLog::sync`] of that position.
    ///
    /// # Errors
    /// `TooLarge` beyond [`RECORD_BYTES_MAX`]; `NoSpace` when the disk has no space for the record;
    /// `Poisoned` after an earlier failure; the error itself if this call wrote the buffer and
    /// failed. After an error the record is not in the log.
    pub fn append(&self, record: &Record<'_>) -> StorageResult<Lsn> {
        let headroom = self.policy.headroom_of(record);
        self.append_to(&mut self.state.lock(), record, headroom)
    }

    /// Appends a record that may be lost. It uses no space of the headroom for important records.
    ///
    /// # Errors
    /// As [`WriteAheadLog::append`].
    pub fn append_best_effort(&self, record: &Record<'_>) -> StorageResult<Lsn> {
        let headroom = self.policy.headroom_of_best_effort();
        self.append_to(&mut self.state.lock(), record, headroom)
    }

    fn append_to(
        &self,
        state: &mut MutexGuard<'_, State>,
        record: &Record<'_>,
        headroom: u64,
    ) -> StorageResult<Lsn> {
        let bytes = record.bytes_max();
        if bytes > RECORD_BYTES_MAX {
            return Err(StorageError::TooLarge {
                what: "log record",
                bytes: bytes as u64,
                limit: RECORD_BYTES_MAX as u64,
            });
        }
        let space = record_space(bytes);
        loop {
            state.check()?;
            if state.pending.len() < self.pending_bytes && state.space.reserve(space, headroom) {
                break;
            }
            if state.leading {
                self.space_available.wait(state);
            } else {
                self.lead(state, false, space + headroom)?;
            }
        }
        let lsn = state.end();
        record.encode(&mut state.pending);
        if state.awaits_pending && state.pending.len() >= self.pending_bytes / 8 {
            state.awaits_pending = false;
            self.pending_grew.notify_one();
        }
        Ok(Lsn(lsn))
    }

    /// Writes the pending records to the file, without making them durable.
    /// Returns whether there were any. For the engine's log thread.
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

    /// Waits until an eighth of the pending buffer is filled, [`WriteAheadLog::wake`] is called or
    /// the timeout has expired. Returns whether any record is pending.
    pub fn wait_for_pending(&self, timeout: Duration) -> bool {
        let mut state = self.state.lock();
        if state.pending.len() < self.pending_bytes / 8 {
            state.awaits_pending = true;
            self.pending_grew.wait_for(&mut state, timeout);
            state.awaits_pending = false;
        }
        state.has_unwritten()
    }

    /// Ends a [`WriteAheadLog::wait_for_pending`] early.
    pub fn wake(&self) {
        let _state = self.state.lock();
        self.pending_grew.notify_all();
    }
}
