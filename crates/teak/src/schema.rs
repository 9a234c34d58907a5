//! Schemas: a table's name, its indexes, and how their keys are derived.

use crate::error::{Error, Result};
use crate::index_key::entry_key;
use std::fmt;
use teak_base::bytes::Take;
use teak_engine::{Codec, FilterKeys, IndexDefinition, IndexNumber, KeyId, TableDefinition};

type Derive = dyn Fn(&[u8], &[u8], &mut Vec<Vec<u8>>) + Send + Sync;

pub(crate) struct IndexSchema {
    pub name: String,
    pub unique: bool,
    derive: Box<Derive>,
}

/// A row's entry in a secondary index.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct IndexEntry {
    /// The number of the index in the engine; the first secondary index has number 1.
    pub index: IndexNumber,
    pub unique: bool,
    pub key: Vec<u8>,
}

/// A table's name and secondary indexes, to create or open it with
/// [`Database::table`](crate::Database::table).
///
/// An index has a function that derives the keys of a row from its primary key and its value:
/// `None` for no entry, `Some(key)` for one entry, a `Vec` for several. The function must always
/// return the same keys for the same row. The names of the indexes and whether they are unique are
/// stored with the table and compared when it is opened; the functions are not, so every program
/// that writes the table must derive the same keys.
///
/// ```
/// use teak::{Database, TableSchema};
///
/// # fn main() -> teak::Result<()> {
/// let db = Database::in_memory()?;
/// let words = db.table(
///     TableSchema::new("words")
///         .index("by_length", |_key, value| Some(vec![value.len() as u8]))
///         .index("by_letter", |_key, value| {
///             value.iter().map(|letter| vec![*letter]).collect::<Vec<_>>()
///         })
///         .unique_index("by_text", |_key, value| Some(value.to_vec())),
/// )?;
/// words.insert("1", "teak")?;
/// words.insert("2", "oak")?;
///
/// let snapshot = db.snapshot();
/// let with_a: Vec<_> = snapshot
///     .index(&words, "by_letter")?
///     .equal("a")
///     .map(|row| row.map(|row| row.value))
///     .collect::<teak::Result<_>>()?;
/// assert_eq!(with_a, [b"teak".to_vec(), b"oak".to_vec()]);
/// # Ok(())
/// # }
/// ```
#[must_use]
pub struct TableSchema {
    pub(crate) name: String,
    codec: Codec,
    page_bytes: u32,
    encryption_key: Option<KeyId>,
    pub(crate) indexes: Vec<IndexSchema>,
}

/// Layout of the metadata: version, number of indexes; then for each index, whether it is unique,
/// and the length and bytes of its name.
const METADATA_VERSION: u8 = 1;

impl TableSchema {
    /// A table without secondary indexes. The name is a path relative to the database's directory:
    /// `orders` or `shop/orders`.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            codec: Codec::Zstd,
            page_bytes: 0,
            encryption_key: None,
            indexes: Vec::new(),
        }
    }

    /// Adds a secondary index in which several rows may have the same key.
    pub fn index<K: IntoIterator<Item = Vec<u8>>>(
        self,
        name: impl Into<String>,
        keys: impl Fn(&[u8], &[u8]) -> K + Send + Sync + 'static,
    ) -> Self {
        self.add(name.into(), false, keys)
    }

    /// Adds a secondary index in which a key belongs to one row at most: writing a second row with
    /// the key fails with [`Error::DuplicateKey`].
    pub fn unique_index<K: IntoIterator<Item = Vec<u8>>>(
        self,
        name: impl Into<String>,
        keys: impl Fn(&[u8], &[u8]) -> K + Send + Sync + 'static,
    ) -> Self {
        self.add(name.into(), true, keys)
    }

    fn add<K: IntoIterator<Item = Vec<u8>>>(
        mut self,
        name: String,
        unique: bool,
        keys: impl Fn(&[u8], &[u8]) -> K + Send + Sync + 'static,
    ) -> Self {
        self.indexes.push(IndexSchema {
            name,
            unique,
            derive: Box::new(move |key, value, found| found.extend(keys(key, value))),
        });
        self
    }

    /// Compression of a new table's merged data and large values; [`Codec::Zstd`] by default. Rows
    /// that were not merged to the lowest level yet are compressed with LZ4.
    pub fn codec(mut self, codec: Codec) -> Self {
        self.codec = codec;
        self
    }

    /// Maximum size of a new table's pages in bytes before compression, 1 KiB to 8 MiB; 64 KiB by
    /// default.
    /// Smaller pages make point reads cheaper, larger ones compress better.
    pub fn page_bytes(mut self, bytes: u32) -> Self {
        self.page_bytes = bytes;
        self
    }

    /// Encrypts the files of the table with this key of the database's key management (see
    /// [`Builder::keys`](crate::Builder::keys)); zero: not at all. Default: zero.
    pub fn encryption_key(mut self, id: u32) -> Self {
        self.encryption_key = KeyId::new(id);
        self
    }

    pub(crate) fn definition(&self) -> Result<TableDefinition> {
        let index = |label: &str, is_unique: bool| IndexDefinition {
            label: label.to_owned(),
            codec: self.codec,
            page_bytes: self.page_bytes,
            encryption_key: self.encryption_key,
            filter_keys: match is_unique {
                true => FilterKeys::Whole,
                false => FilterKeys::None,
            },
            value_fixed_bytes: 0,
            columns: Default::default(),
        };
        let secondary = self.indexes.iter().map(|own| index(&own.name, own.unique));
        Ok(TableDefinition {
            name: self.name.clone(),
            indexes: std::iter::once(index("rows", true))
                .chain(secondary)
                .collect(),
            metadata: self.metadata()?,
        })
    }

    fn metadata(&self) -> Result<Vec<u8>> {
        let invalid = |text: &str| Error::InvalidArgument(text.to_owned());
        let count = u8::try_from(self.indexes.len()).map_err(|_| invalid("too many indexes"))?;
        let mut bytes = vec![METADATA_VERSION, count];
        for (number, index) in self.indexes.iter().enumerate() {
            let mut earlier = self.indexes.iter().take(number);
            if earlier.any(|other| other.name == index.name) {
                return Err(Error::InvalidArgument(format!(
                    "two indexes are named {}",
                    index.name
                )));
            }
            let length =
                u8::try_from(index.name.len()).map_err(|_| invalid("a long index name"))?;
            bytes.extend([u8::from(index.unique), length]);
            bytes.extend_from_slice(index.name.as_bytes());
        }
        Ok(bytes)
    }

    /// Compares the schema with the metadata of an existing table.
    pub(crate) fn check(&self, metadata: &[u8]) -> Result<()> {
        if self.metadata()? == metadata {
            return Ok(());
        }
        let reason = match describe(metadata) {
            Some(indexes) => format!("it has {indexes}, which differs from the schema"),
            None => "it was not created by this library".to_owned(),
        };
        Err(Error::SchemaMismatch {
            table: self.name.clone(),
            reason,
        })
    }

    /// The secondary indexes with their numbers.
    pub(crate) fn numbered(&self) -> impl Iterator<Item = (IndexNumber, &IndexSchema)> {
        (1..).map(IndexNumber).zip(&self.indexes)
    }

    /// The entries of a row, without duplicates, in the order of indexes and keys.
    pub(crate) fn entries(&self, primary: &[u8], value: &[u8]) -> Vec<IndexEntry> {
        let mut entries = Vec::new();
        let mut keys = Vec::new();
        for (number, index) in self.numbered() {
            (index.derive)(primary, value, &mut keys);
            keys.sort_unstable();
            keys.dedup();
            entries.extend(keys.drain(..).map(|key| IndexEntry {
                index: number,
                unique: index.unique,
                key: entry_key(index.unique, key, primary),
            }));
        }
        entries
    }

    /// Whether `key` is a key of the row in the index with this number.
    pub(crate) fn has_key(
        &self,
        number: IndexNumber,
        key: &[u8],
        primary: &[u8],
        value: &[u8],
    ) -> bool {
        let mut keys = Vec::new();
        let index = self.numbered().find(|(n, _)| *n == number);
        if let Some((_, index)) = index {
            (index.derive)(primary, value, &mut keys);
        }
        keys.iter().any(|own| own == key)
    }
}

impl From<&str> for TableSchema {
    fn from(name: &str) -> Self {
        Self::new(name)
    }
}

impl fmt::Debug for TableSchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let indexes: Vec<&str> = self.indexes.iter().map(|index| &*index.name).collect();
        f.debug_struct("TableSchema")
            .field("name", &self.name)
            .field("indexes", &indexes)
            .finish_non_exhaustive()
    }
}

fn describe(metadata: &[u8]) -> Option<String> {
    let mut reader = Take::new(metadata);
    if reader.u8().ok()? != METADATA_VERSION {
        return None;
    }
    let count = reader.u8().ok()?;
    let mut names = Vec::new();
    for _ in 0..count {
        let unique = if reader.u8().ok()? == 1 {
            "unique "
        } else {
            ""
        };
        let length = usize::from(reader.u8().ok()?);
        let name = String::from_utf8_lossy(reader.take(length).ok()?).into_owned();
        names.push(format!("{unique}index {name}"));
    }
    Some(match names.is_empty() {
        true => "no indexes".to_owned(),
        false => names.join(", "),
    })
}
