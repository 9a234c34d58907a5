//! Segment files that are not part of the log: the next segment, prepared so that
//! the leader need not create it, and the files of trimmed segments, which are
//! reused for later segments or removed.
//!
//! With [`SegmentCreation::Ahead`] all of this I/O is done by the caller of
//! [`WriteAheadLog::prepare_segments`], a background thread of the engine, and under no lock that
//! an append or a commit takes.

use crate::error::WriteError;
use crate::format::{SegmentHeader, SegmentKind};
use crate::log::WriteAheadLog;
use crate::options::SegmentCreation;
use crate::segment::{NewSegment, segment_path};
use crate::segment_pool::Task;
use crate::segments::SegmentEntry;
use std::time::Duration;
use teak_base::StorageResult;

impl WriteAheadLog {
    /// Takes the next segment, if it is prepared. In this case the leader then
    /// calls `end_take_prepared`, unless the log has failed.
    pub(crate) fn take_prepared(&self) -> Option<NewSegment> {
        let mut pool = self.pool.lock();
        pool.is_taken = pool.ready.is_some();
        pool.ready.take()
    }

    /// Called by the leader after [`WriteAheadLog::take_prepared`]. `unused` is the segment if the
    /// log could not continue in it: it remains the next one.
    pub(crate) fn end_take_prepared(&self, unused: Option<NewSegment>) {
        let mut pool = self.pool.lock();
        pool.is_taken = false;
        if unused.is_none() {
            pool.begun += 1;
            pool.next_number += 1;
        }
        pool.ready = unused;
        pool.is_woken = true;
        self.preparation_wanted.notify_one();
    }

    /// Lets the leader create the next segment. Returns `None`, without a call of `create`, while
    /// another thread prepares or removes segment files, or if it has prepared the segment: both
    /// threads would create the same file.
    pub(crate) fn create_on_demand<T>(&self, create: impl FnOnce() -> T) -> Option<T> {
        let _one_at_a_time = self.preparing.try_lock()?;
        if self.pool.lock().ready.is_some() {
            // Another thread has prepared it since the leader looked for it.
            return None;
        }
        Some(create())
    }

    /// Called after the leader has tried to create a segment: `number` is the current one.
    pub(crate) fn note_created(&self, number: u64) {
        self.pool.lock().next_number = number + 1;
    }

    /// Adds files of trimmed segments, to be reused or removed. `segments` is the number of
    /// segments that remain in the log.
    pub(crate) fn add_trimmed(&self, trimmed: Vec<SegmentEntry>, segments: u64) {
        let files_max = match self.bound.bytes_max {
            0 => u64::MAX,
            bytes => (bytes / self.segment_bytes).saturating_sub(segments + 1),
        };
        let mut pool = self.pool.lock();
        pool.add_trimmed(trimmed, files_max);
        pool.is_woken = true;
        self.preparation_wanted.notify_one();
    }

    /// Prepares the next segment if the current one is half full, and removes the
    /// files of trimmed segments that are not kept for reuse. Returns whether there
    /// was anything to do. Does nothing with [`SegmentCreation::OnDemand`].
    ///
    /// # Errors
    /// `NoSpace`, `Io`: the call can be repeated, and until then the log continues
    /// in the current segment. `Poisoned`.
    pub fn prepare_segments(&self) -> StorageResult<bool> {
        if self.segment_creation == SegmentCreation::OnDemand {
            return Ok(false);
        }
        let _one_at_a_time = self.preparing.lock();
        let mut worked = false;
        loop {
            self.state.lock().check()?;
            let is_wanted = self.is_half_full(self.segments.lock().current_bytes());
            let task = self
                .pool
                .lock()
                .next_task(is_wanted, 2 * self.segment_bytes);
            match task {
                None => return Ok(worked),
                Some(Task::Prepare { number, recycled }) => self.prepare(number, recycled)?,
                Some(Task::Remove(file)) => self.remove_or_keep(file)?,
            }
            worked = true;
        }
    }

    /// Whether a current segment of this length needs a successor soon.
    pub(crate) fn is_half_full(&self, bytes: u64) -> bool {
        bytes >= self.segment_bytes / 2
    }

    fn prepare(&self, number: u64, recycled: Option<SegmentEntry>) -> StorageResult<()> {
        // If the key management does not answer, the log continues with the version that it has.
        if let Ok(Some(key)) = self.encryption.current(&self.directory) {
            *self.next_key.lock() = Some(key);
        }
        let header = SegmentHeader {
            kind: SegmentKind::Prepared,
            instance: self.instance,
            number,
            first_lsn: self.end().0,
            previous: 0,
        };
        let (disk, directory) = (self.disk.as_ref(), &self.directory);
        // The leader reserves more space when less than half of the target is left. In this segment
        // it need not do so, because half of the target is reserved beyond the segment's size.
        let bytes = self.segment_bytes + self.policy.target_bytes / 2;
        let made = match recycled {
            Some(file) => NewSegment::recycle(disk, directory, file.number, header, bytes)
                // Removes the file, so that the next attempt creates a new one.
                .inspect_err(|_| drop(self.remove_or_keep(file))),
            None => {
                NewSegment::create(disk, directory, header, bytes).map_err(WriteError::into_inner)
            }
        };
        let made = made?;
        let mut pool = self.pool.lock();
        pool.ready = Some(made);
        Ok(())
    }

    fn remove_or_keep(&self, file: SegmentEntry) -> StorageResult<()> {
        let removed = self
            .disk
            .remove(&segment_path(&self.directory, file.number));
        match removed {
            // A failed preparation had already renamed the file.
            Err(teak_base::StorageError::NotFound { .. }) => Ok(()),
            Err(error) => {
                self.pool.lock().trimmed.push_front(file);
                Err(error)
            }
            Ok(()) => Ok(()),
        }
    }

    /// Removes the files that are not part of the log: those of trimmed segments,
    /// and the prepared one. Called when the engine is closed. Opening a log
    /// removes such files, too.
    ///
    /// # Errors
    /// `Io`.
    pub fn remove_spare_files(&self) -> StorageResult<()> {
        let _one_at_a_time = self.preparing.lock();
        let ready = self.pool.lock().ready.take();
        if let Some(ready) = ready {
            let number = ready.segment.header.number;
            drop(ready);
            self.disk.remove(&segment_path(&self.directory, number))?;
        }
        self.remove_trimmed()
    }

    /// Removes the files of all trimmed segments.
    pub(crate) fn remove_trimmed(&self) -> StorageResult<()> {
        loop {
            let file = self.pool.lock().trimmed.pop_front();
            match file {
                Some(file) => self.remove_or_keep(file)?,
                None => return Ok(()),
            }
        }
    }

    /// Waits until there is work for [`WriteAheadLog::prepare_segments`],
    /// [`WriteAheadLog::wake`] is called or the timeout has expired.
    pub fn wait_for_preparation(&self, timeout: Duration) {
        let mut pool = self.pool.lock();
        if !pool.is_woken {
            self.preparation_wanted.wait_for(&mut pool, timeout);
        }
        pool.is_woken = false;
    }

    pub(crate) fn wake_preparation(&self) {
        self.pool.lock().is_woken = true;
        self.preparation_wanted.notify_all();
    }
}
