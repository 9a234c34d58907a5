//! Writing entries that are added in key order as runs of a tree, on a worker thread.

use crate::cancel::{CHECK_ENTRIES, CancelOnDrop, Cancelled, Interrupted};
use crate::error::{BulkLoadError, BulkLoadResult};
use crate::source::{MemoryRun, Source};
use crate::workers::{Background, Worker};
use std::fmt;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use teak_tree::{BulkLoad, PausedLoad, Tree};

/// A load that a worker writes. Dropping it stops the worker and frees the space.
pub(crate) struct RunStream {
    // The first fields: they stop the worker, for which the last one waits.
    _cancel: CancelOnDrop,
    entries: SyncSender<MemoryRun>,
    writing: Background<BulkLoadResult<PausedLoad>>,
}

impl fmt::Debug for RunStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunStream").finish_non_exhaustive()
    }
}

impl RunStream {
    /// Continues a load on a claimed thread.
    pub(crate) fn start(worker: Worker, tree: &Arc<Tree>, load: PausedLoad) -> Self {
        // One part waits while another is written.
        let (entries, parts) = sync_channel(1);
        let cancel = CancelOnDrop::default();
        let (tree, cancelled) = (Arc::clone(tree), cancel.flag());
        let writing = Background::start(worker, move || {
            write_parts(tree.bulk_load(load), &parts, &cancelled)
        });
        Self {
            _cancel: cancel,
            entries,
            writing,
        }
    }

    /// Passes entries that follow all earlier ones. Waits while the worker is behind.
    pub(crate) fn push(
        &mut self,
        mut part: MemoryRun,
        interrupted: &Interrupted,
    ) -> BulkLoadResult<()> {
        loop {
            part = match self.entries.try_send(part) {
                Ok(()) => return Ok(()),
                Err(TrySendError::Full(part) | TrySendError::Disconnected(part)) => part,
            };
            if self.writing.wait_briefly(interrupted)? {
                return Err(self.failure());
            }
        }
    }

    /// Why the worker has ended too early.
    fn failure(&mut self) -> BulkLoadError {
        match self.writing.take_early() {
            Some(Err(error)) => error,
            _ => BulkLoadError::Internal("a thread that wrote entries has ended"),
        }
    }

    /// Waits until all entries are written.
    pub(crate) fn finish(self, interrupted: &Interrupted) -> BulkLoadResult<PausedLoad> {
        let Self {
            _cancel,
            entries,
            writing,
        } = self;
        drop(entries);
        writing.wait(interrupted)?
    }
}

fn write_parts(
    mut load: BulkLoad<'_>,
    parts: &Receiver<MemoryRun>,
    cancelled: &Cancelled,
) -> BulkLoadResult<PausedLoad> {
    for part in parts {
        write_part(&mut load, part, &|| cancelled.is_set())?;
    }
    load.pause().map_err(BulkLoadError::Index)
}

/// Writes entries that follow all earlier ones.
pub(crate) fn write_part(
    load: &mut BulkLoad<'_>,
    part: MemoryRun,
    stops: &dyn Fn() -> bool,
) -> BulkLoadResult<()> {
    let mut source = Source::of_run(part);
    let mut written = 0u64;
    while source.advance()?.is_some() {
        if written.is_multiple_of(CHECK_ENTRIES) && stops() {
            return Err(BulkLoadError::Interrupted);
        }
        if let Some((key, value)) = source.entry() {
            load.push(key, value).map_err(BulkLoadError::Index)?;
        }
        written += 1;
    }
    Ok(())
}
