//! The commit of alterations: one log record for all of them.

use super::{Added, Alteration, AlterationPlan, Filling, PlannedIndex, make_durable};
use crate::catalogue::{AlteredTable, IndexEntry, encode_tables_altered};
use crate::core::EngineCore;
use crate::core::index::{Index, adopt_options};
use crate::core::log_sync::append_durable;
use crate::definition::{METADATA_BYTES_MAX, check_index};
use crate::error::{EngineError, EngineResult};
use crate::table_handle::no_such_index;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use teak_base::CommitSequence;
use teak_write_ahead_log::Record;

/// What becomes of one table.
struct Outcome {
    id: u64,
    metadata: Vec<u8>,
    entries: Vec<IndexEntry>,
    indexes: Vec<Arc<Index>>,
    dropped: Vec<Arc<Index>>,
    dropped_paths: Vec<PathBuf>,
}

impl Alteration {
    /// Commits alterations of tables of one engine together: after a crash all
    /// of them have happened or none has. Nobody may write the tables
    /// meanwhile. Durable on return.
    ///
    /// # Errors
    /// `InvalidArgument` when a plan does not fit its table; those of flushing,
    /// after which the tables are as before, and `NoSpace` likewise. After
    /// another error of the log the outcome shows when the engine is opened
    /// again.
    pub fn commit(mut alterations: Vec<(Self, AlterationPlan)>) -> EngineResult<()> {
        let Some((first, _)) = alterations.first() else {
            return Ok(());
        };
        let inner = Arc::clone(&first.handle.inner);
        for (alteration, plan) in &alterations {
            alteration.check(plan)?;
            for added in &alteration.added {
                make_durable(&inner, &added.index)?;
            }
        }
        let dropped = {
            let _changes = inner.table_changes.lock();
            let mut outcomes = Vec::with_capacity(alterations.len());
            for (alteration, plan) in &mut alterations {
                outcomes.push(alteration.outcome(std::mem::take(&mut plan.metadata), plan)?);
            }
            let tables: Vec<AlteredTable> = outcomes
                .iter()
                .map(|outcome| AlteredTable {
                    id: outcome.id,
                    metadata: outcome.metadata.clone(),
                    indexes: outcome.entries.clone(),
                })
                .collect();
            // The record may reach the disk whatever the log says then.
            for (alteration, _) in &mut alterations {
                alteration.ended = true;
            }
            let record = Record::TablesAltered {
                bytes: &encode_tables_altered(&tables),
            };
            if let Err(error) = append_durable(&inner.log, &record) {
                // A full disk made the record void: the new files can go.
                for (alteration, _) in &mut alterations {
                    alteration.ended = !error.is_no_space();
                }
                return Err(error.into());
            }
            let mut dropped = Vec::new();
            for ((alteration, _), outcome) in alterations.iter_mut().zip(outcomes) {
                dropped.extend(alteration.install(outcome));
            }
            dropped
        };
        inner.written.remove_dropped();
        inner.signals.space_available();
        inner.signals.wake_flushers();
        inner.files.remove(&dropped);
        Ok(())
    }

    fn check(&self, plan: &AlterationPlan) -> EngineResult<()> {
        let refuse = |text: &str| Err(EngineError::InvalidArgument(text.into()));
        if plan.metadata.len() > METADATA_BYTES_MAX {
            return refuse("the metadata is too long");
        }
        let is_built = |added: &Added| matches!(added.filling, Filling::Built);
        if !self.added.iter().all(is_built) {
            return refuse("an added index is not built");
        }
        let mut used = BTreeSet::new();
        for (place, index) in plan.indexes.iter().enumerate() {
            let number = match index {
                PlannedIndex::Kept(number, definition) => {
                    check_index(definition)?;
                    if *number >= self.first {
                        return refuse("a kept index is not the table's");
                    }
                    if (*number == 0) != (place == 0) {
                        return refuse("the rows stand in the first index, and nothing else does");
                    }
                    *number
                }
                PlannedIndex::Added(number) => {
                    let count = u32::try_from(self.added.len()).unwrap_or(u32::MAX);
                    if *number >= count {
                        return refuse("there is no such added index");
                    }
                    self.first + *number
                }
            };
            if !used.insert(number) {
                return refuse("an index stands twice in the plan");
            }
        }
        let all_added = (0..self.added.len()).all(|added| {
            u32::try_from(added).is_ok_and(|added| used.contains(&(self.first + added)))
        });
        if plan.indexes.is_empty() || !all_added {
            return refuse("the plan leaves out the first index, or an added one");
        }
        Ok(())
    }

    fn outcome(&self, metadata: Vec<u8>, plan: &AlterationPlan) -> EngineResult<Outcome> {
        let inner = &self.handle.inner;
        let core = &self.handle.table;
        let open = core.indexes.load_full();
        let old = {
            let tables = inner.tables.lock();
            let state = tables.by_id.get(&core.id);
            let Some(state) = state else {
                return Err(EngineError::NoSuchTable {
                    name: core.name().to_string(),
                });
            };
            state.entry.indexes.clone()
        };
        let mut outcome = Outcome {
            id: core.id,
            metadata,
            entries: Vec::with_capacity(plan.indexes.len()),
            indexes: Vec::with_capacity(plan.indexes.len()),
            dropped: Vec::new(),
            dropped_paths: Vec::new(),
        };
        for planned in &plan.indexes {
            let (number, mut entry) = match planned {
                PlannedIndex::Kept(number, definition) => {
                    let place = usize::try_from(*number).unwrap_or(usize::MAX);
                    let Some(entry) = old.get(place) else {
                        return Err(no_such_index(*number));
                    };
                    (place, entry.redefined(definition))
                }
                PlannedIndex::Added(number) => {
                    let place = usize::try_from(*number).unwrap_or(usize::MAX);
                    let Some(added) = self.added.get(place) else {
                        return Err(no_such_index(*number));
                    };
                    let first = usize::try_from(self.first).unwrap_or(usize::MAX);
                    (first + place, added.index.entry.clone())
                }
            };
            let Some(index) = open.get(number) else {
                return Err(EngineError::Internal("an open index is missing".into()));
            };
            entry.oldest_write_id = index.oldest_write_id(|| inner.log.end());
            outcome.entries.push(entry);
            outcome.indexes.push(Arc::clone(index));
        }
        for (entry, index) in old.iter().zip(open.iter()) {
            if !outcome.entries.iter().any(|kept| kept.file == entry.file) {
                outcome.dropped.push(Arc::clone(index));
                outcome.dropped_paths.push(entry.path.clone());
            }
        }
        Ok(outcome)
    }

    /// Makes the outcome what everybody finds. Returns files to remove.
    fn install(&mut self, outcome: Outcome) -> Vec<PathBuf> {
        let inner: &EngineCore = &self.handle.inner;
        let core = &self.handle.table;
        {
            let mut tables = inner.tables.lock();
            for index in &outcome.dropped {
                tables.created_at.remove(&index.entry.file);
            }
            for added in &self.added {
                let born = CommitSequence(added.index.created_at.load(Ordering::Acquire));
                tables.created_at.insert(added.index.entry.file, born);
            }
            if let Some(state) = tables.by_id.get_mut(&outcome.id) {
                state.entry.indexes.clone_from(&outcome.entries);
                state.entry.metadata.clone_from(&outcome.metadata);
            }
        }
        for (entry, index) in outcome.entries.iter().zip(&outcome.indexes) {
            adopt_options(&index.tree, entry);
            if index.tree.pending_work_bytes() > 0 {
                inner.written.register(index);
            }
        }
        *core.metadata.write() = outcome.metadata.into();
        core.indexes.store(Arc::new(outcome.indexes));
        core.building.store(0, Ordering::Release);
        for index in &outcome.dropped {
            index.dropped.store(true, Ordering::Release);
            inner.counts.add_closed(index);
        }
        // They are the table's now.
        self.added.clear();
        outcome.dropped_paths
    }
}
