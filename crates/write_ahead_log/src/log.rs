//! The log as the engine sees it: append, group commit, replay, trim.
//!
//! Appending copies a record into the pending buffer under one short mutex.
//! Whoever needs the buffer in the file becomes the *leader*: it swaps the
//! buffer for an empty one, and compresses, writes and perhaps syncs it without
//! the mutex. Group commit:
//!
//! 1. A committer whose record is not durable becomes the leader if there is
//!    none and a sync may begin, and takes everything pending, its followers'
//!    records included.
//! 2. Otherwise it waits: with the group of the leader that took its record to
//!    sync it, else with the next group.
//! 3. A leader that has written its group leaves the file to the next one, which
//!    may be synced beside it: see `groups.rs`. Done with the sync, it wakes its
//!    whole group, and one of the next group to lead it.
//!
//! A full disk refuses records, not batches: see `room.rs`. Should a batch find
//! no space all the same, it stays in memory and is written later; a committer
//! whose record waits there takes it back.
//!
//! Any other failed write and every failed sync poisons the log for good,
//! because nobody can know what of it is on disk.

use crate::format::SegmentHeader;
use crate::groups::{Group, Groups, Waiter};
use crate::reader::{Scanned, Tail, scan};
use crate::record::{RECORD_BYTES_MAX, Record, make_void};
use crate::room::{Room, RoomPolicy, record_claim};
use crate::segment::{list_segments, segment_path};
use crate::writer::{WriteError, Writer};
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::{Duration, Instant};
use teak_base::limits::BLOCK_RAW_BYTES_MAX;
use teak_base::{Lsn, StorageError, StorageResult};
use teak_disk::{Disk, DiskFile};

/// How a log is kept.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct LogOptions {
    /// A segment that reached this size is followed by a new one.
    pub segment_bytes: u64,
    /// A caller that appends beyond this writes out first. At most 16 MiB.
    pub pending_bytes: usize,
    /// Names the instance; segments of another are refused.
    pub instance: u64,
}

impl LogOptions {
    /// The defaults: segments of 64 MiB, 8 MiB pending.
    #[must_use]
    pub fn new(instance: u64) -> Self {
        Self {
            segment_bytes: 64 << 20,
            pending_bytes: PENDING_BYTES_DEFAULT,
            instance,
        }
    }
}

const PENDING_BYTES_DEFAULT: usize = 8 << 20;
const PENDING_BYTES_MAX: usize = 16 << 20;

// A batch is what is pending: less than the limit, plus one record.
const _: () = assert!(PENDING_BYTES_MAX + RECORD_BYTES_MAX <= BLOCK_RAW_BYTES_MAX);

/// What a log did since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogStatistics {
    /// Bytes of records handed to the file, before compression.
    pub raw_bytes: u64,
    /// Bytes written to segment files.
    pub written_bytes: u64,
    /// Batches written.
    pub batches: u64,
    /// Successful syncs of segment files.
    pub syncs: u64,
    /// Calls of [`WriteAheadLog::sync`] that had to wait or lead.
    pub sync_calls: u64,
    /// Bytes of all segment files there are.
    pub segments_bytes: u64,
    /// Number of segment files.
    pub segments: u64,
}

/// Counters of one open log.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) raw_bytes: AtomicU64,
    pub(crate) written_bytes: AtomicU64,
    pub(crate) batches: AtomicU64,
    pub(crate) syncs: AtomicU64,
    sync_calls: AtomicU64,
}

/// An open log. Shared by all threads; starts none.
#[derive(Debug)]
pub struct WriteAheadLog {
    disk: Arc<dyn Disk>,
    directory: PathBuf,
    pending_bytes: usize,
    policy: RoomPolicy,
    state: Mutex<State>,
    /// Locked by the leader alone, so never waited for.
    writer: Mutex<Writer>,
    /// Stream position before which everything is durable.
    durable: AtomicU64,
    /// Appenders wait here while both buffers are full, or there is no room.
    room: Condvar,
    /// The caller of `wait_for_pending` waits here.
    filling: Condvar,
    segments: Mutex<VecDeque<SegmentSize>>,
    counters: Counters,
}

#[derive(Clone, Copy, Debug)]
struct SegmentSize {
    number: u64,
    first_lsn: u64,
    bytes: u64,
}

#[derive(Debug)]
struct State {
    /// Records not yet taken by a leader.
    pending: Vec<u8>,
    /// Stream position of the pending buffer's first byte.
    pending_start: u64,
    /// Room in the file, of which every pending record has its share.
    room: Room,
    /// Whether a batch waits for space.
    batch_waits: bool,
    /// Whether somebody leads: writes to the file, or syncs alone.
    leading: bool,
    groups: Groups,
    /// Whether somebody waits in `filling`.
    awaited: bool,
    /// The first failure.
    failed: Option<Failure>,
}

#[derive(Clone, Debug)]
struct Failure {
    path: PathBuf,
    reason: String,
}

impl State {
    fn end(&self) -> u64 {
        self.pending_start + self.pending.len() as u64
    }

    /// Whether anything is not in the file yet.
    fn has_work(&self) -> bool {
        self.batch_waits || !self.pending.is_empty()
    }

    fn check(&self) -> StorageResult<()> {
        match &self.failed {
            None => Ok(()),
            Some(failure) => Err(StorageError::Poisoned {
                path: failure.path.clone(),
                first: failure.reason.clone(),
            }),
        }
    }
}

impl WriteAheadLog {
    /// Opens the log of a directory, hands every record from position `from`
    /// on to `visit` in order, and is ready to append behind the last one. A
    /// directory without a log gets one. A record is durable when it is
    /// visited.
    ///
    /// # Errors
    /// The visitor's own; `Corrupt` when a durable part of the log is damaged
    /// or missing, or is of another instance; `UnsupportedFormat`; `Io`;
    /// `NoSpace`.
    pub fn open<E: From<StorageError>>(
        disk: &Arc<dyn Disk>,
        directory: &Path,
        options: LogOptions,
        from: Lsn,
        visit: &mut dyn FnMut(Lsn, Record<'_>) -> Result<(), E>,
    ) -> Result<Self, E> {
        let scanned = scan(
            disk.as_ref(),
            directory,
            Some(options.instance),
            Some(from),
            Tail::Settle,
            visit,
        )?;
        Ok(Self::begin(disk, directory, options, scanned)?)
    }

    /// Begins a new segment behind what a scan found: no file is ever appended
    /// to after a crash.
    fn begin(
        disk: &Arc<dyn Disk>,
        directory: &Path,
        options: LogOptions,
        scanned: Option<Scanned>,
    ) -> StorageResult<Self> {
        let mut header = SegmentHeader {
            instance: options.instance,
            number: 1,
            first_lsn: 0,
            previous: 0,
        };
        let mut segments = VecDeque::new();
        let (unfinished, outdated) = match &scanned {
            None => (list_segments(disk.as_ref(), directory)?, Vec::new()),
            Some(scanned) => (
                scanned.unfinished.into_iter().collect(),
                scanned.outdated.clone(),
            ),
        };
        for number in unfinished {
            disk.remove(&segment_path(directory, number))?;
        }
        if let Some(scanned) = scanned {
            // The room behind its last batch is the next segment's now.
            scanned.last.file.set_len(scanned.valid_bytes)?;
            header.number = scanned.last.header.number + 1;
            header.first_lsn = scanned.end;
            header.previous = scanned.chain;
            for (number, first_lsn, bytes) in scanned.segments {
                segments.push_back(SegmentSize {
                    number,
                    first_lsn,
                    bytes,
                });
            }
        }
        segments.push_back(SegmentSize {
            number: header.number,
            first_lsn: header.first_lsn,
            bytes: 0,
        });
        let pending_bytes = options.pending_bytes.clamp(1, PENDING_BYTES_MAX);
        let policy = RoomPolicy::new(pending_bytes);
        let writer = Writer::begin(
            Arc::clone(disk),
            directory.to_path_buf(),
            options.segment_bytes,
            header,
            policy,
        )?;
        let mut room = Room::default();
        room.end_batch(writer.room(), 0);
        // Not earlier: what replaces them is durable only now.
        for number in outdated {
            disk.remove(&segment_path(directory, number))?;
        }
        Ok(Self {
            disk: Arc::clone(disk),
            directory: directory.to_path_buf(),
            pending_bytes,
            policy,
            state: Mutex::new(State {
                pending: Vec::new(),
                pending_start: header.first_lsn,
                room,
                batch_waits: false,
                leading: false,
                groups: Groups::default(),
                awaited: false,
                failed: None,
            }),
            writer: Mutex::new(writer),
            durable: AtomicU64::new(header.first_lsn),
            room: Condvar::new(),
            filling: Condvar::new(),
            segments: Mutex::new(segments),
            counters: Counters::default(),
        })
    }

    /// Appends a record to the pending buffer and returns its position. It is
    /// durable after [`WriteAheadLog::sync`] of that position.
    ///
    /// # Errors
    /// `TooLarge` beyond [`RECORD_BYTES_MAX`]; `NoSpace` when the disk has no
    /// room for the record; `Poisoned` after a failure; the failure itself when
    /// this call had to write out. The record is not in the log then.
    pub fn append(&self, record: &Record<'_>) -> StorageResult<Lsn> {
        let kept = self.policy.kept_from(record);
        self.append_to(&mut self.state.lock(), record, kept)
    }

    /// Like [`WriteAheadLog::append`], for a record that nobody relies on: it
    /// takes nothing of the room kept for important ones.
    ///
    /// # Errors
    /// As [`WriteAheadLog::append`].
    pub fn append_spare(&self, record: &Record<'_>) -> StorageResult<Lsn> {
        let kept = self.policy.kept_from_spare();
        self.append_to(&mut self.state.lock(), record, kept)
    }

    fn append_to(
        &self,
        state: &mut MutexGuard<'_, State>,
        record: &Record<'_>,
        kept: u64,
    ) -> StorageResult<Lsn> {
        let bytes = record.bytes_max();
        if bytes > RECORD_BYTES_MAX {
            return Err(StorageError::TooLarge {
                what: "log record",
                bytes: bytes as u64,
                limit: RECORD_BYTES_MAX as u64,
            });
        }
        let claim = record_claim(bytes);
        loop {
            state.check()?;
            if state.pending.len() < self.pending_bytes && state.room.claim(claim, kept) {
                break;
            }
            if state.leading {
                self.room.wait(state);
            } else {
                self.lead(state, false, claim + kept)?;
            }
        }
        let lsn = state.end();
        record.encode(&mut state.pending);
        if state.awaited && state.pending.len() >= self.pending_bytes / 8 {
            state.awaited = false;
            self.filling.notify_one();
        }
        Ok(Lsn(lsn))
    }

    /// Makes a record that no batch has taken to the file void. False when it
    /// is in the file. Nobody leads.
    fn take_back(&self, state: &mut MutexGuard<'_, State>, lsn: Lsn) -> bool {
        match lsn.0.checked_sub(state.pending_start) {
            Some(start) => {
                usize::try_from(start).is_ok_and(|start| make_void(&mut state.pending, start))
            }
            None => self.writer.lock().make_void(lsn.0),
        }
    }

    /// The position that the next record will get.
    #[must_use]
    pub fn end(&self) -> Lsn {
        Lsn(self.state.lock().end())
    }

    /// The position before which everything is durable.
    #[must_use]
    pub fn durable(&self) -> Lsn {
        Lsn(self.durable.load(Acquire))
    }

    /// Makes the record that begins at `lsn`, and everything before it,
    /// durable. A position at the end or beyond asks for all there is now.
    ///
    /// # Errors
    /// `NoSpace` while the disk has no room for what is pending; it stays, and
    /// may be made durable later. Any other failure of the write or sync, told to
    /// every waiter, and `Poisoned` after an earlier one: the record may or may
    /// not survive then.
    pub fn sync(&self, lsn: Lsn) -> StorageResult<()> {
        if self.durable.load(Acquire) > lsn.0 {
            return Ok(());
        }
        self.sync_to(lsn).map_err(|(error, _)| error)
    }

    /// Like [`WriteAheadLog::sync`], for a record whose caller gives up what it
    /// stands for when the disk is full.
    ///
    /// # Errors
    /// As [`WriteAheadLog::sync`]. After `NoSpace` the record is void: nobody
    /// will ever read it.
    pub fn sync_or_take_back(&self, lsn: Lsn) -> StorageResult<()> {
        // The state stays locked from a failed try to the taking back.
        match self.sync_to(lsn) {
            Err((error, mut state)) if error.is_no_space() => {
                if self.take_back(&mut state, lsn) {
                    return Err(error);
                }
                drop(state);
                // It is in the file, so a sync needs no more space for it.
                self.sync(lsn)
            }
            outcome => outcome.map_err(|(error, _)| error),
        }
    }

    /// An error comes with the state as it found it: nobody leads.
    fn sync_to(&self, lsn: Lsn) -> Result<(), (StorageError, MutexGuard<'_, State>)> {
        self.counters.sync_calls.fetch_add(1, Relaxed);
        let mut state = self.state.lock();
        let wanted = lsn.0.saturating_add(1).min(state.end());
        let mut gathers = state.groups.are_many();
        while self.durable.load(Acquire) < wanted {
            if let Err(error) = state.check() {
                return Err((error, state));
            }
            let group = state.groups.group_of(wanted);
            let is_next = group == state.groups.next();
            if is_next && !state.leading && state.groups.may_sync() {
                if std::mem::take(&mut gathers) {
                    // Those just woken are about to come with their next records.
                    MutexGuard::unlocked(&mut state, std::thread::yield_now);
                    continue;
                }
                match self.lead(&mut state, true, 0) {
                    // What is behind the wanted record found no space.
                    Err(error) if self.durable.load(Acquire) < wanted => {
                        return Err((error, state));
                    }
                    _ => continue,
                }
            }
            let waiter = state.groups.wait(group);
            drop(state);
            waiter.wait();
            // Most are done, and need not meet in the lock.
            if self.durable.load(Acquire) >= wanted {
                return Ok(());
            }
            state = self.state.lock();
        }
        Ok(())
    }

    /// Writes what is pending to the file, without making it durable. Returns
    /// whether there was anything to write. For the engine's log thread.
    ///
    /// # Errors
    /// As [`WriteAheadLog::sync`].
    pub fn write_pending(&self) -> StorageResult<bool> {
        let mut state = self.state.lock();
        state.check()?;
        while state.leading {
            self.room.wait(&mut state);
            state.check()?;
        }
        if !state.has_work() {
            return Ok(false);
        }
        self.lead(&mut state, false, 0)?;
        Ok(true)
    }

    /// Waits until a good deal is pending, [`WriteAheadLog::wake`] is called or
    /// the time is over. Returns whether anything is pending.
    pub fn wait_for_pending(&self, timeout: Duration) -> bool {
        let mut state = self.state.lock();
        if state.pending.len() < self.pending_bytes / 8 {
            state.awaited = true;
            self.filling.wait_for(&mut state, timeout);
            state.awaited = false;
        }
        state.has_work()
    }

    /// Ends a [`WriteAheadLog::wait_for_pending`] early.
    pub fn wake(&self) {
        let _state = self.state.lock();
        self.filling.notify_all();
    }

    /// Removes the segments that hold nothing from `before` on. The newest
    /// segment always stays.
    ///
    /// # Errors
    /// `Io`; the segments not yet removed stay known and readable.
    pub fn trim(&self, before: Lsn) -> StorageResult<()> {
        let mut segments = self.segments.lock();
        while let (Some(oldest), Some(next)) = (segments.front(), segments.get(1)) {
            if next.first_lsn > before.0 {
                break;
            }
            self.disk
                .remove(&segment_path(&self.directory, oldest.number))?;
            segments.pop_front();
        }
        Ok(())
    }

    /// The oldest position that the segment files still hold.
    #[must_use]
    pub fn oldest(&self) -> Lsn {
        Lsn(self.segments.lock().front().map_or(0, |s| s.first_lsn))
    }

    /// What the log did since it was opened.
    #[must_use]
    pub fn statistics(&self) -> LogStatistics {
        let (mut count, mut bytes) = (0, 0);
        for segment in self.segments.lock().iter() {
            count += 1;
            bytes += segment.bytes;
        }
        LogStatistics {
            raw_bytes: self.counters.raw_bytes.load(Relaxed),
            written_bytes: self.counters.written_bytes.load(Relaxed),
            batches: self.counters.batches.load(Relaxed),
            syncs: self.counters.syncs.load(Relaxed),
            sync_calls: self.counters.sync_calls.load(Relaxed),
            segments_bytes: bytes,
            segments: count,
        }
    }

    /// Leads one group: writes everything pending and, when `sync` is set,
    /// makes it durable; sees to it that there is room for `least` bytes behind
    /// it. A batch that waits for space goes first, alone. The state is unlocked
    /// meanwhile. Nobody leads when this is called, nor, after `NoSpace`, when it
    /// returns.
    fn lead(&self, state: &mut MutexGuard<'_, State>, sync: bool, least: u64) -> StorageResult<()> {
        assert!(!state.leading, "two leaders of one log");
        let mut writer = self.writer.lock();
        if writer.raw.is_empty() {
            std::mem::swap(&mut state.pending, &mut writer.raw);
            state.pending_start += writer.raw.len() as u64;
            writer.claim = state.room.begin_batch();
        }
        state.leading = true;
        let group = sync.then(|| state.groups.begin(writer.taken()));
        self.room.notify_all();
        let mut leader = Leader {
            log: self,
            state,
            group,
            leads: true,
            durable: self.durable.load(Acquire),
            outcome: None,
        };
        let written = MutexGuard::unlocked(leader.state, || {
            writer.learn_durable(self.durable.load(Acquire));
            self.write_out(&mut writer, least)
        });
        let (room, waiting) = (writer.room(), writer.claim);
        leader.state.room.end_batch(room, waiting);
        leader.state.batch_waits = !writer.raw.is_empty();
        let path = writer.path();
        // What was written before a batch that found no space is synced too.
        let synced = match group {
            Some(group) if !matches!(written, Err(WriteError::Broken(_))) => {
                // Nobody else may lead until a batch without space is taken back.
                let beside = written.is_ok().then(|| writer.sync_handle(group.handle));
                match beside.flatten() {
                    Some(file) => {
                        let end = writer.end();
                        drop(writer);
                        leader.sync_beside(group, &*file, end)
                    }
                    None => {
                        let synced = MutexGuard::unlocked(leader.state, || {
                            let synced = writer.sync(&self.counters);
                            self.durable.fetch_max(writer.durable(), Release);
                            synced
                        });
                        drop(writer);
                        synced
                    }
                }
            }
            _ => {
                drop(writer);
                Ok(())
            }
        };
        // The writer is free by now: to wake others, the state is unlocked once more.
        leader.outcome = Some(synced.and(written).map_err(|error| (path, error)));
        leader.finish()
    }

    /// The leader's work on the file, but for the sync.
    fn write_out(&self, writer: &mut Writer, least: u64) -> Result<(), WriteError> {
        let written = writer.write(&self.counters);
        {
            let mut segments = self.segments.lock();
            for (number, first_lsn) in writer.begun.drain(..) {
                segments.push_back(SegmentSize {
                    number,
                    first_lsn,
                    bytes: 0,
                });
            }
            if let Some(segment) = segments.back_mut() {
                segment.bytes = writer.offset();
            }
        }
        // A new segment comes behind one that is durable.
        self.durable.fetch_max(writer.durable(), Release);
        written.and_then(|()| {
            match writer.reserve(least, self.policy.wanted_bytes) {
                // Nobody waits for it: whoever needs it is told.
                Err(error) if least > 0 => Err(WriteError::Full(error)),
                _ => Ok(()),
            }
        })
    }

    /// One of those who wait for a leader, to be woken, if there may be one.
    fn next_leader(state: &mut State) -> Option<Arc<Waiter>> {
        (!state.leading && state.groups.may_sync())
            .then(|| state.groups.take_next())
            .flatten()
    }
}

/// Ends a leadership however the leader's work ended: a panic of the disk
/// below must not leave the followers waiting.
struct Leader<'l, 'g, 's> {
    log: &'l WriteAheadLog,
    state: &'s mut MutexGuard<'g, State>,
    /// The group that is made durable, if one is.
    group: Option<Group>,
    /// Whether it leads still, and does not merely sync beside others.
    leads: bool,
    /// What was durable before.
    durable: u64,
    outcome: Option<Result<(), (PathBuf, WriteError)>>,
}

impl Leader<'_, '_, '_> {
    /// Syncs what is written, up to `end`, while others write.
    fn sync_beside(
        &mut self,
        group: Group,
        file: &dyn DiskFile,
        end: u64,
    ) -> Result<(), WriteError> {
        let log = self.log;
        self.leads = false;
        self.state.leading = false;
        self.state.groups.begin_sync(group, Instant::now());
        log.room.notify_all();
        let next = WriteAheadLog::next_leader(self.state);
        let synced = MutexGuard::unlocked(self.state, || {
            next.iter().for_each(|waiter| waiter.wake());
            file.sync()
        });
        // After another's failure nobody can know what is on disk.
        synced
            .and_then(|()| self.state.check())
            .map_err(WriteError::Broken)?;
        log.counters.syncs.fetch_add(1, Relaxed);
        log.durable.fetch_max(end, Release);
        Ok(())
    }

    fn finish(self) -> StorageResult<()> {
        match &self.outcome {
            Some(Err((_, WriteError::Full(error) | WriteError::Broken(error)))) => {
                Err(error.clone())
            }
            _ => Ok(()),
        }
    }
}

impl Drop for Leader<'_, '_, '_> {
    fn drop(&mut self) {
        let log = self.log;
        if self.leads {
            self.state.leading = false;
        }
        let mut is_full = false;
        let failure = match self.outcome.take() {
            Some(Ok(())) => None,
            // Whoever needs the space asks for it anew, and is told.
            Some(Err((_, WriteError::Full(_)))) => {
                is_full = true;
                None
            }
            Some(Err((path, WriteError::Broken(error)))) => Some((path, error.to_string())),
            None => Some((log.directory.clone(), "the writer panicked".into())),
        };
        let groups = &mut self.state.groups;
        let mut woken = match self.group {
            Some(group) => groups.end(group, Instant::now()),
            // A new segment has made durable what somebody may wait for.
            None if log.durable.load(Acquire) > self.durable => groups.take_all(groups.next()),
            None => Vec::new(),
        };
        woken.extend(WriteAheadLog::next_leader(self.state));
        // Appenders that found no room have some, or lead now.
        log.room.notify_all();
        if let Some((path, reason)) = failure {
            if self.state.failed.is_none() {
                self.state.failed = Some(Failure { path, reason });
            }
            woken.extend(self.state.groups.take_everybody());
            log.filling.notify_all();
        }
        let wake = || woken.iter().for_each(|waiter| waiter.wake());
        // Nobody may lead before a batch without space is taken back.
        if is_full || woken.is_empty() {
            wake();
        } else {
            MutexGuard::unlocked(self.state, wake);
        }
    }
}
