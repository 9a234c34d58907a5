//! Names of tables and of their files.
//!
//! A table's name is a path relative to the data directory, such as
//! `./database/table`. Its index files are in the directory of that path and are
//! named `<table>.<label>-<file id in hexadecimal>.teak`. Long names are cut. While a file is
//! created and no durable record of the log says that a table owns it, its name ends with
//! `.new.teak`. So a file with such a name may be removed when the engine is opened, and an older
//! catalogue never removes a file of a table.
//!
//! Files directly in the data directory: `teak.catalogue`, `teak.catalogue.new`
//! while the catalogue is written, `teak.log.*` (log segments), `teak.lock`
//! (locked while the engine is open), `teak.sort.*` (spill files of sorts),
//! `teak.temporary.*` (indexes of temporary tables), and `teak.retained.*` (log
//! records of unavailable and read-only tables). The directory `#teak_orphans`
//! contains index files that belong to no table, and files that a repair replaced.

use crate::catalogue::TEMPORARY_ID_MIN;
use crate::error::{EngineError, EngineResult};
use std::path::{Component, Path, PathBuf};
use teak_base::FileId;

/// The extension of index files.
pub(crate) const EXTENSION: &str = "teak";

/// The end of the names of new index files, before the extension.
const NEW_FILE: &str = "new";

/// Prefix of the names of spill files of sorts.
pub(crate) const SPILL_PREFIX: &str = "teak.sort.";

/// Prefix of the names of the files of temporary tables.
const TEMPORARY_FILE_PREFIX: &str = "teak.temporary.";

/// Prefix of the names of files of retained log records.
const RETAINED_PREFIX: &str = "teak.retained.";

/// The directory in the data directory to which files that belong to no table are moved.
pub(crate) const ORPHANS_DIRECTORY: &str = "#teak_orphans";

/// Prefix of the names of temporary tables. No other table's name has it.
pub const TEMPORARY_NAME_PREFIX: &str = "#temporary-";

/// Longest file name, in bytes, that common file systems allow.
const FILE_NAME_BYTES_MAX: usize = 255;

/// Longest label in a file name, in bytes.
const LABEL_BYTES_MAX: usize = 64;

/// Longest table name, in bytes.
pub(crate) const TABLE_NAME_BYTES_MAX: usize = 1024;

/// A validated table name: a relative path inside the data directory.
pub(crate) struct TableName {
    /// Without a leading `./`.
    pub name: String,
    directory: PathBuf,
    table: String,
}

impl TableName {
    pub(crate) fn parse(name: &str) -> EngineResult<Self> {
        let invalid =
            || EngineError::InvalidArgument(format!("{name:?} is not a valid table name"));
        if name.len() > TABLE_NAME_BYTES_MAX || name.contains('\0') {
            return Err(invalid());
        }
        let mut parts = Vec::new();
        for component in Path::new(name).components() {
            match component {
                Component::CurDir => {}
                Component::Normal(part) => parts.push(part.to_str().ok_or_else(invalid)?),
                _ => return Err(invalid()),
            }
        }
        let table = parts.pop().ok_or_else(invalid)?.to_owned();
        let directory: PathBuf = parts.iter().collect();
        let mut normal = parts.join("/");
        if !normal.is_empty() {
            normal.push('/');
        }
        normal.push_str(&table);
        Ok(Self {
            name: normal,
            directory,
            table,
        })
    }

    /// The directory of its files, relative to the data directory.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Whether it is the name of a temporary table.
    pub(crate) fn is_temporary(&self) -> bool {
        self.name.starts_with(TEMPORARY_NAME_PREFIX)
    }

    /// The path of one index's file, relative to the data directory.
    pub(crate) fn index_path(&self, label: &str, file: FileId) -> PathBuf {
        if self.is_temporary() {
            let number = file.0.saturating_sub(TEMPORARY_ID_MIN);
            return PathBuf::from(format!("{TEMPORARY_FILE_PREFIX}{number:08x}"));
        }
        let label = cut(&sanitise(label), LABEL_BYTES_MAX).to_owned();
        let tail = format!(".{label}-{:08x}.{EXTENSION}", file.0);
        // The name of the new file is longer.
        let stem_bytes_max = FILE_NAME_BYTES_MAX.saturating_sub(tail.len() + NEW_FILE.len() + 1);
        self.directory
            .join(format!("{}{tail}", cut(&self.table, stem_bytes_max)))
    }
}

/// Replaces all characters except ASCII letters, digits, `_` and `-` by `_`.
fn sanitise(label: &str) -> String {
    label
        .chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() || c == '_' || c == '-' {
                c
            } else {
                '_'
            }
        })
        .collect()
}

fn cut(text: &str, bytes: usize) -> &str {
    let mut end = text.len().min(bytes);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or_default()
}

/// The name that an index file has until a table owns it.
pub(crate) fn new_file_path(path: &Path) -> PathBuf {
    path.with_extension(format!("{NEW_FILE}.{EXTENSION}"))
}

/// The name of a new index file when a table owns it. `None` if the file is not new.
pub(crate) fn owned_file_path(path: &Path) -> Option<PathBuf> {
    let stem = path.with_extension("");
    let is_new = path.extension()? == EXTENSION && stem.extension()? == NEW_FILE;
    is_new.then(|| stem.with_extension(EXTENSION))
}

/// The file id in the name of an index file, if the name has this form.
pub(crate) fn file_id_of(path: &Path) -> Option<FileId> {
    if path.extension()? != EXTENSION {
        return None;
    }
    let owned = owned_file_path(path);
    let path = owned.as_deref().unwrap_or(path);
    let (_, id) = path.file_stem()?.to_str()?.rsplit_once('-')?;
    let hexadecimal = id.len() >= 8 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    if !hexadecimal {
        return None;
    }
    u64::from_str_radix(id, 16).ok().map(FileId)
}

/// The file of the retained log records of a table.
pub(crate) fn retained_path(directory: &Path, table: u64) -> PathBuf {
    directory.join(format!("{RETAINED_PREFIX}{table:08x}"))
}

/// The table in the name of a file of retained log records.
pub(crate) fn retained_table_of(path: &Path) -> Option<u64> {
    let name = path.file_name()?.to_str()?;
    u64::from_str_radix(name.strip_prefix(RETAINED_PREFIX)?, 16).ok()
}

/// Whether a file of the data directory is not needed when the engine is opened:
/// a spill file of a sort, or a file of a temporary table.
pub(crate) fn is_leftover(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    name.is_some_and(|name| {
        name.starts_with(SPILL_PREFIX) || name.starts_with(TEMPORARY_FILE_PREFIX)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_names_carry_table_label_and_id() {
        let name = TableName::parse("./shop/orders").unwrap();
        assert_eq!(name.name, "shop/orders");
        let path = name.index_path("by date", FileId(0x1f));
        assert_eq!(path, Path::new("shop/orders.by_date-0000001f.teak"));
        assert_eq!(file_id_of(&path), Some(FileId(0x1f)));
        assert_eq!(file_id_of(Path::new("shop/orders.frm")), None);
        assert_eq!(file_id_of(Path::new("shop/notes-x.teak")), None);
    }

    #[test]
    fn new_files_have_names_of_their_own() {
        let name = TableName::parse("./shop/orders.2").unwrap();
        let path = name.index_path("by.new", FileId(0x1f));
        let new = new_file_path(&path);
        assert_eq!(new, Path::new("shop/orders.2.by_new-0000001f.new.teak"));
        assert_eq!(file_id_of(&new), Some(FileId(0x1f)));
        assert_eq!(owned_file_path(&new), Some(path.clone()));
        assert_eq!(owned_file_path(&path), None);
        assert_eq!(file_id_of(Path::new("shop/notes.new.teak")), None);
    }

    #[test]
    fn files_of_temporary_tables_are_recognised() {
        let name = TableName::parse("./#temporary-1-2").unwrap();
        assert!(name.is_temporary());
        assert!(
            !TableName::parse("db/#temporary-1-2")
                .unwrap()
                .is_temporary()
        );
        let path = name.index_path("PRIMARY", FileId(TEMPORARY_ID_MIN + 0x1f));
        assert_eq!(path, Path::new("teak.temporary.0000001f"));
        assert!(is_leftover(&path));
        assert_eq!(file_id_of(&path), None);
    }

    #[test]
    fn long_and_foreign_names_fit() {
        let name = TableName::parse(&format!("db/{}", "ü".repeat(126))).unwrap();
        let path = name.index_path(&"é".repeat(500), FileId(u64::MAX));
        let file = new_file_path(&path).file_name().unwrap().len();
        assert!(file <= FILE_NAME_BYTES_MAX, "{file}");
        assert_eq!(file_id_of(&path), Some(FileId(u64::MAX)));
    }

    #[test]
    fn names_stay_inside_the_data_directory() {
        for bad in ["", ".", "/etc/passwd", "../x", "a/../../b", "a\0b"] {
            assert!(TableName::parse(bad).is_err(), "{bad:?}");
        }
        assert_eq!(TableName::parse("t").unwrap().name, "t");
    }
}
