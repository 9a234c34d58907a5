//! Opens a log: replays it, then begins a new segment.

use crate::bound::LogBound;
use crate::format::{SegmentHeader, SegmentKind};
use crate::log::WriteAheadLog;
use crate::options::LogOptions;
use crate::reader::{Scanned, read_again, read_between, scan};
use crate::record::Record;
use crate::segment::{list_segments, segment_path};
use crate::segment_pool::SegmentPool;
use crate::segments::{SegmentEntry, SegmentList};
use crate::space::{SpaceCredit, SpacePolicy, SpaceReservation};
use crate::state::State;
use crate::statistics::LogCounters;
use crate::writer::Writer;
use parking_lot::{Condvar, Mutex};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use teak_base::{Lsn, StorageError, StorageResult};
use teak_disk::Disk;

impl WriteAheadLog {
    /// Opens the log of a directory: passes every record from position `from`
    /// on to `visit` in order, and then accepts new records after the last one.
    /// Creates a log if the directory has none and `from` is zero. A record is
    /// durable before it is visited.
    ///
    /// # Errors
    /// The visitor's errors; `Corrupt` when a durable part of the log is damaged
    /// or missing, or belongs to another instance; `UnsupportedFormat`; `Io`;
    /// `NoSpace`.
    pub fn open<E: From<StorageError>>(
        disk: &Arc<dyn Disk>,
        directory: &Path,
        options: LogOptions,
        from: Lsn,
        visit: &mut dyn FnMut(Lsn, Record<'_>) -> Result<(), E>,
    ) -> Result<Self, E> {
        let scanned = scan(disk.as_ref(), directory, &options, from, visit)?;
        Ok(Self::begin(disk, directory, &options, from, scanned)?)
    }

    /// Visits every record from position `from` on again. No record may be
    /// appended before the end of the call.
    ///
    /// # Errors
    /// As [`WriteAheadLog::open`].
    pub fn read_again<E: From<StorageError>>(
        &self,
        from: Lsn,
        visit: &mut dyn FnMut(Lsn, Record<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let disk = self.disk.as_ref();
        read_again(disk, &self.directory, self.identity(), from, visit)
    }

    /// Visits every record from `from` up to `until`, while other threads may append. All records
    /// before `until` must be durable, and no record from `from` on may be trimmed during the call.
    ///
    /// # Errors
    /// The visitor's errors; `Corrupt`, `Io`.
    pub fn read_between<E: From<StorageError>>(
        &self,
        from: Lsn,
        until: Lsn,
        visit: &mut dyn FnMut(Lsn, Record<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let listed = self.segments.lock().between(from.0, until.0);
        let disk = self.disk.as_ref();
        let range = (from, until);
        read_between(
            disk,
            &self.directory,
            self.identity(),
            &listed,
            range,
            visit,
        )
    }

    /// Begins a new segment after the end of the scanned log: existing files are never appended to.
    fn begin(
        disk: &Arc<dyn Disk>,
        directory: &Path,
        options: &LogOptions,
        from: Lsn,
        scanned: Option<Scanned>,
    ) -> StorageResult<Self> {
        let mut header = SegmentHeader {
            kind: SegmentKind::Begun,
            instance: options.instance,
            number: 1,
            first_lsn: 0,
            previous: 0,
        };
        let (unused, outdated) = match &scanned {
            None => (list_segments(disk.as_ref(), directory)?, Vec::new()),
            Some(scanned) => (scanned.unused.clone(), scanned.outdated.clone()),
        };
        for number in unused {
            disk.remove(&segment_path(directory, number))?;
        }
        let mut older = Vec::new();
        if let Some(scanned) = scanned {
            // Truncates after the last batch, which frees reserved space for the next segment.
            scanned.last.file.set_len(scanned.valid_bytes)?;
            header.number = scanned.last.header.number + 1;
            header.first_lsn = scanned.end;
            header.previous = scanned.chain;
            older = scanned.segments;
        }
        let mut segments = SegmentList::new(older);
        segments.push(SegmentEntry {
            number: header.number,
            first_lsn: header.first_lsn,
            bytes: 0,
            was_prepared: false,
        });
        let file_bytes = segments.totals().bytes;
        let pending_bytes = options.bounded_pending_bytes();
        let policy = SpacePolicy::new(options);
        let writer = Writer::begin(Arc::clone(disk), directory.to_path_buf(), options, header)?;
        let mut space = SpaceReservation::default();
        space.end_batch(writer.reserved_bytes(), 0);
        // Removed only now, so that an opening that fails earlier leaves these files.
        for number in outdated {
            disk.remove(&segment_path(directory, number))?;
        }
        let segment_bytes = options.segment_bytes;
        let log = Self {
            disk: Arc::clone(disk),
            directory: directory.to_path_buf(),
            instance: options.instance,
            encryption: options.encryption.clone(),
            next_key: writer.next_key(),
            pending_bytes,
            segment_bytes,
            segment_creation: options.segment_creation,
            policy,
            bound: LogBound::new(options.bytes_max, segment_bytes, pending_bytes),
            credit: SpaceCredit::default(),
            state: Mutex::new(State::new(header.first_lsn, from.0, space)),
            writer: Mutex::new(writer),
            durable: AtomicU64::new(header.first_lsn),
            space_available: Condvar::new(),
            pending_grew: Condvar::new(),
            segments: Mutex::new(segments),
            file_bytes: AtomicU64::new(file_bytes),
            used_bytes: AtomicU64::new(0),
            pool: Mutex::new(SegmentPool::new(header.number + 1)),
            preparing: Mutex::new(()),
            preparation_wanted: Condvar::new(),
            counters: LogCounters::default(),
        };
        log.publish_limit(&mut log.state.lock());
        Ok(log)
    }
}
