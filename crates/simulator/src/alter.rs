//! Alters tables in place: adds, drops and reorders indexes, or rebuilds all of them. Other steps
//! run between the start and the commit of an alteration; their writes also maintain the indexes
//! that are being built. Some alterations are repairs, as of a damaged table: all indexes are built again from what
//! is salvaged, which must be all committed rows.

use crate::outcome::{Bug, Checked, Flow};
use crate::rows::{OwnedEntry, Row, Shape};
use crate::sessions::Altering;
use crate::simulation::Simulation;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use teak_engine::{
    AddedIndex, Alteration, AlterationPlan, EngineError, EngineResult, EntryOrder, IndexNumber,
    Isolation, PlannedIndex, ReadMode, TableHandle,
};
use teak_model::{IndexSource, Key, TableId, Value};

/// The values of the rows of an intact table, as a repair finds them.
fn salvage(handle: &TableHandle) -> EngineResult<Vec<Value>> {
    let mut values = Vec::new();
    let mut findings = Vec::new();
    handle.salvage(
        Box::new(|| false),
        &mut |row| {
            values.push(row.value.to_vec());
            Ok(())
        },
        &mut |text| findings.push(text.to_owned()),
    )?;
    match findings.pop() {
        None => Ok(values),
        Some(text) => Err(EngineError::Internal(text)),
    }
}

impl Simulation {
    /// Begins to alter a table, or continues an alteration.
    pub(crate) fn alter_table(&mut self) -> Checked {
        if self.altering.is_some() {
            return self.continue_altering();
        }
        let Some(table) = self.draw_idle_table() else {
            return Ok(Flow::On);
        };
        if let Err(flow) = self.open_handle(table)? {
            return Ok(flow);
        }
        let mut shape = self.shape(table)?;
        let old: BTreeSet<u8> = shape.kinds.iter().copied().collect();
        let mut kinds = vec![0];
        for kind in [1, 2, 3] {
            if self.random.one_in(2) {
                let position = 1 + self.draw(kinds.len()).unwrap_or(0);
                kinds.insert(position, kind);
            }
        }
        // Sometimes rebuilds all indexes, including index 0, which contains the rows.
        let rebuild = self.random.one_in(3);
        let repairs = rebuild && self.random.one_in(3);
        if repairs {
            kinds.clone_from(&shape.kinds);
            self.note_replaced(table)?;
        }
        let added: Vec<u8> = kinds
            .iter()
            .copied()
            .filter(|kind| rebuild || !old.contains(kind))
            .collect();
        if self.random.one_in(2) {
            shape.codec = self.swarm.shape(&mut self.random).codec;
            self.shapes.insert(table, shape.clone());
        }
        self.note(|| format!("  alter {table:?} to {kinds:?}"));
        let definitions: Vec<AddedIndex> = added
            .iter()
            .map(|kind| AddedIndex {
                definition: shape.index(*kind),
                unique: *kind < 2,
                entry_order: if *kind == 0 {
                    EntryOrder::ByKey
                } else {
                    EntryOrder::Any
                },
            })
            .collect();
        let Some(handle) = self.handles.get(&table) else {
            return Ok(Flow::On);
        };
        let begun = self
            .engine()?
            .begin_alteration(handle, &definitions, Box::new(|| false));
        let mut alteration = match begun {
            Ok(alteration) => alteration,
            // After a crash the model does not know the tables of a prepared transaction.
            Err(EngineError::Wait(_)) if self.has_unowned_prepared() => return Ok(Flow::On),
            Err(error) => return self.fault("beginning to alter", &error),
        };
        if repairs {
            alteration.repair(0);
        }
        // The tests of the engine build unique indexes concurrently with writes.
        let in_one_step = added.iter().any(|kind| *kind < 2) || self.random.one_in(2);
        self.altering = Some(Altering {
            table,
            alteration,
            kinds,
            added,
            repairs,
            built: None,
        });
        while in_one_step && self.altering.is_some() {
            if self.continue_altering()? == Flow::Reopen {
                return Ok(Flow::Reopen);
            }
        }
        Ok(Flow::On)
    }

    fn continue_altering(&mut self) -> Checked {
        let Some(mut altering) = self.altering.take() else {
            return Ok(Flow::On);
        };
        if altering.built.is_some() {
            return self.commit_alteration(altering);
        }
        let shape = self.shape(altering.table)?;
        self.note(|| format!("  build the indexes of {:?}", altering.table));
        match self.build(&mut altering, &shape)? {
            Ok(()) => {
                altering.built = Some(self.model.now());
                self.altering = Some(altering);
                Ok(Flow::On)
            }
            Err(EngineError::DuplicateKey) => {
                let rows = self.committed_rows(altering.table)?;
                let keys: BTreeSet<u64> = rows.iter().map(|row| row.unique).collect();
                if keys.len() == rows.len() {
                    return Err(Bug("a unique index was refused without a duplicate".into()));
                }
                Ok(Flow::On)
            }
            Err(error) => {
                drop(altering);
                self.fault("building an index", &error)
            }
        }
    }

    /// Reads the rows and adds their entries to the new indexes.
    fn build(&self, altering: &mut Altering, shape: &Shape) -> Checked<EngineResult<()>> {
        let Some(handle) = self.handles.get(&altering.table) else {
            let name = self.model.name(altering.table);
            return match self.engine()?.open_table(name) {
                Ok(handle) => self.fill(altering, shape, &handle),
                Err(error) => Ok(Err(error)),
            };
        };
        self.fill(altering, shape, handle)
    }

    fn fill(
        &self,
        altering: &mut Altering,
        shape: &Shape,
        handle: &TableHandle,
    ) -> Checked<EngineResult<()>> {
        let mut transaction = self.engine()?.begin(Isolation::RepeatableRead);
        let mut read = || -> EngineResult<Vec<Value>> {
            let mut values = Vec::new();
            let mut cursor = transaction.cursor(handle, IndexNumber::ROWS, ReadMode::Snapshot)?;
            let mut row = cursor.first(&mut transaction)?;
            while let Some(found) = row {
                values.push(found.value.to_vec());
                row = cursor.next(&mut transaction)?;
            }
            Ok(values)
        };
        let values = match altering.repairs {
            true => salvage(handle),
            false => read(),
        };
        let values = match values {
            Ok(values) => values,
            Err(error) => return Ok(Err(error)),
        };
        for value in values {
            let row = Row::decode(&value).ok_or_else(|| Bug("no row".into()))?;
            for (number, kind) in (0u32..).zip(&altering.added) {
                let entry = shape.entry(&row, 0, *kind);
                let added = altering.alteration.add(number, &entry.key, &entry.value);
                if let Err(error) = added {
                    return Ok(Err(error));
                }
            }
        }
        Ok(altering.alteration.build(&mut |_, _| {}))
    }

    fn commit_alteration(&mut self, altering: Altering) -> Checked {
        let table = altering.table;
        if self.random.one_in(6) {
            self.note(|| format!("  cancel altering {table:?}"));
            return Ok(Flow::On);
        }
        if !self.is_idle(table) {
            self.altering = Some(altering);
            return Ok(Flow::On);
        }
        let old = self.shape(table)?;
        let new = Shape {
            kinds: altering.kinds.clone(),
            ..old.clone()
        };
        let (mut sources, mut planned) = (Vec::new(), Vec::new());
        for kind in &altering.kinds {
            let position = old.kinds.iter().position(|before| before == kind);
            if let Some(position) = position.filter(|_| !altering.added.contains(kind)) {
                let number = u32::try_from(position).unwrap_or(u32::MAX);
                sources.push(IndexSource::Kept(position));
                planned.push(PlannedIndex::Kept(IndexNumber(number), new.index(*kind)));
                continue;
            }
            let number = altering.added.iter().position(|added| added == kind);
            let number = number.and_then(|number| u32::try_from(number).ok());
            let rows = self.committed_rows(table)?;
            let entries = rows.iter().map(|row| old.entry(row, 0, *kind));
            sources.push(IndexSource::Added {
                entries: entries.map(|entry| (entry.key, entry.value)).collect(),
                created_at: altering.built.unwrap_or_default(),
            });
            planned.push(PlannedIndex::Added(number.unwrap_or(u32::MAX)));
        }
        self.note(|| format!("  commit of altering {table:?}"));
        let plan = AlterationPlan {
            indexes: planned,
            metadata: new.metadata(table),
        };
        let outcome = Alteration::commit(vec![(altering.alteration, plan)]);
        let events = self.model.events();
        self.model.alter_table(table, sources);
        match outcome {
            Ok(()) => {
                self.shapes.insert(table, new);
                self.report.alterations += 1;
                self.report.repairs += u64::from(altering.repairs);
                self.model.acknowledge();
                Ok(Flow::On)
            }
            Err(error) => {
                // If the log still works, the alteration failed before its log record was written.
                let status = self.change_status("altering", &error, |_| Ok(false))?;
                self.settle(events, &status)
            }
        }
    }

    /// Notes that a repair may move the files of a table to the directory of orphans.
    fn note_replaced(&mut self, table: TableId) -> Checked<()> {
        let paths = self.engine()?.index_paths(self.model.name(table));
        let paths = paths.map_err(|error| Bug(error.to_string()))?;
        let names = paths.iter().filter_map(|path| path.file_name());
        self.known.replaced.extend(names.map(OsStr::to_owned));
        Ok(())
    }

    /// The committed rows of a table.
    fn committed_rows(&self, table: TableId) -> Checked<Vec<Row>> {
        let contents = self.model.contents();
        let tables = contents.by_name();
        let rows: Option<&BTreeMap<Key, Value>> = tables
            .get(self.model.name(table))
            .and_then(|table| table.indexes.first());
        let values = rows.into_iter().flat_map(BTreeMap::values);
        values
            .map(|value| Row::decode(value).ok_or_else(|| Bug("no row".into())))
            .collect()
    }

    /// The entries of a row in the indexes that are being built for its table.
    pub(crate) fn building_entries(
        &self,
        table: TableId,
        shape: &Shape,
        row: &Row,
    ) -> Vec<OwnedEntry> {
        let Some(altering) = self.altering.as_ref().filter(|a| a.table == table) else {
            return Vec::new();
        };
        let added = (0u32..).zip(&altering.added);
        added
            .map(|(number, kind)| shape.entry(row, altering.alteration.index(number).0, *kind))
            .collect()
    }
}
