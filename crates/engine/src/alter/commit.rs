//! Step 4 of an alteration: the commit, one log record for all tables.

use super::{
    Added, Alteration, AlterationPlan, Filling, PlannedIndex, make_durable, require_building,
};
use crate::catalogue::{AlteredTable, IndexEntry, encode_tables_altered};
use crate::core::EngineCore;
use crate::core::index::{Index, adopt_options};
use crate::core::log_sync::append_durable;
use crate::definition::{check_index, check_metadata};
use crate::error::{EngineError, EngineResult};
use crate::index_number::IndexNumber;
use crate::maintenance::flusher::{FlushContext, abandon_index};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use teak_base::{CommitSequence, FileId};
use teak_write_ahead_log::Record;

/// The change of one table by the commit.
struct TableOutcome {
    id: u64,
    metadata: Vec<u8>,
    entries: Vec<IndexEntry>,
    indexes: Vec<Arc<Index>>,
    dropped: Vec<Arc<Index>>,
    dropped_paths: Vec<PathBuf>,
    /// The file that contained the rows before the alteration.
    old_rows: Option<FileId>,
}

impl Alteration {
    /// Commits alterations of one or several tables atomically: recovery applies all of them or
    /// none. No transaction may write the tables during the call. Durable on return, unless the
    /// table is temporary.
    ///
    /// # Errors
    /// `InvalidArgument` when a plan does not fit its table, when a repair cannot be committed, or
    /// when several tables are altered and one is temporary; `NoSuchTable`; errors of flushing and
    /// of the log. After an error of the log other than `NoSpace`, the outcome is unknown until the
    /// engine is opened again. After all other errors the tables are unchanged.
    pub fn commit(mut alterations: Vec<(Self, AlterationPlan)>) -> EngineResult<()> {
        let Some((first, _)) = alterations.first() else {
            return Ok(());
        };
        let core = Arc::clone(&first.handle.core);
        if alterations.len() > 1
            && alterations
                .iter()
                .any(|(alteration, _)| alteration.handle.table.is_temporary())
        {
            return Err(EngineError::InvalidArgument(
                "a temporary table cannot be altered together with other tables".into(),
            ));
        }
        for (alteration, plan) in &alterations {
            alteration.check(plan)?;
            for added in &alteration.added {
                make_durable(&core, &added.index)?;
            }
        }
        let is_repair = |(one, _): &(Self, AlterationPlan)| one.repair.is_some();
        let is_repair = alterations.iter().any(is_repair);
        let dropped = log_and_install(&core, &mut alterations)?;
        core.signals.space_available();
        core.signals.wake_flushers();
        match is_repair {
            true => core.files.set_aside(&dropped),
            false => core.files.remove(&dropped),
        }
        Ok(())
    }

    fn check(&self, plan: &AlterationPlan) -> EngineResult<()> {
        let refuse = |text: &str| Err(EngineError::InvalidArgument(text.into()));
        check_metadata(&plan.metadata)?;
        let is_built = |added: &Added| matches!(added.filling, Filling::Built);
        if !self.added.iter().all(is_built) {
            return refuse("an added index is not built");
        }
        let is_verified = |added: &Added| {
            added
                .noted
                .as_ref()
                .is_none_or(|noted| noted.entries() == 0)
        };
        if !self.added.iter().all(is_verified) {
            return refuse("the keys of concurrent writers were not verified");
        }
        if !self.duplicates().is_empty() {
            return refuse("an added index lacks entries with duplicate keys");
        }
        let mut used = BTreeSet::new();
        for (position, index) in plan.indexes.iter().enumerate() {
            let number = match index {
                PlannedIndex::Kept(number, definition) => {
                    check_index(definition)?;
                    if *number >= self.first_added {
                        return refuse("the table has no such index to keep");
                    }
                    if number.is_rows() != (position == 0) {
                        return refuse(
                            "the rows' index must be the first, and no other kept index",
                        );
                    }
                    *number
                }
                PlannedIndex::Added(number) => {
                    let count = u32::try_from(self.added.len()).unwrap_or(u32::MAX);
                    if *number >= count {
                        return refuse("there is no such added index");
                    }
                    self.first_added.plus(*number)
                }
            };
            if !used.insert(number) {
                return refuse("the plan has an index twice");
            }
        }
        let has_all_added = (0..self.added.len()).all(|added| {
            u32::try_from(added).is_ok_and(|added| used.contains(&self.first_added.plus(added)))
        });
        if plan.indexes.is_empty() || !has_all_added {
            return refuse("the plan lacks the first index or an added one");
        }
        Ok(())
    }

    fn outcome(&self, metadata: Vec<u8>, plan: &AlterationPlan) -> EngineResult<TableOutcome> {
        let core = &self.handle.core;
        let table = &self.handle.table;
        // The files of a table are not closed while it is being altered.
        let closed = || EngineError::Internal("an altered table is closed".into());
        let open = table.open_indexes().ok_or_else(closed)?;
        let old = {
            let tables = core.tables.lock();
            let state = tables.by_id.get(&table.id);
            let Some(state) = state else {
                return Err(EngineError::NoSuchTable {
                    name: table.name().to_string(),
                });
            };
            state.entry.indexes.clone()
        };
        let mut outcome = TableOutcome {
            id: table.id,
            metadata,
            entries: Vec::with_capacity(plan.indexes.len()),
            indexes: Vec::with_capacity(plan.indexes.len()),
            dropped: Vec::new(),
            dropped_paths: Vec::new(),
            old_rows: old.first().map(|rows| rows.file),
        };
        for planned in &plan.indexes {
            let (number, mut entry) = self.planned_entry(planned, &old)?;
            let Some(index) = number.of(&open) else {
                return Err(EngineError::Internal("an open index is missing".into()));
            };
            index.update(&mut entry);
            outcome.entries.push(entry);
            outcome.indexes.push(Arc::clone(index));
        }
        let is_retained = |file| outcome.entries.iter().any(|entry| entry.file == file);
        for entry in old.iter().filter(|entry| !is_retained(entry.file)) {
            outcome.dropped_paths.push(entry.path.clone());
            // If the table was opened to be salvaged, only the index of its rows is open.
            let is_open = |index: &&Arc<Index>| index.entry.file == entry.file;
            outcome.dropped.extend(open.iter().find(is_open).cloned());
        }
        if self.repair.is_some() && outcome.dropped_paths.len() < old.len() {
            let text = "the repair of a table replaces all its indexes";
            return Err(EngineError::InvalidArgument(text.into()));
        }
        if table.lacks_records() {
            let text = "the repair has not read the retained log records of the table";
            return Err(EngineError::InvalidArgument(text.into()));
        }
        Ok(outcome)
    }

    /// The number of a planned index among the table's open indexes, and its new
    /// entry for the catalogue.
    fn planned_entry(
        &self,
        planned: &PlannedIndex,
        old: &[IndexEntry],
    ) -> EngineResult<(IndexNumber, IndexEntry)> {
        match planned {
            PlannedIndex::Kept(number, definition) => {
                let index = *number;
                let entry = index.of(old).ok_or(EngineError::NoSuchIndex { index })?;
                let entry = entry.redefined(definition);
                // Without the key, nothing could be written to the file.
                self.handle.core.files.require_key(&entry)?;
                Ok((index, entry))
            }
            PlannedIndex::Added(number) => {
                let index = self.first_added.plus(*number);
                let position = usize::try_from(*number).unwrap_or(usize::MAX);
                let added = self.added.get(position);
                let added = added.ok_or(EngineError::NoSuchIndex { index })?;
                Ok((index, added.index.entry.clone()))
            }
        }
    }

    /// Publishes the new indexes and metadata. Returns the paths of the dropped indexes.
    fn install(&mut self, mut outcome: TableOutcome) -> Vec<PathBuf> {
        let core: &EngineCore = &self.handle.core;
        let table = &self.handle.table;
        let added: BTreeSet<FileId> = self.added.iter().map(|one| one.index.entry.file).collect();
        let entries = outcome.entries.iter_mut();
        core.files
            .publish(entries.filter(|entry| added.contains(&entry.file)));
        let (mut replaces_all, mut had_records) = (false, false);
        {
            let mut tables = core.tables.lock();
            for index in &outcome.dropped {
                tables.created_at.remove(&index.entry.file);
            }
            for added in &self.added {
                let created_at = CommitSequence(added.index.created_at.load(Ordering::Acquire));
                tables.created_at.insert(added.index.entry.file, created_at);
            }
            if let Some(state) = tables.by_id.get_mut(&outcome.id) {
                let old = &state.entry.indexes;
                let is_old = |entry: &IndexEntry| old.iter().any(|old| old.file == entry.file);
                replaces_all = !outcome.entries.iter().any(is_old);
                if replaces_all && state.entry.retained.take().is_some() {
                    had_records = true;
                }
                state.entry.indexes.clone_from(&outcome.entries);
                state.entry.metadata.clone_from(&outcome.metadata);
            }
        }
        for added in &self.added {
            if let Some(build) = added.index.unique_build() {
                build.commit();
            }
        }
        for (entry, index) in outcome.entries.iter().zip(&outcome.indexes) {
            adopt_options(&index.tree, entry);
            if index.tree.backlog().has_work() {
                core.written.register(index);
                FlushContext::from(core).note_change(index);
            }
        }
        if let Some(rows) = outcome.entries.first()
            && outcome.old_rows != Some(rows.file)
        {
            // Until now, commits have counted the rows of the old file.
            let newest = core.transactions.newest();
            table.counters.rows.set(rows.file, newest, None);
        }
        *table.metadata.write() = outcome.metadata.into();
        table.set_indexes(outcome.indexes);
        table.building.store(0, Ordering::Release);
        if replaces_all {
            table.replaced();
        }
        for index in &outcome.dropped {
            abandon_index(core.into(), index);
        }
        let entry_of = |index: &Arc<Index>| index.entry.clone();
        let dropped: Vec<IndexEntry> = outcome.dropped.iter().map(entry_of).collect();
        if self.repair.is_none() {
            core.files.add_unowned(&dropped);
        }
        if had_records {
            let (rows, is_repair) = (outcome.old_rows, self.repair.is_some());
            core.retained
                .replace(&core.files, outcome.id, &table.name(), rows, is_repair);
        }
        // The table owns the new indexes now: dropping the alteration must not undo the change.
        self.added.clear();
        outcome.dropped_paths
    }
}

/// Logs the new indexes of all tables in one record, unless the table is temporary,
/// and installs them. Returns the paths of the dropped indexes.
fn log_and_install(
    core: &EngineCore,
    alterations: &mut [(Alteration, AlterationPlan)],
) -> EngineResult<Vec<PathBuf>> {
    let is_temporary = alterations
        .iter()
        .any(|(alteration, _)| alteration.handle.table.is_temporary());
    let _changes = core.lock_changes(is_temporary);
    for (alteration, _) in &*alterations {
        let mut added = alteration.added.iter();
        added.try_for_each(|added| require_building(&added.index))?;
    }
    let mut outcomes = Vec::with_capacity(alterations.len());
    for (alteration, plan) in &mut *alterations {
        outcomes.push(alteration.outcome(std::mem::take(&mut plan.metadata), plan)?);
    }
    let tables: Vec<AlteredTable> = alterations
        .iter()
        .zip(&outcomes)
        .map(|((alteration, _), outcome)| AlteredTable {
            id: outcome.id,
            metadata: outcome.metadata.clone(),
            indexes: outcome.entries.clone(),
            is_repair: alteration.repair.is_some(),
        })
        .collect();
    // The record may become durable even if the log returns an error.
    for (alteration, _) in &mut *alterations {
        alteration.is_committed = true;
    }
    let record = Record::TablesAltered {
        bytes: &encode_tables_altered(&tables),
    };
    if !is_temporary && let Err(error) = append_durable(&core.log, &record) {
        // After `NoSpace` the log has revoked the record, so the new files can be removed.
        for (alteration, _) in alterations {
            alteration.is_committed = !error.is_no_space();
        }
        return Err(error.into());
    }
    let mut dropped = Vec::new();
    for ((alteration, _), outcome) in alterations.iter_mut().zip(outcomes) {
        dropped.extend(alteration.install(outcome));
    }
    Ok(dropped)
}
