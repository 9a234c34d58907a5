//! Steps 2 and 3 of an alteration: the entries of the new indexes.

use super::{Alteration, Filling, Repair, make_durable, require_building};
use crate::core::index::Index;
use crate::core::sorts::{added_twice, checked, is_report_due};
use crate::error::{EngineError, EngineResult};
use crate::index_number::IndexNumber;
use crate::transaction::Duplicate;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use teak_bulk_load::{LoadError, LoadObserver};
use teak_disk::pay_for_io;

impl Alteration {
    /// Adds the entry of a row to an added index.
    ///
    /// # Errors
    /// `InvalidArgument` when there is no such index, it is built already, or the key is not in the
    /// order that was requested; `Wait(Interrupted)`; errors of sorting or writing.
    pub fn add(&mut self, added: u32, key: &[u8], value: &[u8]) -> EngineResult<()> {
        let core = &self.handle.core;
        let position = usize::try_from(added).unwrap_or(usize::MAX);
        let Some(found) = self.added.get_mut(position) else {
            return Err(accepts_no_entries(added));
        };
        require_building(&found.index)?;
        pay_for_io();
        match &mut found.filling {
            Filling::AnyOrder(load) => {
                let added = load.add(&found.index.tree, key, value, &*self.interrupted);
                checked(core, &found.index, added)
            }
            Filling::ByKey(load) => {
                let added = load.add(&found.index.tree, key, value);
                checked(core, &found.index, added)
            }
            Filling::Built => Err(accepts_no_entries(added)),
        }
    }

    /// Sorts the added entries and writes them. Calls `progress` regularly with
    /// the number of entries written and their total. The build of a repair returns
    /// after the first index with [duplicates](Alteration::duplicates).
    ///
    /// # Errors
    /// `DuplicateKey`, after which [`Alteration::duplicate`] returns the entry;
    /// `InvalidArgument` when an index that is not unique got a key twice;
    /// `Wait(Interrupted)`, `Storage`. After an error the alteration can only be dropped.
    pub fn build(&mut self, progress: &mut dyn FnMut(u64, u64)) -> EngineResult<()> {
        let running = self
            .running
            .as_ref()
            .map(|running| Arc::clone(&running.job));
        let mut progress = |done, total| {
            if let Some(job) = &running {
                job.set_progress(done, total);
            }
            progress(done, total);
        };
        let built = self.build_indexes(&mut progress);
        // An index whose building a writer has ended.
        if matches!(built, Err(EngineError::DuplicateKey)) {
            self.require_building()?;
        }
        built
    }

    fn build_indexes(&mut self, progress: &mut dyn FnMut(u64, u64)) -> EngineResult<()> {
        self.require_building()?;
        let core = Arc::clone(&self.handle.core);
        let total = self.added.iter().map(|added| added.filling.entries()).sum();
        let mut done = 0;
        for (number, added) in (0u32..).zip(&mut self.added) {
            let index = &added.index;
            match std::mem::replace(&mut added.filling, Filling::Built) {
                Filling::Built => continue,
                Filling::ByKey(load) => {
                    done += load.entries();
                    checked(&core, index, load.finish(&index.tree))?;
                }
                Filling::AnyOrder(load) => {
                    let mut build = Build {
                        index,
                        number: IndexNumber(number),
                        unique: added.unique,
                        repair: self.repair.as_mut(),
                        duplicate: &mut self.duplicate,
                        done,
                        total,
                        progress,
                    };
                    let loaded = load.finish(&index.tree, &*self.interrupted, &mut build);
                    done = build.done;
                    match loaded {
                        Ok(base) => index.tree.install_base(base),
                        Err(LoadError::Caller(error)) => return Err(error),
                        Err(LoadError::Failed(error)) => checked(&core, index, Err(error))?,
                    }
                    let mut repair = self.repair.iter();
                    if repair.any(|repair| !repair.duplicates.is_empty()) {
                        break;
                    }
                }
            }
            if let Some(build) = index.unique_build() {
                added.noted = build.base_added().map(Box::new);
            }
            // The commit makes the index durable again. It has little to write then, which keeps
            // the time short in which the caller blocks writers.
            make_durable(&core, index)?;
            // Older snapshots must not read the index: it contains rows that were committed after
            // them, and lacks the versions that they see.
            let newest = core.transactions.newest();
            index.created_at.store(newest.0, Ordering::Release);
        }
        progress(done, total);
        Ok(())
    }
}

fn accepts_no_entries(added: u32) -> EngineError {
    EngineError::InvalidArgument(format!("no added index {added} accepts entries"))
}

/// The build of one index from sorted entries.
struct Build<'a> {
    index: &'a Index,
    /// Its position in the list of added indexes.
    number: IndexNumber,
    unique: bool,
    repair: Option<&'a mut Repair>,
    duplicate: &'a mut Duplicate,
    /// Entries written, of this and earlier indexes.
    done: u64,
    total: u64,
    progress: &'a mut dyn FnMut(u64, u64),
}

impl LoadObserver for Build<'_> {
    type Error = EngineError;

    fn check(&mut self) -> EngineResult<()> {
        pay_for_io();
        require_building(self.index)
    }

    fn written(&mut self, entries: u64) {
        let before = self.done;
        self.done += entries;
        if is_report_due(before, self.done) {
            (self.progress)(self.done, self.total);
        }
    }

    fn duplicate(&mut self, key: &[u8], value: &[u8]) -> EngineResult<()> {
        let duplicate = Duplicate::found(self.number, key, value);
        match &mut self.repair {
            _ if !self.unique => Err(added_twice()),
            Some(repair) if repair.duplicates.len() < repair.duplicates_max => {
                repair.duplicates.push(duplicate);
                Ok(())
            }
            _ => {
                *self.duplicate = duplicate;
                Err(EngineError::DuplicateKey)
            }
        }
    }
}
