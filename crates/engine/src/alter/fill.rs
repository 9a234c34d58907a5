//! Steps 2 and 3 of an alteration: the entries of the new indexes.

use super::sorter::{Interrupted, Merge};
use super::{Alteration, Filling, make_durable, require_building};
use crate::core::EngineCore;
use crate::core::index::Index;
use crate::error::{EngineError, EngineResult};
use crate::index_number::IndexNumber;
use crate::transaction::Duplicate;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use teak_tree::PausedLoad;

/// Entries between two progress reports.
const PROGRESS_ENTRIES: u64 = 16 * 1024;

/// Receives an entry with a duplicate key; an error ends the build.
type OnDuplicate<'a> = dyn FnMut(&[u8], &[u8]) -> EngineResult<()> + 'a;

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
        match &mut found.filling {
            Filling::AnyOrder(sorter) => sorter.add(key, value, &*self.interrupted),
            Filling::ByKey(load) => load.add(core, &found.index, key, value),
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
        let core = Arc::clone(&self.handle.core);
        let total = self.added.iter().map(|added| added.filling.entries()).sum();
        let mut done = 0;
        for (number, added) in (0u32..).zip(&mut self.added) {
            let index = &added.index;
            match std::mem::replace(&mut added.filling, Filling::Built) {
                Filling::Built => continue,
                Filling::ByKey(load) => {
                    done += load.entries();
                    load.finish(&core, index)?;
                }
                Filling::AnyOrder(sorter) => {
                    let merge = sorter.finish(&*self.interrupted)?;
                    let written = &mut || {
                        done += 1;
                        if done % PROGRESS_ENTRIES == 0 {
                            progress(done, total);
                        }
                    };
                    let interrupted = &*self.interrupted;
                    let mut on_duplicate = |key: &[u8], value: &[u8]| {
                        let duplicate = Duplicate {
                            index: IndexNumber(number),
                            key: key.to_vec(),
                            value: value.to_vec(),
                            is_locked: false,
                        };
                        match &mut self.repair {
                            _ if !added.unique => Err(EngineError::InvalidArgument(
                                "a key was added twice to an index that is not unique".into(),
                            )),
                            Some(repair) if repair.duplicates.len() < repair.duplicates_max => {
                                repair.duplicates.push(duplicate);
                                Ok(())
                            }
                            _ => {
                                self.duplicate = duplicate;
                                Err(EngineError::DuplicateKey)
                            }
                        }
                    };
                    load(&core, index, merge, interrupted, written, &mut on_duplicate)?;
                    let mut repair = self.repair.iter();
                    if repair.any(|repair| !repair.duplicates.is_empty()) {
                        break;
                    }
                }
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

/// Writes sorted entries as the leaf data of a new index. Calls `on_duplicate` for
/// an entry with the same key as the one before it. If that returns `Ok`, the entry
/// is left out.
fn load(
    core: &EngineCore,
    index: &Index,
    mut merge: Merge,
    interrupted: &Interrupted,
    written: &mut dyn FnMut(),
    on_duplicate: &mut OnDuplicate<'_>,
) -> EngineResult<()> {
    let mut load = index.tree.bulk_load(PausedLoad::default());
    let mut last: Option<Vec<u8>> = None;
    while let Some((key, value)) = merge.entry(interrupted)? {
        require_building(index)?;
        match &mut last {
            Some(last) if last.as_slice() == key => {
                on_duplicate(key, value)?;
                merge.advance()?;
                continue;
            }
            Some(last) => {
                last.clear();
                last.extend_from_slice(key);
            }
            None => last = Some(key.to_vec()),
        }
        core.checked(index, load.push(key, value))?;
        merge.advance()?;
        written();
    }
    core.checked(index, load.finish())
}
