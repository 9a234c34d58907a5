//! Step 1 of an alteration: the files of the new indexes.

use super::prepared_writes;
use super::{Added, AddedIndex, Alteration, EntryOrder, Filling};
use crate::core::EngineCore;
use crate::core::index::Index;
use crate::core::running_jobs::RunningKind;
use crate::core::sorts::{SortMemory, sorter_options};
use crate::core::table::Table;
use crate::core::unique_build::UniqueBuild;
use crate::definition::{INDEXES_MAX, IndexDefinition, check_index};
use crate::engine::Engine;
use crate::error::{EngineError, EngineResult};
use crate::index_number::IndexNumber;
use crate::name::TableName;
use crate::table_handle::TableHandle;
use crate::tables::new_index_entries;
use crate::transaction::Duplicate;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use teak_bulk_load::{Interrupted, SortedLoad, Sorter};
use teak_transactions::WaitError;

/// # Altering tables
impl Engine {
    /// Begins to alter a table. Long operations call `interrupted` regularly and
    /// stop when it returns true.
    ///
    /// # Errors
    /// `InvalidArgument` when another alteration of the table is in progress, or the
    /// added indexes are not valid; `Wait(Timeout)` when indexes are added and a
    /// prepared transaction that no handle owns has written the table;
    /// `NoSuchTable`; errors of opening the table's files; `NoSpace`, `Io`.
    pub fn begin_alteration(
        &self,
        table: &TableHandle,
        added: &[AddedIndex],
        interrupted: Box<dyn Fn() -> bool + Send>,
    ) -> EngineResult<Alteration> {
        let core = &self.core;
        for index in added {
            check_index(&index.definition)?;
        }
        let handle = table.share();
        let table = Arc::clone(&handle.table);
        if table.altering.swap(true, Ordering::AcqRel) {
            return Err(EngineError::InvalidArgument(
                "the table is being altered already".into(),
            ));
        }
        // From here on, an error drops `alteration`, which undoes all changes.
        let mut alteration = Alteration {
            handle,
            added: Vec::new(),
            first_added: IndexNumber::ROWS,
            interrupted,
            duplicate: Duplicate::default(),
            repair: None,
            is_committed: false,
            running: None,
        };
        // While `open` exists, the files cannot be closed.
        let open = alteration.handle.indexes()?;
        if !added.is_empty() {
            refuse_prepared_writes(core, &open, &*alteration.interrupted)?;
        }
        let _changes = core.lock_changes(table.is_temporary());
        alteration.first_added = count_indexes(core, &table, open.len(), added.len())?;
        alteration.added = create_indexes(core, &table, added)?;
        let first = alteration.added.first().map(|one| &one.index);
        alteration.running = first.map(|index| core.running_jobs.begin(RunningKind::Build, index));
        let added = alteration.added.iter().map(|one| &one.index);
        let indexes: Vec<Arc<Index>> = open.iter().chain(added).cloned().collect();
        table
            .building
            .store(alteration.added.len(), Ordering::Release);
        table.set_indexes(indexes);
        Ok(alteration)
    }
}

/// Returns an error for a table with entries of prepared transactions that no handle owns.
fn refuse_prepared_writes(
    core: &EngineCore,
    indexes: &[Arc<Index>],
    interrupted: &Interrupted,
) -> EngineResult<()> {
    let Some(rows) = indexes.first() else {
        return Ok(());
    };
    let Some((min, max)) = rows.tree.write_id_range() else {
        return Ok(());
    };
    let writes = core.prepared.orphaned_writes(min, max);
    if prepared_writes::contains(rows, writes, interrupted)? {
        return Err(WaitError::Timeout.into());
    }
    Ok(())
}

/// Returns the number of the first added index, which follows the `count` indexes of the table.
/// Fails if the table was dropped, or if `added` more indexes would exceed the maximum.
fn count_indexes(
    core: &EngineCore,
    table: &Table,
    count: usize,
    added: usize,
) -> EngineResult<IndexNumber> {
    if !core.tables.lock().by_id.contains_key(&table.id) {
        return Err(EngineError::NoSuchTable {
            name: table.name().to_string(),
        });
    }
    if count + added > INDEXES_MAX {
        return Err(EngineError::InvalidArgument(format!(
            "a table has at most {INDEXES_MAX} indexes"
        )));
    }
    Ok(IndexNumber(u32::try_from(count).unwrap_or(u32::MAX)))
}

/// Creates the files of the new indexes and makes the files and their directory entries durable,
/// unless the table is temporary.
fn create_indexes(
    core: &Arc<EngineCore>,
    table: &Table,
    added: &[AddedIndex],
) -> EngineResult<Vec<Added>> {
    let name = TableName::parse(&table.name())?;
    let definitions: Vec<IndexDefinition> =
        added.iter().map(|index| index.definition.clone()).collect();
    let entries = new_index_entries(&core.tables, &core.log, &name, definitions.into_iter())?;
    let trees = core.files.create(&entries)?;
    let is_sorted = |index: &AddedIndex| index.entry_order == EntryOrder::Any;
    let memory = added
        .iter()
        .any(is_sorted)
        .then(|| SortMemory::take(core, 1));
    let created = entries.into_iter().zip(trees).zip(added);
    let created = created.map(|((entry, tree), wanted)| {
        tree.await_base();
        let index = Index::new(entry, tree, &table.damaged);
        let filling = match &memory {
            Some(memory) if is_sorted(wanted) => {
                let of_base = if wanted.unique {
                    let noted = sorter_options(core, &index.entry, memory.eighths(1, added.len()));
                    index.set_unique_build(UniqueBuild::new(Sorter::new(noted)));
                    memory.eighths(7, added.len())
                } else {
                    memory.part(added.len())
                };
                let options = sorter_options(core, &index.entry, of_base);
                Filling::AnyOrder(Box::new(SortedLoad::new(options)))
            }
            _ => Filling::ByKey(Box::default()),
        };
        Added {
            index: Arc::new(index),
            unique: wanted.unique,
            filling,
            noted: None,
        }
    });
    Ok(created.collect())
}
