//! What is known about an index file without a server: its table, its columns, and which writes were committed.

use crate::cell::ColumnNames;
use crate::definition::Frm;
use crate::rows::RowReader;
use std::cell::Cell;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use teak_base::{FileId, WriteId};
use teak_block_file::read_superblocks;
use teak_disk::{Disk, ReadOnlyDisk};
use teak_engine::{StoredIndex, StoredStatus, StoredTable, StoredTables};
use teak_tree::{Tree, Visibility};

const CATALOGUE: &str = "teak.catalogue";

/// How far above a file the data directory may be.
const LEVELS_MAX: usize = 4;

/// An index file, and what the catalogue says about it.
pub(crate) struct StoredFile {
    pub(crate) path: PathBuf,
    pub(crate) id: FileId,
    /// The catalogue, and its directory.
    catalogue: Option<(PathBuf, StoredTables)>,
}

impl StoredFile {
    /// `data`: the data directory; without it, those above the file are searched for a catalogue.
    ///
    /// # Errors
    /// Those of the superblocks, if none is valid, and that the catalogue is damaged, unless `tolerates_damage`.
    pub(crate) fn find(
        path: &Path,
        data: Option<&PathBuf>,
        tolerates_damage: bool,
    ) -> io::Result<Self> {
        let disk: Arc<dyn Disk> = Arc::new(ReadOnlyDisk);
        let [first, second] = read_superblocks(&disk, path).map_err(io::Error::other)?;
        let id = match first.or(second) {
            Ok(superblock) => superblock.file,
            Err(error) if error.is_corrupt() && tolerates_damage => {
                let message =
                    "no superblock of the file is valid, and its name does not end with its id";
                id_in_name(path).ok_or_else(|| io::Error::other(message))?
            }
            Err(error) => return Err(io::Error::other(error)),
        };
        let directory = data.cloned().or_else(|| directory_above(path));
        let catalogue = match directory {
            None => None,
            Some(directory) => match StoredTables::read(&disk, &directory) {
                Ok(tables) => tables.map(|tables| (directory, tables)),
                Err(error) if tolerates_damage => {
                    eprintln!("teak: {error}; the catalogue is not used");
                    None
                }
                Err(error) => return Err(io::Error::other(error)),
            },
        };
        if data.is_some() && catalogue.is_none() && !tolerates_damage {
            let message = format!("there is no {CATALOGUE} in the data directory");
            return Err(io::Error::other(message));
        }
        Ok(Self {
            path: path.to_path_buf(),
            id,
            catalogue,
        })
    }

    /// The table and the index in the catalogue.
    pub(crate) fn entry(&self) -> Option<(&StoredTable, &StoredIndex)> {
        self.catalogue.as_ref()?.1.find(self.id)
    }

    /// The name of the table, or else that of the file.
    pub(crate) fn name(&self) -> String {
        match self.entry() {
            Some((table, _)) => table.name.clone(),
            None => {
                let name = self.path.file_name().unwrap_or_default();
                let name = name.to_string_lossy();
                name.split('.').next().unwrap_or_default().to_owned()
            }
        }
    }

    /// The reader of the rows of the file; says if names and types are not known. `frm`: a definition for a table
    /// that the catalogue does not have.
    pub(crate) fn reader(&self, tree: &Tree, frm: Option<Frm>) -> RowReader {
        let (reader, reason) = match self.rows_of(frm.clone()) {
            Some(rows) => rows,
            None => match self.entry() {
                Some((_, index)) => {
                    let (reader, _) = RowReader::new(None, None, &index.columns);
                    let reason = format!("{} is not the index of the rows", index.label);
                    (reader, Some(reason))
                }
                None => {
                    let columns = tree.stored_columns().unwrap_or_default();
                    RowReader::new(None, frm, &columns)
                }
            },
        };
        if let Some(reason) = reason {
            let name = self.name();
            eprintln!("teak: {name}: no names and types of columns: {reason}");
        }
        reader
    }

    /// The reader of the rows of a table in the catalogue, if the file contains them, and why names and types are not
    /// known.
    fn rows_of(&self, frm: Option<Frm>) -> Option<(RowReader, Option<String>)> {
        let (directory, _) = self.catalogue.as_ref()?;
        let (table, index) = self.entry()?;
        if table.indexes.first()?.file != index.file {
            return None;
        }
        let frm = frm.or_else(|| frm_beside(directory, &table.name));
        Some(RowReader::new(Some(&table.metadata), frm, &index.columns))
    }

    /// The names of the columns of the index of the rows, if the definition of the table is known.
    pub(crate) fn column_names(&self) -> Option<ColumnNames> {
        self.rows_of(None)?.0.stored_names()
    }

    pub(crate) fn writes(&self) -> FileWrites<'_> {
        FileWrites {
            tables: self.catalogue.as_ref().map(|(_, tables)| tables),
            unknown: Cell::new(0),
        }
    }
}

/// The id at the end of a file's name, as the engine names files: `orders.main-0000000c.teak`.
fn id_in_name(path: &Path) -> Option<FileId> {
    let (_, digits) = path.file_stem()?.to_str()?.rsplit_once('-')?;
    u64::from_str_radix(digits, 16).ok().map(FileId)
}

/// The nearest directory with a catalogue above a file.
fn directory_above(path: &Path) -> Option<PathBuf> {
    let path = path.canonicalize().ok()?;
    let mut above = path.ancestors().skip(1).take(LEVELS_MAX);
    let found = above.find(|directory| directory.join(CATALOGUE).exists());
    found.map(Path::to_path_buf)
}

/// The .frm file of a table in the data directory. The catalogue does not contain those of partitions.
pub(crate) fn frm_beside(directory: &Path, table: &str) -> Option<Frm> {
    let path = directory.join(format!("{}.frm", crate::names::without_partition(table)));
    Frm::decode(&std::fs::read(path).ok()?).ok()
}

/// The writes of which the entries of a file are read: all that are not known to be rolled back.
pub(crate) struct FileWrites<'a> {
    tables: Option<&'a StoredTables>,
    /// How many versions were read although it is not known whether they were committed.
    unknown: Cell<u64>,
}

impl Visibility for FileWrites<'_> {
    fn is_visible(&self, id: WriteId) -> bool {
        match self.tables.map(|tables| tables.status(id)) {
            Some(StoredStatus::Committed) => true,
            Some(StoredStatus::Aborted) => false,
            Some(StoredStatus::Unknown) | None => {
                self.unknown.set(self.unknown.get() + 1);
                true
            }
        }
    }
}

impl FileWrites<'_> {
    /// Says how many versions may be uncommitted.
    pub(crate) fn report(&self) {
        let unknown = self.unknown.get();
        if unknown > 0 {
            eprintln!(
                "teak: {} entries are of writes whose commit only the log or the catalogue knows; they are taken for committed",
                crate::sizes::grouped(unknown)
            );
        }
    }
}
