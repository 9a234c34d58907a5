//! Hidden files: files of tables that are moved away before the engine is opened after a power
//! loss, or put into a state older than the checkpoint in the catalogue, and brought back later. As
//! long as a file is hidden, its table is unavailable, and must not lose data.

use crate::faults;
use crate::older_files::{flip, move_file};
use crate::outcome::{Bug, Checked, Flow};
use crate::sessions::{FileChange, HiddenFile};
use crate::simulation::Simulation;
use std::path::Path;
use teak_disk::Disk;
use teak_engine::Engine;
use teak_model::TableId;

/// The directory of hidden files.
const HIDDEN: &str = "/hidden";

impl Simulation {
    /// Hides files of some tables. Called directly after a power loss, so the contents of the disk
    /// are durable. First opens and checks a copy of the disk: the engine must recover the same
    /// state without the files.
    pub(crate) fn hide_files(&mut self) -> Checked<()> {
        let disk = self.disk.clone();
        self.disk = disk.crash(0);
        faults::clear(&self.disk);
        self.note(|| "  a copy of the disk".into());
        if !self.try_open()? {
            return Err(Bug("a copy of the disk does not open".into()));
        }
        let mut found = Vec::new();
        for table in self.model.tables() {
            let name = self.model.name(table).to_owned();
            let paths = self.engine()?.index_paths(&name);
            let paths = paths.map_err(|error| Bug(error.to_string()))?;
            let files = paths.into_iter().map(|path| (table, name.clone(), path));
            found.extend(files);
        }
        self.abandon_engine();
        self.disk = disk;
        let created = self.disk.create_directories(HIDDEN.as_ref());
        created.map_err(|error| Bug(error.to_string()))?;
        for (table, name, path) in found {
            // A rename that recovery has repeated on the copy may be missing on the original disk.
            let new = path.with_extension("new.teak");
            let is_new = self.disk.exists(&new).unwrap_or(false);
            let path = if is_new { new } else { path };
            let exists = self.disk.exists(&path).unwrap_or(false);
            let known = self.hidden.iter().any(|file| file.path == path);
            if !exists || known || !self.random.one_in(3) {
                continue;
            }
            let number = self.hidden.len() as u64 + self.random.below(1 << 32);
            let away = Path::new(HIDDEN).join(number.to_string());
            // Recovery renames a new file that it finds.
            let older = match !is_new && self.random.one_in(2) {
                true => self.make_older(&path, &away)?,
                false => None,
            };
            let change = match older {
                Some(change) => {
                    self.report.older_files += 1;
                    change
                }
                None if move_file(&self.disk, &path, &away) => FileChange::Away(away),
                None => return Err(Bug("a file cannot be hidden".into())),
            };
            self.note(|| format!("  {} is hidden: {change}", path.display()));
            self.report.hidden_files += 1;
            self.hidden.push(HiddenFile {
                table,
                name,
                path,
                change,
            });
        }
        Ok(())
    }

    /// The number of index files that are not in their place.
    pub(crate) fn absent_files(&self) -> usize {
        let files = self.hidden.iter();
        let absent = files.filter(|file| matches!(file.change, FileChange::Away(_)));
        absent.count()
    }

    /// Whether a file of the table is hidden.
    pub(crate) fn is_hidden(&self, table: TableId) -> bool {
        self.hidden.iter().any(|file| file.table == table)
    }

    /// The names of the tables with a hidden file.
    pub(crate) fn hidden_tables(&self) -> Vec<String> {
        self.hidden.iter().map(|file| file.name.clone()).collect()
    }

    /// Brings all hidden files back.
    pub(crate) fn reveal(&mut self) -> Checked {
        if self.hidden.is_empty() || faults::power_is_off(&self.disk) {
            return Ok(Flow::On);
        }
        self.note(|| "  hidden files are back".into());
        faults::clear(&self.disk);
        while let Some(file) = self.hidden.last() {
            let is_back = match &file.change {
                FileChange::Away(away) | FileChange::Replaced(away) => {
                    move_file(&self.disk, away, &file.path)
                }
                FileChange::Damaged(offset) => flip(&self.disk, &file.path, *offset).is_ok(),
            };
            if !is_back {
                return Ok(Flow::Reopen);
            }
            self.report.revealed_files += 1;
            self.hidden.pop();
        }
        Ok(Flow::On)
    }

    /// Rolls back all transactions and makes a checkpoint. Then writes two rows of a table, which
    /// recovery will roll back, and between the two a row of another table, which is committed.
    /// Called before a power loss.
    pub(crate) fn write_lost_rows(&mut self) -> Checked {
        while !self.sessions.is_empty() {
            self.roll_back(0);
        }
        let (lost, other) = match (self.draw_table(), self.draw_table()) {
            (Some(lost), Some(other)) if lost != other => (lost, other),
            _ => return Ok(Flow::On),
        };
        if self.work("checkpoint", Engine::checkpoint)? == Flow::Reopen {
            return Ok(Flow::Reopen);
        }
        self.begin()?;
        self.begin()?;
        for (session_index, table) in [(0, lost), (1, other), (0, lost)] {
            if let Err(flow) = self.open_handle(table)? {
                return Ok(flow);
            }
            if self.insert(session_index, table)? == Flow::Reopen {
                return Ok(Flow::Reopen);
            }
        }
        let flow = self.commit_session(1)?;
        self.flush_after(flow)
    }

    /// Brings all hidden files back, opens their tables, and runs maintenance, which removes
    /// aborted write ids. Called directly after the engine was opened, before the replayed log is
    /// trimmed.
    pub(crate) fn reveal_early(&mut self) -> Checked {
        let tables: Vec<TableId> = self.hidden.iter().map(|file| file.table).collect();
        if self.reveal()? == Flow::Reopen {
            return Ok(Flow::Reopen);
        }
        for table in tables {
            if !self.is_hidden(table)
                && let Err(flow) = self.open_handle(table)?
            {
                return Ok(flow);
            }
        }
        for _ in 0..3 {
            if self.work("maintenance", Engine::run_maintenance)? == Flow::Reopen {
                return Ok(Flow::Reopen);
            }
        }
        Ok(Flow::On)
    }

    /// Called after a power loss, before which files may have been moved back: removes such files
    /// from the list of hidden files.
    pub(crate) fn find_hidden(&mut self) {
        let disk = &self.disk;
        let is_changed = |file: &HiddenFile| match &file.change {
            FileChange::Away(away) | FileChange::Replaced(away) => {
                disk.exists(away).unwrap_or(true)
            }
            FileChange::Damaged(_) => true,
        };
        self.hidden.retain(is_changed);
    }

    /// Drops or truncates a table with a hidden file. Its retained records are not
    /// needed afterwards.
    pub(crate) fn change_hidden_table(&mut self) -> Checked {
        let count = self.hidden.len();
        let Some(table) = self.draw(count).and_then(|index| self.hidden.get(index)) else {
            return Ok(Flow::On);
        };
        let table = table.table;
        // The outcome must be known.
        if self.may_stop_log || !self.is_idle(table) {
            return Ok(Flow::On);
        }
        faults::clear(&self.disk);
        let flow = if self.random.one_in(2) {
            self.drop_the_table(table)?
        } else {
            self.truncate_the_table(table)?
        };
        // The files of the old indexes are not brought back.
        self.hidden.retain(|file| file.table != table);
        Ok(flow)
    }
}
