//! Applying the entries of log records: on the calling thread, or on threads.
//!
//! With threads, the reader of the log distributes the entries: all entries of
//! one index go to one worker, in the order of the log. Workers insert them into
//! memtables. Only the reader handles write ids and table changes; before a change
//! of tables other than of a counter, it waits until the workers have applied
//! everything. A worker may insert an entry after the reader has committed its
//! write id. This is harmless: an entry stores only the id, and readers of the
//! entry look up the status of the id.
//!
//! Flushing threads flush frozen memtables. When none is frozen and too many bytes
//! are due to be moved down, they merge runs. A memtable is frozen by its worker,
//! between two entries of its index, so that it contains exactly the entries before
//! a log position.

use super::flushing::Flushing;
use crate::core::index::Index;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use teak_base::{Lsn, Operation, StorageError, StorageResult, WriteId};

/// Bytes of entries that a worker gets in one chunk.
const CHUNK_BYTES: usize = 256 << 10;

/// Maximum number of chunks that wait for a worker.
const CHUNKS_WAITING: usize = 4;

/// One entry of a log record.
pub(super) struct ReplayEntry<'a> {
    pub lsn: Lsn,
    pub write_id: WriteId,
    pub action: Action,
    pub key: &'a [u8],
    /// The value, or the end of a range.
    pub value: &'a [u8],
}

#[derive(Clone, Copy)]
pub(super) enum Action {
    Write(Operation),
    DeleteRange,
}

impl ReplayEntry<'_> {
    pub(super) fn apply(&self, index: &Index) {
        let guard = index.tree.write_guard();
        guard.set_lsn(self.lsn);
        match self.action {
            Action::Write(operation) => {
                guard.insert(self.write_id, operation, self.key, self.value);
            }
            Action::DeleteRange => guard.delete_range(self.write_id, self.key, self.value),
        }
    }
}

/// An entry in a chunk. Its key and value follow those of the entry before.
struct ChunkEntry {
    /// Position of the index in the chunk's list.
    index: usize,
    lsn: Lsn,
    write_id: WriteId,
    action: Action,
    key_bytes: usize,
    value_bytes: usize,
}

#[derive(Default)]
struct Chunk {
    indexes: Vec<Arc<Index>>,
    entries: Vec<ChunkEntry>,
    bytes: Vec<u8>,
    /// An index to freeze after the entries, and the log position after them.
    freeze: Option<(Arc<Index>, Lsn)>,
    /// Dropped when the chunk is applied.
    applied: Option<SyncSender<()>>,
}

impl Chunk {
    fn push(&mut self, index: &Arc<Index>, entry: &ReplayEntry<'_>) {
        let known = self.indexes.iter().position(|it| Arc::ptr_eq(it, index));
        let number = known.unwrap_or_else(|| {
            self.indexes.push(Arc::clone(index));
            self.indexes.len() - 1
        });
        self.bytes.extend_from_slice(entry.key);
        self.bytes.extend_from_slice(entry.value);
        self.entries.push(ChunkEntry {
            index: number,
            lsn: entry.lsn,
            write_id: entry.write_id,
            action: entry.action,
            key_bytes: entry.key.len(),
            value_bytes: entry.value.len(),
        });
    }

    fn is_full(&self) -> bool {
        self.bytes.len() + self.entries.len() * size_of::<ChunkEntry>() >= CHUNK_BYTES
    }

    fn apply(self) {
        let mut bytes = self.bytes.as_slice();
        for entry in &self.entries {
            let Some(index) = self.indexes.get(entry.index) else {
                continue;
            };
            let (key, rest) = bytes.split_at(entry.key_bytes);
            let (value, rest) = rest.split_at(entry.value_bytes);
            bytes = rest;
            let entry = ReplayEntry {
                lsn: entry.lsn,
                write_id: entry.write_id,
                action: entry.action,
                key,
                value,
            };
            entry.apply(index);
        }
        if let Some((index, boundary)) = self.freeze {
            index.tree.freeze(|| boundary);
        }
    }
}

struct Worker {
    chunk: Chunk,
    sender: SyncSender<Chunk>,
    thread: JoinHandle<()>,
}

/// The threads of a replay.
pub(super) struct Workers {
    workers: Vec<Worker>,
    pub flushing: Flushing,
}

fn ended() -> StorageError {
    StorageError::corrupt("teak.log".as_ref(), 0, "a thread of the recovery panicked")
}

fn work(chunks: &Receiver<Chunk>) {
    for chunk in chunks {
        chunk.apply();
    }
}

impl Workers {
    /// Starts `threads` workers and as many flushing threads.
    pub(super) fn start(threads: usize, flushing: Flushing) -> StorageResult<Self> {
        let mut workers = Vec::with_capacity(threads);
        for number in 0..threads {
            let (sender, receiver) = sync_channel(CHUNKS_WAITING);
            let thread = std::thread::Builder::new()
                .name(format!("teak-replay-{number}"))
                .spawn(move || work(&receiver))
                .map_err(|error| StorageError::from_io("start", "a thread".as_ref(), error))?;
            workers.push(Worker {
                chunk: Chunk::default(),
                sender,
                thread,
            });
        }
        Ok(Self { workers, flushing })
    }

    fn worker_of(&mut self, index: &Index) -> StorageResult<&mut Worker> {
        let count = self.workers.len().max(1) as u64;
        let number = usize::try_from(index.entry.file.0 % count).unwrap_or(0);
        self.workers.get_mut(number).ok_or_else(ended)
    }

    /// Passes an entry to the worker of its index.
    pub(super) fn apply(
        &mut self,
        index: &Arc<Index>,
        entry: &ReplayEntry<'_>,
    ) -> StorageResult<()> {
        let worker = self.worker_of(index)?;
        worker.chunk.push(index, entry);
        if worker.chunk.is_full() {
            worker.send()?;
        }
        Ok(())
    }

    /// Freezes the memtable of an index after the entries passed so far, which
    /// end before `boundary`.
    pub(super) fn freeze(&mut self, index: &Arc<Index>, boundary: Lsn) -> StorageResult<()> {
        let worker = self.worker_of(index)?;
        worker.chunk.freeze = Some((Arc::clone(index), boundary));
        worker.send()
    }

    /// Waits until everything passed so far is applied.
    pub(super) fn wait(&mut self) -> StorageResult<()> {
        let (sender, receiver) = sync_channel(1);
        for worker in &mut self.workers {
            worker.chunk.applied = Some(sender.clone());
            worker.send()?;
        }
        drop(sender);
        // Ends when the last chunk has been dropped.
        let _ = receiver.recv();
        Ok(())
    }

    /// Ends the threads, after everything is applied.
    pub(super) fn stop(&mut self) -> StorageResult<()> {
        let waited = self.wait();
        let joined = self.join();
        waited.and(joined).and(self.flushing.stop())
    }

    fn join(&mut self) -> StorageResult<()> {
        let mut outcome = Ok(());
        for Worker { sender, thread, .. } in self.workers.drain(..) {
            drop(sender);
            if thread.join().is_err() {
                outcome = Err(ended());
            }
        }
        outcome
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        // Threads are left only after a failure of the replay, which the caller returns.
        let _ = self.join();
    }
}

impl Worker {
    fn send(&mut self) -> StorageResult<()> {
        let chunk = std::mem::take(&mut self.chunk);
        self.sender.send(chunk).map_err(|_| ended())
    }
}
