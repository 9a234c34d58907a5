//! Tables: definition, sizes, counters.

use crate::arguments::{array, out, reference, store, teak_slice};
use crate::engine::teak_engine;
use crate::status::teak_status::{self, TEAK_OK};
use crate::status::{Failure, call};
use crate::transaction::{owned_and_table, teak_transaction};
use ::teak_engine::{Codec, IndexDefinition, TableDefinition, TableHandle};
use std::ffi::{c_char, c_void};

/// An open table. Its calls may come from any thread.
pub struct teak_table {
    pub(crate) handle: TableHandle,
}

/// One index of a table to create.
#[repr(C)]
pub struct teak_index_definition {
    /// Names the file; sanitised by the engine.
    pub label: teak_slice,
    /// Number of the codec: 0 none, 1 lz4, 2 zstd, 3 zlib, 4 snappy, 5 lzma
    pub codec: u32,
    /// Raw bytes of a page; 0 = default 64 KiB.
    pub page_bytes: u32,
    /// Rows are looked up by whole keys (row index, unique keys): keep filters.
    pub exact_lookups: bool,
    /// Leading bytes of values that hold columns of fixed width, where all
    /// values have them: stored column by column.
    pub value_fixed_bytes: u32,
}

/// A table to create.
#[repr(C)]
pub struct teak_table_definition {
    /// As the server names it: "./database/table", relative to the data directory.
    pub name: teak_slice,
    /// Index 0 is the primary (row) index.
    pub indexes: *const teak_index_definition,
    /// 1 to 256.
    pub index_count: usize,
    /// Kept for the caller, at most 64 KiB.
    pub metadata: teak_slice,
}

pub(crate) unsafe fn definition_of(
    index: &teak_index_definition,
) -> Result<IndexDefinition, Failure> {
    let codec = u8::try_from(index.codec)
        .ok()
        .and_then(Codec::from_number)
        .ok_or_else(|| Failure::invalid("there is no such codec"))?;
    Ok(IndexDefinition {
        // SAFETY: passed on.
        label: unsafe { index.label.text("the label") }?.to_owned(),
        codec,
        page_bytes: index.page_bytes,
        exact_lookups: index.exact_lookups,
        value_fixed_bytes: index.value_fixed_bytes,
    })
}

/// Creates a table. Durable on return, like every change of tables.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_table_create(
    engine: *mut teak_engine,
    definition: *const teak_table_definition,
) -> teak_status {
    call(|| {
        // SAFETY: pointers as promised in `arguments`.
        let (engine, definition) = unsafe {
            (
                reference(engine, "engine")?,
                reference(definition, "definition")?,
            )
        };
        // SAFETY: as above.
        let given = unsafe { array(definition.indexes, definition.index_count, "indexes") }?;
        let mut indexes = Vec::with_capacity(given.len());
        for index in given {
            // SAFETY: as above.
            indexes.push(unsafe { definition_of(index) }?);
        }
        engine.engine.create_table(&TableDefinition {
            // SAFETY: as above.
            name: unsafe { definition.name.text("the name") }?.to_owned(),
            indexes,
            // SAFETY: as above.
            metadata: unsafe { definition.metadata.bytes() }?.to_vec(),
        })?;
        Ok(TEAK_OK)
    })
}

/// Opens a table; TEAK_CORRUPT when one of its files is missing or damaged.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_table_open(
    engine: *mut teak_engine,
    name: teak_slice,
    table: *mut *mut teak_table,
) -> teak_status {
    call(|| {
        // SAFETY: pointers as promised in `arguments`.
        let (engine, name) = unsafe { (reference(engine, "engine")?, name.text("the name")?) };
        let table = out(table, "table")?;
        let handle = engine.engine.open_table(name)?;
        // SAFETY: checked above.
        unsafe { store(table, Box::into_raw(Box::new(teak_table { handle }))) };
        Ok(TEAK_OK)
    })
}

/// Closes a table; NULL is allowed. Its cursors must be closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_table_close(table: *mut teak_table) {
    call(|| {
        if !table.is_null() {
            // SAFETY: a handle, which the caller gives up.
            drop(unsafe { Box::from_raw(table) });
        }
        Ok(TEAK_OK)
    });
}

/// Drops a table and removes its files. Open handles keep what they see.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_table_drop(
    engine: *mut teak_engine,
    name: teak_slice,
) -> teak_status {
    call(|| {
        // SAFETY: pointers as promised in `arguments`.
        let (engine, name) = unsafe { (reference(engine, "engine")?, name.text("the name")?) };
        engine.engine.drop_table(name)?;
        Ok(TEAK_OK)
    })
}

/// Renames a table and its files, also into another database.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_table_rename(
    engine: *mut teak_engine,
    from: teak_slice,
    to: teak_slice,
) -> teak_status {
    call(|| {
        // SAFETY: pointers as promised in `arguments`.
        let (from, to) = unsafe { (from.text("the name")?, to.text("the new name")?) };
        // SAFETY: as above.
        unsafe { reference(engine, "engine") }?
            .engine
            .rename_table(from, to)?;
        Ok(TEAK_OK)
    })
}

/// Replaces every index by an empty one, atomically; open handles follow. Counters return to zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_table_truncate(
    engine: *mut teak_engine,
    name: teak_slice,
) -> teak_status {
    call(|| {
        // SAFETY: pointers as promised in `arguments`.
        let (engine, name) = unsafe { (reference(engine, "engine")?, name.text("the name")?) };
        engine.engine.truncate_table(name)?;
        Ok(TEAK_OK)
    })
}

/// Whether a table of this name exists.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_table_exists(
    engine: *mut teak_engine,
    name: teak_slice,
    exists: *mut bool,
) -> teak_status {
    call(|| {
        // SAFETY: pointers as promised in `arguments`.
        let (engine, name) = unsafe { (reference(engine, "engine")?, name.text("the name")?) };
        let exists = out(exists, "exists")?;
        let found = engine.engine.table_exists(name)?;
        // SAFETY: checked above.
        unsafe { store(exists, found) };
        Ok(TEAK_OK)
    })
}

/// The table's id, which no other table of this data directory ever has; TRUNCATE and RENAME keep it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_table_get_id(
    engine: *mut teak_engine,
    name: teak_slice,
    id: *mut u64,
) -> teak_status {
    call(|| {
        // SAFETY: pointers as promised in `arguments`.
        let (engine, name) = unsafe { (reference(engine, "engine")?, name.text("the name")?) };
        let id = out(id, "id")?;
        let found = engine.engine.table_id(name)?;
        // SAFETY: checked above.
        unsafe { store(id, found) };
        Ok(TEAK_OK)
    })
}

/// Hands the names and the metadata of all tables whose names begin so to the sink. No table is opened.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_table_list_metadata(
    engine: *mut teak_engine,
    prefix: teak_slice,
    sink: Option<
        unsafe extern "C" fn(context: *mut c_void, name: teak_slice, metadata: teak_slice),
    >,
    context: *mut c_void,
) -> teak_status {
    call(|| {
        // SAFETY: pointers as promised in `arguments`.
        let (engine, prefix) = unsafe { (reference(engine, "engine")?, prefix.text("the name")?) };
        let sink = sink.ok_or_else(|| Failure::invalid("sink is NULL"))?;
        for (name, metadata) in engine.engine.tables_metadata(prefix)? {
            // SAFETY: the caller's callback, with the caller's context.
            unsafe {
                sink(
                    context,
                    teak_slice::of(name.as_bytes()),
                    teak_slice::of(&metadata),
                );
            }
        }
        Ok(TEAK_OK)
    })
}

/// The name of every table, one call of the callback for each, in no order. Names have no leading `./`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_table_list(
    engine: *mut teak_engine,
    sink: Option<unsafe extern "C" fn(context: *mut c_void, name: teak_slice)>,
    context: *mut c_void,
) -> teak_status {
    call(|| {
        let sink = sink.ok_or_else(|| Failure::invalid("sink is NULL"))?;
        // SAFETY: a handle.
        let names = unsafe { reference(engine, "engine") }?.engine.table_names();
        for name in names {
            // SAFETY: the caller's callback, with the caller's context.
            unsafe { sink(context, teak_slice::of(name.as_bytes())) };
        }
        Ok(TEAK_OK)
    })
}

/// The bytes given at creation or by the last alteration before the table was opened, valid while it is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_table_get_metadata(
    table: *mut teak_table,
    metadata: *mut teak_slice,
) -> teak_status {
    call(|| {
        // SAFETY: pointers as promised in `arguments`.
        let table = unsafe { reference(table, "table") }?;
        let metadata = out(metadata, "metadata")?;
        // SAFETY: checked above.
        unsafe { store(metadata, teak_slice::of(table.handle.metadata())) };
        Ok(TEAK_OK)
    })
}

/// How many indexes it has.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_table_get_index_count(
    table: *mut teak_table,
    count: *mut usize,
) -> teak_status {
    call(|| {
        // SAFETY: pointers as promised in `arguments`.
        let table = unsafe { reference(table, "table") }?;
        let count = out(count, "count")?;
        // SAFETY: checked above.
        unsafe { store(count, table.handle.index_count()) };
        Ok(TEAK_OK)
    })
}

/// Says that one session alone uses the table, as a temporary one: snapshots that are older than the table may read it.
/// Holds while it is open and not truncated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_table_serve_older_snapshots(table: *mut teak_table) -> teak_status {
    call(|| {
        // SAFETY: a pointer as promised in `arguments`.
        let table = unsafe { reference(table, "table") }?;
        table.handle.serve_older_snapshots();
        Ok(TEAK_OK)
    })
}

/// Sizes of one index.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct teak_index_statistics {
    /// Estimate of live entries.
    pub entries: u64,
    /// Bytes of the file on disk.
    pub disk_bytes: u64,
    /// Uncompressed bytes of the entries on disk.
    pub raw_bytes: u64,
    /// Bytes in memory, not flushed yet.
    pub memtable_bytes: u64,
    /// Levels of nodes.
    pub height: u32,
    /// Sorted runs.
    pub runs: u32,
    /// Number of the codec.
    pub codec: u32,
    /// Deletes on disk.
    pub tombstones: u64,
}

/// Bytes of an index's file that may be used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_index_get_free_bytes(
    table: *mut teak_table,
    index: u32,
    bytes: *mut u64,
) -> teak_status {
    call(|| {
        // SAFETY: pointers as promised in `arguments`.
        let table = unsafe { reference(table, "table") }?;
        let bytes = out(bytes, "bytes")?;
        let found = table.handle.free_bytes(index)?;
        // SAFETY: checked above.
        unsafe { store(bytes, found) };
        Ok(TEAK_OK)
    })
}

/// Sizes of one index, without reading its data.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_index_get_statistics(
    table: *mut teak_table,
    index: u32,
    statistics: *mut teak_index_statistics,
) -> teak_status {
    call(|| {
        // SAFETY: pointers as promised in `arguments`.
        let table = unsafe { reference(table, "table") }?;
        let statistics = out(statistics, "statistics")?;
        let found = table.handle.index_statistics(index)?;
        let translated = teak_index_statistics {
            entries: found.entries,
            disk_bytes: found.disk_bytes,
            raw_bytes: found.raw_bytes,
            memtable_bytes: found.memtable_bytes,
            height: u32::try_from(found.height).unwrap_or(u32::MAX),
            runs: u32::try_from(found.runs).unwrap_or(u32::MAX),
            codec: u32::from(found.codec.number()),
            tombstones: found.tombstones,
        };
        // SAFETY: checked above.
        unsafe { store(statistics, translated) };
        Ok(TEAK_OK)
    })
}

/// Estimated entries with lower <= key < upper, exact when they are few; a slice with data NULL is unbounded.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_index_estimate_entries(
    table: *mut teak_table,
    index: u32,
    lower: teak_slice,
    upper: teak_slice,
    entries: *mut u64,
) -> teak_status {
    call(|| {
        // SAFETY: pointers as promised in `arguments`.
        let table = unsafe { reference(table, "table") }?;
        let entries = out(entries, "entries")?;
        // SAFETY: as above.
        let (lower, upper) = unsafe { (lower.optional()?, upper.optional()?) };
        let found = table.handle.records_in_range(index, lower, upper)?;
        // SAFETY: checked above.
        unsafe { store(entries, found) };
        Ok(TEAK_OK)
    })
}

/// Walks every block of every index; TEAK_CORRUPT with the text in the sink when damaged. interrupt may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_table_verify(
    table: *mut teak_table,
    interrupt: Option<unsafe extern "C" fn(context: *mut c_void) -> bool>,
    sink: Option<unsafe extern "C" fn(context: *mut c_void, text: *const c_char, len: usize)>,
    context: *mut c_void,
) -> teak_status {
    call(|| {
        // SAFETY: pointers as promised in `arguments`.
        let table = unsafe { reference(table, "table") }?;
        let sink = sink.ok_or_else(|| Failure::invalid("sink is NULL"))?;
        let mut go_on = || match interrupt {
            // SAFETY: the caller's callback, with the caller's context.
            Some(interrupt) => unsafe { !interrupt(context) },
            None => true,
        };
        // SAFETY: as above.
        let mut findings = |text: &str| unsafe { sink(context, text.as_ptr().cast(), text.len()) };
        table.handle.verify(&mut go_on, &mut findings)?;
        Ok(TEAK_OK)
    })
}

/// Whether damage was met in this table since it was opened or repaired.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_table_is_damaged(
    table: *mut teak_table,
    damaged: *mut bool,
) -> teak_status {
    call(|| {
        // SAFETY: pointers as promised in `arguments`.
        let table = unsafe { reference(table, "table") }?;
        let damaged = out(damaged, "damaged")?;
        // SAFETY: checked above.
        unsafe { store(damaged, table.handle.is_damaged()) };
        Ok(TEAK_OK)
    })
}

fn counter_number(counter: u32) -> Result<u8, Failure> {
    u8::try_from(counter).map_err(|_| Failure::invalid("there is no such counter"))
}

/// Durable counters 0 to 7: 0 = AUTO_INCREMENT next value; never move back through advance.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_table_counter_get(
    table: *mut teak_table,
    counter: u32,
    value: *mut u64,
) -> teak_status {
    call(|| {
        // SAFETY: pointers as promised in `arguments`.
        let table = unsafe { reference(table, "table") }?;
        let value = out(value, "value")?;
        let found = table.handle.counter(counter_number(counter)?)?;
        // SAFETY: checked above.
        unsafe { store(value, found) };
        Ok(TEAK_OK)
    })
}

/// Raises a counter to max(current, value). Durable with the next commit.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_table_counter_advance(
    table: *mut teak_table,
    counter: u32,
    value: u64,
) -> teak_status {
    call(|| {
        // SAFETY: pointers as promised in `arguments`.
        let table = unsafe { reference(table, "table") }?;
        table
            .handle
            .advance_counter(counter_number(counter)?, value)?;
        Ok(TEAK_OK)
    })
}

/// Sets a counter, up or down.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_table_counter_set(
    table: *mut teak_table,
    counter: u32,
    value: u64,
) -> teak_status {
    call(|| {
        // SAFETY: pointers as promised in `arguments`.
        let table = unsafe { reference(table, "table") }?;
        table.handle.set_counter(counter_number(counter)?, value)?;
        Ok(TEAK_OK)
    })
}

/// Locks a counter until it is unlocked as often, or the transaction ends. Waits as for a row. The other calls on counters do
/// not look for this lock: it is between those who take it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_table_counter_lock(
    transaction: *mut teak_transaction,
    table: *mut teak_table,
    counter: u32,
) -> teak_status {
    call(|| {
        // SAFETY: pointers as promised in `arguments`; the transaction is used by its owner.
        let (owned, table) = unsafe { owned_and_table(transaction, table) }?;
        owned.lock_counter(&table.handle, counter_number(counter)?)?;
        Ok(TEAK_OK)
    })
}

/// Gives a counter up; nothing happens when the transaction does not hold it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_table_counter_unlock(
    transaction: *mut teak_transaction,
    table: *mut teak_table,
    counter: u32,
) -> teak_status {
    call(|| {
        // SAFETY: pointers as promised in `arguments`; the transaction is used by its owner.
        let (owned, table) = unsafe { owned_and_table(transaction, table) }?;
        owned.unlock_counter(&table.handle, counter_number(counter)?)?;
        Ok(TEAK_OK)
    })
}

/// Reserves `count` hidden row ids; never given twice, also after a crash.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_table_reserve_row_ids(
    table: *mut teak_table,
    count: u64,
    first: *mut u64,
) -> teak_status {
    call(|| {
        // SAFETY: pointers as promised in `arguments`.
        let table = unsafe { reference(table, "table") }?;
        let first = out(first, "first")?;
        let reserved = table.handle.reserve_row_ids(count)?;
        // SAFETY: checked above.
        unsafe { store(first, reserved) };
        Ok(TEAK_OK)
    })
}
