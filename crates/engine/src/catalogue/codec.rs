//! Encoding of catalogue entries, in the catalogue file and in log records.

use super::entries::{
    Catalogue, IndexEntry, IndexSizes, PreparedEntry, RetainedIds, TEMPORARY_ID_MIN, TableEntry,
    VALUE_FIXED_BYTES_MAX,
};
use crate::definition::page_bytes_fit;
use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use teak_base::bytes::{Malformed, Put, Take};
use teak_base::limits::LSN_MAX;
use teak_base::write_id_ranges::{EncodedRanges, put_write_id_ranges};
use teak_base::{Codec, EncryptionState, FileId, KeyId, KeyVersion, Lsn, WriteId, WriteIdRanges};
use teak_tree::{FilterKeys, PageColumns};

/// The largest valid id of a durable table, file or write. Ids are allocated in sequence, so a
/// larger one is malformed.
pub(crate) const ID_MAX: u64 = 1 << 60;
const _: () = assert!(ID_MAX < TEMPORARY_ID_MIN);

/// The largest reported size of an index.
const SIZE_MAX: u64 = 1 << 48;

/// The largest number of consecutive write ids that no log record contains. Such ids
/// belong to statements that wrote temporary tables only, or whose record could not
/// be logged. Recovery rejects a larger gap as damage.
pub(crate) const UNNAMED_IDS_MAX: u64 = 1 << 26;

type Decoded<T> = Result<T, Malformed>;

fn take_id(take: &mut Take<'_>) -> Decoded<u64> {
    within(take.varint()?)
}

fn within(id: u64) -> Decoded<u64> {
    if id > ID_MAX {
        return Err(Malformed);
    }
    Ok(id)
}

fn lsn_within(lsn: u64) -> Decoded<Lsn> {
    if lsn > LSN_MAX {
        return Err(Malformed);
    }
    Ok(Lsn(lsn))
}

fn take_text(take: &mut Take<'_>) -> Decoded<String> {
    let bytes = take.bytes()?;
    String::from_utf8(bytes.to_vec()).map_err(|_| Malformed)
}

/// Returns an error for an empty path, and for one that leads out of the data directory.
fn take_path(take: &mut Take<'_>) -> Decoded<PathBuf> {
    let path = PathBuf::from(take_text(take)?);
    let inside = path
        .components()
        .all(|part| matches!(part, Component::Normal(_)));
    if !inside || path.as_os_str().is_empty() {
        return Err(Malformed);
    }
    Ok(path)
}

fn put_path(out: &mut Vec<u8>, path: &Path) {
    out.put_bytes(path.as_os_str().as_bytes());
}

fn take_page_bytes(take: &mut Take<'_>) -> Decoded<u32> {
    let bytes = take.u32()?;
    if !page_bytes_fit(bytes) {
        return Err(Malformed);
    }
    Ok(bytes)
}

fn take_value_fixed_bytes(take: &mut Take<'_>) -> Decoded<u32> {
    let bytes = take.u32()?;
    if bytes > VALUE_FIXED_BYTES_MAX {
        return Err(Malformed);
    }
    Ok(bytes)
}

fn take_key_version(take: &mut Take<'_>) -> Decoded<Option<KeyVersion>> {
    let (key, version) = (KeyId::new(take.u32()?), take.u32()?);
    Ok(key.map(|key| KeyVersion { key, version }))
}

fn take_bool(take: &mut Take<'_>) -> Decoded<bool> {
    match take.u8()? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(Malformed),
    }
}

impl IndexSizes {
    fn put(&self, out: &mut Vec<u8>) {
        for size in [
            self.entries,
            self.tombstones,
            self.raw_bytes,
            self.file_bytes,
            self.unused_bytes,
            self.height,
            self.runs,
        ] {
            out.put_varint(size);
        }
    }

    fn take(take: &mut Take<'_>) -> Decoded<Self> {
        // They are only reported, so a wrong one is no reason to refuse the catalogue. The sum of
        // those of all indexes must not overflow.
        let mut size = || Ok::<_, Malformed>(take.varint()?.min(SIZE_MAX));
        Ok(Self {
            entries: size()?,
            tombstones: size()?,
            raw_bytes: size()?,
            file_bytes: size()?,
            unused_bytes: size()?,
            height: size()?,
            runs: size()?,
        })
    }
}

impl IndexEntry {
    fn put(&self, out: &mut Vec<u8>) {
        out.put_varint(self.file.0);
        put_path(out, &self.path);
        out.put_bytes(self.label.as_bytes());
        out.put_u8(self.codec.number());
        out.put_u32(self.page_bytes);
        out.put_u32(KeyId::number(self.encryption_key));
        self.filter_keys.encode(out);
        out.put_u32(self.value_fixed_bytes);
        self.columns.put(out);
        out.put_varint(self.oldest_write_id.0);
        out.put_varint(self.durable_generation);
        out.put_u32(KeyId::number(self.encryption.with.map(|with| with.key)));
        out.put_u32(self.encryption.with.map_or(0, |with| with.version));
        out.put_u8(self.encryption.is_mixed.into());
        self.sizes.put(out);
    }

    fn take(take: &mut Take<'_>) -> Decoded<Self> {
        Ok(Self {
            file: FileId(take_id(take)?),
            path: take_path(take)?,
            label: take_text(take)?,
            codec: Codec::from_number(take.u8()?).ok_or(Malformed)?,
            page_bytes: take_page_bytes(take)?,
            encryption_key: KeyId::new(take.u32()?),
            filter_keys: FilterKeys::decode(take)?,
            value_fixed_bytes: take_value_fixed_bytes(take)?,
            columns: PageColumns::take(take)?,
            oldest_write_id: WriteId(take_id(take)?),
            durable_generation: take.varint()?,
            encryption: EncryptionState {
                with: take_key_version(take)?,
                is_mixed: take_bool(take)?,
            },
            sizes: IndexSizes::take(take)?,
        })
    }
}

fn put_indexes(out: &mut Vec<u8>, indexes: &[IndexEntry]) {
    out.put_varint(indexes.len() as u64);
    for index in indexes {
        index.put(out);
    }
}

fn take_list<T>(
    take: &mut Take<'_>,
    mut element: impl FnMut(&mut Take<'_>) -> Decoded<T>,
) -> Decoded<Vec<T>> {
    // Each element has at least one byte, so the count cannot exceed the remaining bytes.
    let count = take.length(take.rest().len())?;
    let mut list = Vec::with_capacity(count.min(4096));
    for _ in 0..count {
        list.push(element(take)?);
    }
    Ok(list)
}

fn take_retained(take: &mut Take<'_>) -> Decoded<RetainedIds> {
    let (oldest, next) = (take_id(take)?, take_id(take)?);
    if oldest > next {
        return Err(Malformed);
    }
    Ok(RetainedIds {
        oldest: WriteId(oldest),
        next: WriteId(next),
    })
}

impl TableEntry {
    /// Appends the entry's bytes.
    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        out.put_varint(self.id);
        out.put_bytes(self.name.as_bytes());
        out.put_bytes(&self.metadata);
        put_indexes(out, &self.indexes);
        out.put_u8(u8::from(self.retained.is_some()));
        if let Some(ids) = self.retained {
            out.put_varint(ids.oldest.0);
            out.put_varint(ids.next.0);
        }
        out.put_varint(self.counters.len() as u64);
        for (counter, value) in &self.counters {
            out.put_u8(*counter);
            out.put_varint(*value);
        }
        out.put_varint(self.written_at);
    }

    /// Decodes the entry at the front of the input.
    ///
    /// # Errors
    /// [`Malformed`] if the bytes are not a valid entry.
    pub(crate) fn take(take: &mut Take<'_>) -> Result<Self, Malformed> {
        let id = take_id(take)?;
        let name = take_text(take)?;
        let metadata = take.bytes()?.to_vec();
        let indexes = take_list(take, IndexEntry::take)?;
        let retained = match take_bool(take)? {
            true => Some(take_retained(take)?),
            false => None,
        };
        let counters: BTreeMap<u8, u64> = take_list(take, |take| Ok((take.u8()?, take.varint()?)))?
            .into_iter()
            .collect();
        let written_at = take.varint()?;
        if indexes.is_empty() {
            return Err(Malformed);
        }
        Ok(Self {
            id,
            name,
            metadata,
            indexes,
            retained,
            counters,
            written_at,
        })
    }
}

/// The body of a record that truncates a table: it replaces the indexes by empty ones and resets
/// the counters.
pub(crate) fn encode_indexes_changed(table: u64, indexes: &[IndexEntry]) -> Vec<u8> {
    let mut out = Vec::new();
    out.put_varint(table);
    put_indexes(&mut out, indexes);
    out
}

pub(crate) fn decode_indexes_changed(bytes: &[u8]) -> Decoded<(u64, Vec<IndexEntry>)> {
    let mut take = Take::new(bytes);
    let table = take_id(&mut take)?;
    let indexes = take_list(&mut take, IndexEntry::take)?;
    if indexes.is_empty() || !take.is_empty() {
        return Err(Malformed);
    }
    Ok((table, indexes))
}

/// A table after an alteration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AlteredTable {
    pub id: u64,
    pub metadata: Vec<u8>,
    pub indexes: Vec<IndexEntry>,
    /// Whether the alteration was a repair. The files that it replaced are then moved to the
    /// directory of orphans, not removed.
    pub is_repair: bool,
}

/// The body of a record that alters several tables atomically.
pub(crate) fn encode_tables_altered(tables: &[AlteredTable]) -> Vec<u8> {
    let mut out = Vec::new();
    out.put_varint(tables.len() as u64);
    for table in tables {
        out.put_varint(table.id);
        out.put_bytes(&table.metadata);
        put_indexes(&mut out, &table.indexes);
    }
    let repaired = tables.iter().filter(|table| table.is_repair);
    let repaired: Vec<u64> = repaired.map(|table| table.id).collect();
    if !repaired.is_empty() {
        out.put_varint(repaired.len() as u64);
        repaired.iter().for_each(|id| out.put_varint(*id));
    }
    out
}

pub(crate) fn decode_tables_altered(bytes: &[u8]) -> Decoded<Vec<AlteredTable>> {
    let mut take = Take::new(bytes);
    let mut tables = take_list(&mut take, |take| {
        let table = AlteredTable {
            id: take_id(take)?,
            metadata: take.bytes()?.to_vec(),
            indexes: take_list(take, IndexEntry::take)?,
            is_repair: false,
        };
        if table.indexes.is_empty() {
            return Err(Malformed);
        }
        Ok(table)
    })?;
    if take.is_empty() {
        return Ok(tables);
    }
    for id in take_list(&mut take, |take| take.varint())? {
        let repaired = tables.iter_mut().find(|table| table.id == id);
        repaired.ok_or(Malformed)?.is_repair = true;
    }
    if !take.is_empty() {
        return Err(Malformed);
    }
    Ok(tables)
}

/// Encodes the new paths of a renamed table's files, in the order of its indexes.
pub(crate) fn encode_paths(paths: &[PathBuf]) -> Vec<u8> {
    let mut out = Vec::new();
    out.put_varint(paths.len() as u64);
    for path in paths {
        put_path(&mut out, path);
    }
    out
}

pub(crate) fn decode_paths(bytes: &[u8]) -> Decoded<Vec<PathBuf>> {
    let mut take = Take::new(bytes);
    let paths = take_list(&mut take, take_path)?;
    if !take.is_empty() {
        return Err(Malformed);
    }
    Ok(paths)
}

fn put_ids(out: &mut Vec<u8>, ids: &WriteIdRanges) {
    put_write_id_ranges(out, ids.ranges());
}

fn take_ids(take: &mut Take<'_>) -> Decoded<WriteIdRanges> {
    let ids: WriteIdRanges = EncodedRanges::take(take)?.collect();
    within(ids.last().unwrap_or_default().0)?;
    Ok(ids)
}

impl Catalogue {
    pub(super) fn put(&self, out: &mut Vec<u8>) {
        out.put_u64(self.instance);
        out.put_u64(self.replay_from.0);
        out.put_u64(self.tables_lsn.0);
        out.put_u64(self.next_table);
        out.put_u64(self.next_file);
        out.put_u64(self.next_write_id.0);
        put_ids(out, &self.active);
        put_ids(out, &self.aborted);
        out.put_varint(self.tables.len() as u64);
        for table in self.tables.values() {
            table.put(out);
        }
        out.put_varint(self.prepared.len() as u64);
        for prepared in &self.prepared {
            out.put_bytes(&prepared.xid);
            put_ids(out, &prepared.write_ids);
        }
        out.put_varint(self.unowned.len() as u64);
        for file in &self.unowned {
            out.put_varint(file.0);
        }
    }

    pub(super) fn take(take: &mut Take<'_>) -> Decoded<Self> {
        let catalogue = Self {
            instance: take.u64()?,
            replay_from: lsn_within(take.u64()?)?,
            tables_lsn: lsn_within(take.u64()?)?,
            next_table: within(take.u64()?)?,
            next_file: within(take.u64()?)?,
            next_write_id: WriteId(within(take.u64()?)?),
            active: take_ids(take)?,
            aborted: take_ids(take)?,
            tables: take_list(take, TableEntry::take)?
                .into_iter()
                .map(|table| (table.id, table))
                .collect(),
            prepared: take_list(take, |take| {
                Ok(PreparedEntry {
                    xid: take.bytes()?.to_vec(),
                    write_ids: Arc::new(take_ids(take)?),
                })
            })?,
            unowned: take_list(take, |take| Ok(FileId(take_id(take)?)))?
                .into_iter()
                .collect(),
        };
        // The ids of a list are ascending. The capture of the catalogue reads `next_write_id`
        // before the list of prepared transactions, so the list may contain later ids.
        let last = catalogue.active.last().max(catalogue.aborted.last());
        let prepared = catalogue.prepared.iter();
        let last_prepared = prepared.filter_map(|entry| entry.write_ids.last()).max();
        let next = catalogue.next_write_id;
        if last.is_some_and(|last| last >= next)
            || last_prepared.is_some_and(|last| last.0 > next.0 + UNNAMED_IDS_MAX)
        {
            return Err(Malformed);
        }
        Ok(catalogue)
    }
}
