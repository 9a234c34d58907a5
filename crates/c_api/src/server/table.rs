//! Table calls for the definitions and temporary tables of a server.

use crate::boundary::{Failure, boundary};
use crate::handles::{teak_engine, teak_table};
use crate::slice::teak_slice;
use crate::status::teak_status;
use crate::table::{table_definition_of, teak_table_definition};
use ::teak_engine::Codec;
use std::ffi::c_void;

/// The id of a table. It is not assigned to another table of the data directory, and truncation and
/// renaming do not change it. Ids of temporary tables are assigned again after the engine was
/// closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_table_get_id(
    engine: *mut teak_engine,
    name: teak_slice,
    id: *mut u64,
) -> teak_status {
    boundary!([reference(engine), text(name), out(id)] {
        id.set(engine.engine.table_id(name)?);
        Ok(())
    })
}

/// Calls `sink` with the name and the metadata of every table whose name begins with `prefix`.
/// Opens no table. The slices are valid until `sink` returns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_table_list_metadata(
    engine: *mut teak_engine,
    prefix: teak_slice,
    sink: Option<
        unsafe extern "C" fn(context: *mut c_void, name: teak_slice, metadata: teak_slice),
    >,
    context: *mut c_void,
) -> teak_status {
    boundary!([reference(engine), text(prefix), callback(sink)] {
        for (name, metadata) in engine.engine.tables_metadata(prefix)? {
            let (name, metadata) = (teak_slice::of(name.as_bytes()), teak_slice::of(&metadata));
            // SAFETY: the caller's callback, with the caller's context.
            unsafe { sink(context, name, metadata) };
        }
        Ok(())
    })
}

/// Replaces the metadata of a table. Durable on return. Open handles still return the old metadata.
/// TEAK_NO_SUCH_TABLE.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_table_set_metadata(
    engine: *mut teak_engine,
    name: teak_slice,
    metadata: teak_slice,
) -> teak_status {
    boundary!([reference(engine), text(name), bytes(metadata)] {
        engine.engine.set_table_metadata(name, metadata)?;
        Ok(())
    })
}

/// Calls `sink` with the name of every table of a directory, in ascending order and relative to the
/// directory. Tables of subdirectories are left out. A name is valid until `sink` returns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_table_list_directory(
    engine: *mut teak_engine,
    directory: teak_slice,
    sink: Option<unsafe extern "C" fn(context: *mut c_void, name: teak_slice)>,
    context: *mut c_void,
) -> teak_status {
    boundary!([reference(engine), text(directory), callback(sink)] {
        for name in engine.engine.table_names_in(directory)? {
            // SAFETY: the caller's callback, with the caller's context.
            unsafe { sink(context, teak_slice::of(name.as_bytes())) };
        }
        Ok(())
    })
}

/// Compresses bytes that the caller stores as metadata, and calls `sink` once with the result, which
/// is not longer than `raw`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_metadata_compress(
    raw: teak_slice,
    sink: Option<unsafe extern "C" fn(context: *mut c_void, stored: teak_slice)>,
    context: *mut c_void,
) -> teak_status {
    boundary!([bytes(raw), callback(sink)] {
        let mut stored = Vec::new();
        // The codec need not be stored: only uncompressed bytes have the length of `raw`.
        let _ = Codec::Zstd.compress(raw, &mut stored);
        // SAFETY: the caller's callback, with the caller's context.
        unsafe { sink(context, teak_slice::of(&stored)) };
        Ok(())
    })
}

/// Decompresses the result of teak_metadata_compress() and calls `sink` once with the bytes.
/// `raw_bytes` is their number. TEAK_CORRUPT.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_metadata_decompress(
    stored: teak_slice,
    raw_bytes: usize,
    sink: Option<unsafe extern "C" fn(context: *mut c_void, raw: teak_slice)>,
    context: *mut c_void,
) -> teak_status {
    boundary!([bytes(stored), callback(sink)] {
        let codec = if stored.len() == raw_bytes { Codec::None } else { Codec::Zstd };
        let raw = codec.decompress(stored, raw_bytes);
        let raw = raw.map_err(|_| Failure::corrupt("compressed metadata is damaged"))?;
        // SAFETY: the caller's callback, with the caller's context.
        unsafe { sink(context, teak_slice::of(&raw)) };
        Ok(())
    })
}

/// Creates a table for one session, which exists until it is dropped or the engine is closed. Its
/// name must begin with "#temporary-". Its writes are transactional, but neither logged nor synced,
/// and snapshots older than the table can read it. teak_table_list() leaves it out.
/// TEAK_TABLE_EXISTS.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_table_create_temporary(
    engine: *mut teak_engine,
    definition: *const teak_table_definition,
) -> teak_status {
    boundary!([reference(engine)] {
        // SAFETY: the contract of `boundary`.
        let definition = unsafe { table_definition_of(definition) }?;
        engine.engine.create_temporary_table(&definition)?;
        Ok(())
    })
}

/// Makes a table unreadable for the snapshots that exist now, as if it had been created after them.
/// For a table whose rows were committed in several steps, of which an older snapshot may see only
/// some. The effect lasts until the engine is closed. TEAK_NO_SUCH_TABLE.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_table_refuse_older_snapshots(
    engine: *mut teak_engine,
    name: teak_slice,
) -> teak_status {
    boundary!([reference(engine), text(name)] {
        engine.engine.refuse_older_snapshots(name)?;
        Ok(())
    })
}

/// Reserves `count` consecutive row ids, for tables without a primary key; `first` receives the
/// first one. No id is reserved twice, even after a crash, unless the table was truncated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_table_reserve_row_ids(
    table: *mut teak_table,
    count: u64,
    first: *mut u64,
) -> teak_status {
    boundary!([reference(table), out(first)] {
        first.set(table.handle.reserve_row_ids(count)?);
        Ok(())
    })
}
