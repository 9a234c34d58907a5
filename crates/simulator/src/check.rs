//! Comparison of the whole store with the model.

use crate::counters::ROW_IDS;
use crate::outcome::{Bug, CheckError, Checked, Flow};
use crate::simulation::Simulation;
use crate::swarm::DIRECTORY;
use std::collections::BTreeMap;
use std::path::Path;
use teak_disk::Disk;
use teak_engine::{Engine, EngineResult, IndexNumber, Isolation, ReadMode, TableHandle};
use teak_model::{Contents, Key, TableContents, TableId, Value};

/// The directory of the files that belong to no table.
const ORPHANS: &str = "#teak_orphans";

/// The contents of the engine, by table name.
type Found = BTreeMap<String, TableContents>;

impl Simulation {
    /// Checks the store after opening: it must have the state after some prefix of the journal that
    /// contains every acknowledged event. The model continues from that state.
    pub(crate) fn check_recovered(&mut self) -> Result<(), CheckError> {
        let engine = self.engine()?;
        let hidden = self.hidden_tables();
        let found = read_everything(engine, &hidden)?;
        let names = self.names_found()?;
        let (min, max) = (self.model.acknowledged(), self.model.events());
        let differ = |events| {
            let expected = self.model.contents_after(events);
            if !expected.prepared().into_iter().eq(&names) {
                return Some(format!("prepared {names:?}, not {:?}", expected.prepared()));
            }
            differences(&expected, &found, &hidden)
        };
        let kept = (min..=max).rev().find(|events| differ(*events).is_none());
        let Some(kept) = kept else {
            let (latest, oldest) = (differ(max), differ(min));
            return Err(Bug(format!(
                "the recovered store is no prefix of {max} events with the {min} acknowledged; \
                 compared with all events: {}; compared with the acknowledged: {}",
                latest.unwrap_or_default(),
                oldest.unwrap_or_default()
            ))
            .into());
        };
        self.note(|| format!("  recovered {kept} of {max} events, {min} acknowledged"));
        self.report.events_lost += (max - kept) as u64;
        self.report.events_kept += (kept - min) as u64;
        self.model.recover(kept);
        self.restore_prepared();
        self.counters.crashed();
        self.check_counters()?;
        self.check_files()
    }

    fn check_counters(&mut self) -> Result<(), CheckError> {
        let mut tables = self.model.tables();
        tables.retain(|table| !self.is_hidden(*table));
        for table in tables {
            let handle = self.engine()?.open_table(self.model.name(table))?;
            let found = handle.counter(0)?;
            self.counters.recovered(table, 0, found).map_err(Bug)?;
            let Some(kinds) = handle.metadata().strip_prefix(&table.0.to_le_bytes()) else {
                return Err(Bug(format!("{table:?} has the metadata of another table")).into());
            };
            if let Some(shape) = self.shapes.get_mut(&table) {
                shape.kinds = kinds.to_vec();
            }
            self.handles.insert(table, handle);
        }
        Ok(())
    }

    /// Checks that the tables have all their index files, and that there are no others.
    fn check_files(&mut self) -> Result<(), CheckError> {
        let tables = self.model.tables();
        let expected: usize = tables.iter().map(|id| self.model.indexes(*id)).sum();
        let expected = expected.saturating_sub(self.absent_files());
        let mut found = Vec::new();
        let list = |path: &Path| self.disk.list(path).unwrap_or_default();
        for directory in list(Path::new(DIRECTORY)) {
            let files = list(&directory);
            found.extend(files.into_iter().filter(|path| is_index_file(path)));
        }
        if found.len() != expected && !crate::faults::power_is_off(&self.disk) {
            return Err(Bug(format!(
                "tables have {expected} index files, recovery left {found:?}"
            ))
            .into());
        }
        self.check_orphans()
    }

    /// Checks that recovery moved no file to `#teak_orphans`, except those that a repair has replaced.
    fn check_orphans(&self) -> Result<(), CheckError> {
        if crate::faults::power_is_off(&self.disk) {
            return Ok(());
        }
        let mut directories = vec![Path::new(DIRECTORY).join(ORPHANS)];
        let mut count = 0;
        while let Some(directory) = directories.pop() {
            for path in self.disk.list(&directory).unwrap_or_default() {
                if !is_index_file(&path) {
                    directories.push(path);
                    continue;
                }
                count += 1;
                let name = path.file_name().unwrap_or_default();
                if !self.known.replaced.contains(name) {
                    let text = format!("{} belongs to no table", path.display());
                    return Err(Bug(text).into());
                }
            }
        }
        let counted = self.engine()?.statistics().orphan_files;
        if counted != count {
            let text = format!("{count} files belong to no table, but {counted} are counted");
            return Err(Bug(text).into());
        }
        Ok(())
    }

    /// Compares the whole store with the model during an incarnation, and verifies all blocks.
    pub(crate) fn check_everything(&mut self) -> Checked {
        self.check_prepared()?;
        let hidden = self.hidden_tables();
        let found = match read_everything(self.engine()?, &hidden) {
            Ok(found) => found,
            Err(error) => return self.fault("reading everything", &error),
        };
        match differences(&self.model.contents(), &found, &hidden) {
            None => Ok(Flow::On),
            Some(text) => Err(Bug(format!("the store differs: {text}"))),
        }
    }

    /// Reserves row ids; they must be new.
    pub(crate) fn reserve_row_ids(&mut self, table: TableId) -> Checked {
        let count = 1 + self.random.below(5);
        let Some(handle) = self.handles.get(&table) else {
            return Ok(Flow::On);
        };
        match handle.reserve_row_ids(count) {
            Ok(first) => {
                let used = self.counters.value(table, ROW_IDS);
                if first < used {
                    return Err(Bug(format!(
                        "row id {first} is reserved twice, {used} were used"
                    )));
                }
                self.counters.advance(table, ROW_IDS, first + count);
                Ok(Flow::On)
            }
            Err(error) => self.fault("reserving row ids", &error),
        }
    }
}

fn is_index_file(path: &Path) -> bool {
    path.extension().is_some_and(|end| end == "teak")
}

/// Reads every index forward and backward, and verifies every block. Tables with a
/// hidden file must be unavailable.
fn read_everything(engine: &Engine, hidden: &[String]) -> EngineResult<Found> {
    let mut found = Found::new();
    for name in engine.table_names() {
        if hidden.contains(&name) {
            assert!(engine.open_table(&name).is_err(), "{name} is hidden");
            found.insert(name, TableContents::default());
            continue;
        }
        let table = engine.open_table(&name)?;
        table.verify(&mut || true, &mut |_| {})?;
        let mut indexes = Vec::new();
        for index in 0..table.index_count() {
            let number = u32::try_from(index).unwrap_or(u32::MAX);
            let forward = read_index(engine, &table, number, true)?;
            let mut backward = read_index(engine, &table, number, false)?;
            backward.reverse();
            assert!(
                forward == backward,
                "index {index} of {name} reads differently forward and backward"
            );
            assert!(
                forward.is_sorted_by(|(one, _), (other, _)| one < other),
                "index {index} of {name} is out of order"
            );
            indexes.push(forward.into_iter().collect());
        }
        found.insert(name, TableContents { indexes });
    }
    Ok(found)
}

fn read_index(
    engine: &Engine,
    table: &TableHandle,
    index: u32,
    forward: bool,
) -> EngineResult<Vec<(Key, Value)>> {
    let mut transaction = engine.begin(Isolation::ReadCommitted);
    let mut cursor = transaction.cursor(table, IndexNumber(index), ReadMode::Snapshot)?;
    let mut entries = Vec::new();
    let mut row = if forward {
        cursor.first(&mut transaction)?
    } else {
        cursor.last(&mut transaction)?
    };
    while let Some(found) = row {
        entries.push((found.key.to_vec(), found.value.to_vec()));
        row = if forward {
            cursor.next(&mut transaction)?
        } else {
            cursor.previous(&mut transaction)?
        };
    }
    Ok(entries)
}

/// A description of the first difference; `None` if there is none.
fn differences(expected: &Contents, found: &Found, hidden: &[String]) -> Option<String> {
    let expected = expected.by_name();
    let names: Vec<&str> = expected.keys().copied().collect();
    let found_names: Vec<&str> = found.keys().map(String::as_str).collect();
    if names != found_names {
        return Some(format!("tables {found_names:?}, expected {names:?}"));
    }
    for (name, table) in expected {
        if hidden.iter().any(|hidden| hidden == name) {
            continue;
        }
        let found = found.get(name)?;
        if found.indexes.len() != table.indexes.len() {
            return Some(format!("{name} has {} indexes", found.indexes.len()));
        }
        for (number, (index, expected)) in found.indexes.iter().zip(&table.indexes).enumerate() {
            if let Some(text) = first_difference(expected, index) {
                return Some(format!("{name}, index {number}: {text}"));
            }
        }
    }
    None
}

/// A description of the first key whose values differ; `None` if there is none.
pub(crate) fn first_difference(
    expected: &BTreeMap<Key, Value>,
    found: &BTreeMap<Key, Value>,
) -> Option<String> {
    let keys = expected.keys().chain(found.keys());
    let mut differing: Vec<&Key> = keys
        .filter(|key| expected.get(*key) != found.get(*key))
        .collect();
    differing.sort();
    differing.dedup();
    let key = differing.first()?;
    let show = |value: Option<&Value>| match value {
        None => "absent".to_owned(),
        Some(value) => {
            let front: Vec<u8> = value.iter().copied().take(24).collect();
            format!("{} bytes {}", value.len(), front.escape_ascii())
        }
    };
    Some(format!(
        "{} keys differ, first {}: {}, expected {}",
        differing.len(),
        key.escape_ascii(),
        show(found.get(*key)),
        show(expected.get(*key))
    ))
}
