//! An open file of the fault disk.

use crate::fault_disk::errors::{injected, no_space, not_found};
use crate::fault_disk::names::ContentId;
use crate::fault_disk::plan::{SyncFailure, WriteFailure};
use crate::fault_disk::state::State;
use parking_lot::Mutex;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use teak_base::{StorageError, StorageResult};
use teak_disk::DiskFile;

#[derive(Debug)]
pub(super) struct FaultFile {
    state: Arc<Mutex<State>>,
    id: ContentId,
    path: PathBuf,
}

impl FaultFile {
    /// A handle. The caller has already counted it in `Content::handles`.
    pub fn new(state: Arc<Mutex<State>>, id: ContentId, path: &Path) -> Self {
        Self {
            state,
            id,
            path: path.to_path_buf(),
        }
    }
}

impl DiskFile for FaultFile {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> StorageResult<()> {
        let mut state = self.state.lock();
        state.plan.power("read", &self.path)?;
        if state.plan.reads.next().is_some() {
            return Err(injected("read", &self.path));
        }
        let content = state.content(self.id, &self.path)?;
        let found = usize::try_from(offset)
            .ok()
            .and_then(|start| content.bytes().get(start..start.checked_add(buffer.len())?));
        match found {
            Some(found) => {
                buffer.copy_from_slice(found);
                state.plan.bytes_read += buffer.len() as u64;
                Ok(())
            }
            None => Err(StorageError::corrupt(
                &self.path,
                offset,
                "the block extends past the end of the file",
            )),
        }
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> StorageResult<()> {
        let mut state = self.state.lock();
        state.plan.power("write", &self.path)?;
        state.plan.write_to("write", &self.path)?;
        let cut = state.plan.change();
        let failure = state.plan.writes.next();
        let fits = state.length_max(self.id).saturating_sub(offset);
        let (length, outcome) = if let Some(failure) = failure {
            let part = state.random.below(bytes.len() as u64 + 1);
            match failure {
                WriteFailure::Nothing => (0, Err(injected("write", &self.path))),
                WriteFailure::Partial => (part, Err(injected("write", &self.path))),
                WriteFailure::Whole => (bytes.len() as u64, Err(injected("write", &self.path))),
                // Writes only a part, because the disk is full.
                WriteFailure::NoSpace => (
                    part.min((bytes.len() as u64).saturating_sub(1)),
                    Err(no_space(&self.path)),
                ),
            }
        } else if cut {
            (bytes.len() as u64, Err(injected("write", &self.path)))
        } else if fits < bytes.len() as u64 {
            (fits, Err(no_space(&self.path)))
        } else {
            (bytes.len() as u64, Ok(()))
        };
        let length = usize::try_from(length.min(fits)).unwrap_or(bytes.len());
        let written = bytes.get(..length).unwrap_or(bytes);
        let content = state.content(self.id, &self.path)?;
        if content.write(written, offset) {
            outcome
        } else {
            Err(no_space(&self.path))
        }
    }

    fn sync(&self) -> StorageResult<()> {
        let mut state = self.state.lock();
        state.plan.power("sync", &self.path)?;
        state.plan.sync_of(&self.path)?;
        state.plan.sync_calls += 1;
        let cut = state.plan.change();
        let failure = state.plan.syncs.next();
        let State {
            contents, random, ..
        } = &mut *state;
        let content = contents.get_mut(&self.id);
        let content = content.ok_or_else(|| not_found(&self.path))?;
        match failure {
            None if !cut => {
                content.sync();
                return Ok(());
            }
            Some(SyncFailure::Dropped) => content.drop_unsynced(random),
            Some(SyncFailure::NoSpace) => {
                content.drop_unsynced(random);
                return Err(no_space(&self.path));
            }
            Some(SyncFailure::Kept) | None => {}
        }
        Err(injected("sync", &self.path))
    }

    fn len(&self) -> StorageResult<u64> {
        let mut state = self.state.lock();
        state.plan.power("stat", &self.path)?;
        let content = state.content(self.id, &self.path)?;
        Ok(content.bytes().len() as u64)
    }

    fn set_len(&self, bytes: u64) -> StorageResult<()> {
        let mut state = self.state.lock();
        state.plan.power("truncate", &self.path)?;
        state.plan.write_to("truncate", &self.path)?;
        let cut = state.plan.change();
        let failure = state.plan.writes.next();
        let outcome = match failure {
            Some(WriteFailure::NoSpace) => return Err(no_space(&self.path)),
            Some(WriteFailure::Nothing | WriteFailure::Partial) => {
                return Err(injected("truncate", &self.path));
            }
            Some(WriteFailure::Whole) => Err(injected("truncate", &self.path)),
            None if cut => Err(injected("truncate", &self.path)),
            None => Ok(()),
        };
        let length = state.content(self.id, &self.path)?.bytes().len() as u64;
        if bytes > length && bytes > state.length_max(self.id)
            || !state.content(self.id, &self.path)?.set_length(bytes)
        {
            return Err(no_space(&self.path));
        }
        outcome
    }

    fn reserve(&self, bytes: u64) -> StorageResult<()> {
        let mut state = self.state.lock();
        state.plan.power("reserve", &self.path)?;
        state.plan.write_to("reserve", &self.path)?;
        let cut = state.plan.change();
        if bytes > state.length_max(self.id) {
            return Err(no_space(&self.path));
        }
        state.content(self.id, &self.path)?.reserve(bytes);
        if cut {
            return Err(injected("reserve", &self.path));
        }
        Ok(())
    }

    fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for FaultFile {
    fn drop(&mut self) {
        let mut state = self.state.lock();
        if let Some(content) = state.contents.get_mut(&self.id) {
            content.handles -= 1;
        }
        state.forget_unreachable(self.id);
    }
}
