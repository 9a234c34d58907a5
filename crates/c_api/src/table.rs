//! Tables: creating, opening, dropping, checking.

use crate::boundary::{
    Extensible, Failure, Versioned, array, boundary, first_version_bytes, free, interruption,
    read_elements, read_versioned,
};
use crate::codec::{codec_of, teak_codec_number};
use crate::handles::{teak_engine, teak_table};
use crate::slice::teak_slice;
use crate::status::teak_status;
use ::teak_engine::{
    Column, ColumnKind, Decimal, FilterKeys, IndexDefinition, KeyId, KeySuffix, OptionalColumn,
    PageColumns, TableDefinition, ValueTail,
};
use std::ffi::{c_char, c_void};

/// An index of a table to create. Zero means the default for every field except label. Fields are
/// added at the end in later versions.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct teak_index_definition {
    /// Becomes part of the file's name: characters other than letters, digits, '_' and '-' are
    /// replaced by '_'. UTF-8.
    pub label: teak_slice,
    /// Compression of the pages of bottom runs, and of values of 16 KiB or more, which are stored
    /// separately. Pages of other runs use LZ4.
    pub codec: teak_codec_number,
    /// Maximum size of a page in bytes before compression, 1 KiB to 8 MiB. Default: 64 KiB.
    pub page_bytes: u32,
    /// true: filters are built, for lookups of complete keys (rows, unique keys). Default: false.
    pub exact_lookups: bool,
    /// Number of bytes at the front of every value that contain columns of fixed width. If all
    /// values of a page of a bottom run are at least this long, the page stores the first bytes of
    /// all values, then the second bytes, and so on, which compresses better. More than 64 KiB
    /// count as 64 KiB. Default: 0.
    pub value_fixed_bytes: u32,
    /// The end of the keys, after the part that is passed to teak_cursor_set_prefix. Filters contain
    /// the part of each key before its suffix. Must be TEAK_SUFFIX_NONE if exact_lookups is true.
    /// Default: TEAK_SUFFIX_NONE.
    pub suffix: teak_suffix_number,
    /// Only for TEAK_SUFFIX_FIXED: the length of the suffix in bytes, at most 65535.
    pub suffix_bytes: u32,
    /// The columns that every key consists of, if all keys have one length; NULL: not known.
    pub key_columns: *const teak_column,
    /// Number of columns of keys.
    pub key_column_count: usize,
    /// The columns that the first `value_fixed_bytes` bytes of every value consist of; NULL: not known.
    /// Pages of bottom runs encode columns by type, which makes files smaller. Values that have other
    /// columns there are encoded correctly, too.
    pub value_columns: *const teak_column,
    /// Number of columns of values.
    pub value_column_count: usize,
    /// The columns of fixed width that follow the first `value_fixed_bytes` bytes of values, in this order;
    /// NULL: not known. If values also have no other bytes than those of their
    /// variable columns, pages of bottom runs encode these columns by type, too.
    pub optional_columns: *const teak_optional_column,
    /// Number of optional columns.
    pub optional_column_count: usize,
    /// The columns of byte strings that follow the optional columns: for each the number of the bit that
    /// is set in the values that lack it (see teak_optional_column), or TEAK_NEVER_ABSENT. Values contain the
    /// length of each string, an LEB128 varint, then all strings. NULL: not known.
    pub variable_columns: *const u32,
    /// Number of variable columns.
    pub variable_column_count: usize,
    /// The id of the key with which the file is encrypted (see teak_engine_options.newest_key_version). 0: it is not.
    pub encryption_key: u32,
}

/// Instead of the number of a bit: every value has the column.
pub const TEAK_NEVER_ABSENT: u32 = u32::MAX;

/// A column of fixed width that values may lack.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct teak_optional_column {
    /// The column.
    pub column: teak_column,
    /// The number of the bit that is set in values that lack the column: eight times its byte in the
    /// value, which must be one of those of `value_columns`, plus its place in the byte, the lowest being 0.
    pub null_bit: u32,
}

/// What the bytes of a column mean.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum teak_column_kind {
    /// Any bytes.
    TEAK_COLUMN_BYTES = 0,
    /// An unsigned little-endian integer of 1 to 8 bytes.
    TEAK_COLUMN_UNSIGNED_LITTLE = 1,
    /// A little-endian integer of 1 to 8 bytes in two's complement.
    TEAK_COLUMN_SIGNED_LITTLE = 2,
    /// An unsigned big-endian integer of 1 to 8 bytes, or bytes that order like one.
    TEAK_COLUMN_UNSIGNED_BIG = 3,
    /// A little-endian IEEE 754 number of 4 or 8 bytes.
    TEAK_COLUMN_FLOAT = 4,
    /// A packed decimal number of `digits` digits, at most 18, `fraction` of them after the decimal point, as
    /// MariaDB stores the type DECIMAL.
    TEAK_COLUMN_DECIMAL = 5,
}

/// The number of a `teak_column_kind`, as C passes it.
pub type teak_column_kind_number = u32;

/// A column of fixed width.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct teak_column {
    /// What the bytes mean.
    pub kind: teak_column_kind_number,
    /// Number of bytes. Ignored for decimals.
    pub width: u32,
    /// Only of decimals: the number of digits, and of those after the decimal point.
    pub digits: u32,
    /// See `digits`.
    pub fraction: u32,
}

/// The suffix of the keys of an index.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum teak_suffix {
    /// No suffix: teak_cursor_set_prefix uses no filters.
    TEAK_SUFFIX_NONE = 0,
    /// The last `suffix_bytes` bytes of a key.
    TEAK_SUFFIX_FIXED = 1,
    /// The last two bytes of a key, big-endian, are the number of bytes before them that belong to
    /// the suffix.
    TEAK_SUFFIX_COUNTED = 2,
}

/// The number of a `teak_suffix`, as C passes it.
pub type teak_suffix_number = u32;

// SAFETY: `repr(C)`; numbers, a nullable pointer and a bool.
unsafe impl Extensible for teak_index_definition {
    const FIRST_VERSION_BYTES: usize = first_version_bytes!(Self, value_fixed_bytes, 32);
}

/// A table to create. Fields are added at the end in later versions.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct teak_table_definition {
    /// sizeof(teak_table_definition).
    pub struct_size: usize,
    /// sizeof(teak_index_definition).
    pub index_struct_size: usize,
    /// A path relative to the data directory, UTF-8, at most 1024 bytes: "orders" or "shop/orders".
    pub name: teak_slice,
    /// Index 0 contains the rows; the others are secondary indexes.
    pub indexes: *const teak_index_definition,
    /// Number of indexes, 1 to 256.
    pub index_count: usize,
    /// Bytes stored with the table for the caller, at most 2 MiB. May be empty.
    pub metadata: teak_slice,
}

// SAFETY: `repr(C)`; numbers and nullable pointers.
unsafe impl Extensible for teak_table_definition {
    const FIRST_VERSION_BYTES: usize = first_version_bytes!(Self, metadata, 64);
}

// SAFETY: the first field is `struct_size`.
unsafe impl Versioned for teak_table_definition {}

pub(crate) unsafe fn table_definition_of(
    definition: *const teak_table_definition,
) -> Result<TableDefinition, Failure> {
    // SAFETY: the caller guarantees the contract of `boundary`.
    let definition = unsafe { read_versioned(definition, "definition") }?;
    let (given, count) = (definition.indexes, definition.index_count);
    let element_bytes = definition.index_struct_size;
    // SAFETY: the caller guarantees the contract of `boundary`.
    let given = unsafe { read_elements(given, count, element_bytes, "indexes") }?;
    let mut indexes = Vec::with_capacity(given.len());
    for index in &given {
        // SAFETY: the caller guarantees the contract of `boundary`.
        indexes.push(unsafe { definition_of(index) }?);
    }
    Ok(TableDefinition {
        // SAFETY: the caller guarantees the contract of `boundary`.
        name: unsafe { definition.name.text("name") }?.to_owned(),
        indexes,
        // SAFETY: the caller guarantees the contract of `boundary`.
        metadata: unsafe { definition.metadata.bytes() }?.to_vec(),
    })
}

pub(crate) unsafe fn definition_of(
    index: &teak_index_definition,
) -> Result<IndexDefinition, Failure> {
    Ok(IndexDefinition {
        // SAFETY: the caller guarantees the contract of `boundary`.
        label: unsafe { index.label.text("label") }?.to_owned(),
        codec: codec_of(index.codec)?,
        page_bytes: index.page_bytes,
        encryption_key: KeyId::new(index.encryption_key),
        filter_keys: filter_keys_of(index)?,
        value_fixed_bytes: index.value_fixed_bytes,
        // SAFETY: the caller guarantees the contract of `boundary`.
        columns: unsafe { page_columns_of(index) }?,
    })
}

unsafe fn page_columns_of(index: &teak_index_definition) -> Result<PageColumns, Failure> {
    let invalid = |name: &str| Failure::invalid(format!("a column of {name} is not valid"));
    let list = |columns: &[teak_column], name| {
        let columns = columns.iter().map(column_of);
        let columns: Option<Vec<Column>> = columns.collect();
        columns.ok_or_else(|| invalid(name))
    };
    // SAFETY: the caller guarantees the contract of `boundary`.
    let (key, value, optional, variable) = unsafe {
        (
            array(index.key_columns, index.key_column_count, "key_columns")?,
            array(
                index.value_columns,
                index.value_column_count,
                "value_columns",
            )?,
            array(
                index.optional_columns,
                index.optional_column_count,
                "optional_columns",
            )?,
            array(
                index.variable_columns,
                index.variable_column_count,
                "variable_columns",
            )?,
        )
    };
    let value = list(value, "value_columns")?;
    let width: usize = value.iter().map(|column| column.width()).sum();
    if !value.is_empty() && width != index.value_fixed_bytes as usize {
        return Err(Failure::invalid(
            "value_columns do not add up to value_fixed_bytes",
        ));
    }
    let bit_of = |bit: u32, name| match bit as usize / 8 < width {
        true => Ok(bit),
        false => Err(Failure::invalid(format!(
            "a null bit of {name} is not in value_columns"
        ))),
    };
    let mut tail = ValueTail::default();
    for optional in optional {
        let column = column_of(&optional.column).ok_or_else(|| invalid("optional_columns"))?;
        let null_bit = bit_of(optional.null_bit, "optional_columns")?;
        tail.optional.push(OptionalColumn { column, null_bit });
    }
    for null_bit in variable {
        tail.variable.push(match *null_bit {
            TEAK_NEVER_ABSENT => None,
            bit => Some(bit_of(bit, "variable_columns")?),
        });
    }
    Ok(PageColumns::with_tail(
        list(key, "key_columns")?,
        value,
        tail,
    ))
}

pub(crate) fn column_of(given: &teak_column) -> Option<Column> {
    let small = |number: u32| u8::try_from(number).ok();
    match small(given.kind).and_then(ColumnKind::from_number)? {
        ColumnKind::Decimal => {
            let (digits, fraction) = (small(given.digits)?, small(given.fraction)?);
            Decimal::new(digits, fraction).map(Column::of_decimals)
        }
        kind => Column::new(kind, given.width),
    }
}

fn filter_keys_of(index: &teak_index_definition) -> Result<FilterKeys, Failure> {
    match (index.suffix, index.exact_lookups) {
        (0, false) => Ok(FilterKeys::None),
        (0, true) => Ok(FilterKeys::Whole),
        (1, false) => match u16::try_from(index.suffix_bytes) {
            Ok(bytes) => Ok(FilterKeys::WithoutSuffix(KeySuffix::Fixed(bytes))),
            Err(_) => Err(Failure::invalid("suffix_bytes is too large")),
        },
        (2, false) => Ok(FilterKeys::WithoutSuffix(KeySuffix::Counted)),
        (1 | 2, true) => Err(Failure::invalid("an index has exact_lookups and a suffix")),
        _ => Err(Failure::invalid("suffix is not a teak_suffix")),
    }
}

/// Creates a table. Durable on return, as are dropping, renaming and truncating a table.
/// TEAK_TABLE_EXISTS.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_table_create(
    engine: *mut teak_engine,
    definition: *const teak_table_definition,
) -> teak_status {
    boundary!([reference(engine)] {
        // SAFETY: the contract of `boundary`.
        engine.engine.create_table(&unsafe { table_definition_of(definition) }?)?;
        Ok(())
    })
}

/// Opens a table and its files. TEAK_NO_SUCH_TABLE. TEAK_CORRUPT when one of its files is damaged.
/// TEAK_UNAVAILABLE when one is missing, or when log records that are retained for the table cannot
/// be applied to it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_table_open(
    engine: *mut teak_engine,
    name: teak_slice,
    table: *mut *mut teak_table,
) -> teak_status {
    boundary!([reference(engine), text(name), out(table)] {
        let handle = engine.engine.open_table(name)?;
        table.set_handle(teak_table { handle });
        Ok(())
    })
}

/// Opens a table without its files. The first use of an index opens them, and reports damage. The
/// files are closed again when the table is not used for a while, and opened by its next use. While
/// they are closed, the sizes of the table are read from the catalogue. TEAK_NO_SUCH_TABLE.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_table_open_lazily(
    engine: *mut teak_engine,
    name: teak_slice,
    table: *mut *mut teak_table,
) -> teak_status {
    boundary!([reference(engine), text(name), out(table)] {
        let handle = engine.engine.open_table_lazily(name)?;
        table.set_handle(teak_table { handle });
        Ok(())
    })
}

/// Opens the files of a table if they are closed, so that damage is reported now. Fails like
/// teak_table_open(). `interrupt` may be NULL; it is called while retained log records are applied,
/// and while the call waits for threads that apply such records or open damaged tables. It ends the
/// call with TEAK_INTERRUPTED when it returns true.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_table_open_files(
    table: *mut teak_table,
    interrupt: Option<unsafe extern "C" fn(context: *mut c_void) -> bool>,
    context: *mut c_void,
) -> teak_status {
    boundary!([reference(table)] {
        table.handle.open_files_unless(&interruption(interrupt, context))?;
        Ok(())
    })
}

/// When the table was last written, as teak_table_set_written_at() recorded it; 0: unknown. A crash
/// may restore an earlier value.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_table_get_written_at(
    table: *mut teak_table,
    when: *mut u64,
) -> teak_status {
    boundary!([reference(table), out(when)] {
        when.set(table.handle.written_at());
        Ok(())
    })
}

/// Records when the table was last written, in a unit of the caller's choice.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_table_set_written_at(
    table: *mut teak_table,
    when: u64,
) -> teak_status {
    boundary!([reference(table)] {
        table.handle.set_written_at(when);
        Ok(())
    })
}

/// Closes a table; NULL is allowed. Its cursors must be closed first.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_table_close(table: *mut teak_table) {
    free!(table);
}

/// Drops a table and removes its files. Open cursors can still read. TEAK_NO_SUCH_TABLE.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_table_drop(
    engine: *mut teak_engine,
    name: teak_slice,
) -> teak_status {
    boundary!([reference(engine), text(name)] {
        engine.engine.drop_table(name)?;
        Ok(())
    })
}

/// Renames a table and its files. `to` may be in another directory. TEAK_NO_SUCH_TABLE,
/// TEAK_TABLE_EXISTS.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_table_rename(
    engine: *mut teak_engine,
    from: teak_slice,
    to: teak_slice,
) -> teak_status {
    boundary!([reference(engine), text(from), text(to)] {
        engine.engine.rename_table(from, to)?;
        Ok(())
    })
}

/// Replaces every index by an empty one, atomically, and resets the counters to 0. Open handles use
/// the new indexes. TEAK_NO_SUCH_TABLE.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_table_truncate(
    engine: *mut teak_engine,
    name: teak_slice,
) -> teak_status {
    boundary!([reference(engine), text(name)] {
        engine.engine.truncate_table(name)?;
        Ok(())
    })
}

/// `exists` receives whether a table of this name exists.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_table_exists(
    engine: *mut teak_engine,
    name: teak_slice,
    exists: *mut bool,
) -> teak_status {
    boundary!([reference(engine), text(name), out(exists)] {
        exists.set(engine.engine.table_exists(name)?);
        Ok(())
    })
}

/// Calls `sink` with the name of every table except temporary ones, in undefined order. Names have
/// no leading "./". A name is valid until `sink` returns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_table_list(
    engine: *mut teak_engine,
    sink: Option<unsafe extern "C" fn(context: *mut c_void, name: teak_slice)>,
    context: *mut c_void,
) -> teak_status {
    boundary!([reference(engine), callback(sink)] {
        for name in engine.engine.table_names() {
            // SAFETY: the caller's callback, with the caller's context.
            unsafe { sink(context, teak_slice::of(name.as_bytes())) };
        }
        Ok(())
    })
}

/// The table's metadata at the time when the handle was opened. Valid until the table is closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_table_get_metadata(
    table: *mut teak_table,
    metadata: *mut teak_slice,
) -> teak_status {
    boundary!([reference(table), out(metadata)] {
        metadata.set(teak_slice::of(table.handle.metadata()));
        Ok(())
    })
}

/// The number of indexes, without those that an alteration is adding.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_table_get_index_count(
    table: *mut teak_table,
    count: *mut usize,
) -> teak_status {
    boundary!([reference(table), out(count)] {
        count.set(table.handle.index_count());
        Ok(())
    })
}

/// Reads and checks every block of every index, or only of index 0 if the table was opened only to
/// be repaired. Reports problems to `sink`, each as a sentence of `len` bytes, and returns the
/// status of the first one, such as TEAK_CORRUPT. `interrupt` may be NULL; it is called regularly,
/// and ends the check with TEAK_INTERRUPTED when it returns true. Both are called from the calling
/// thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_table_verify(
    table: *mut teak_table,
    interrupt: Option<unsafe extern "C" fn(context: *mut c_void) -> bool>,
    sink: Option<unsafe extern "C" fn(context: *mut c_void, text: *const c_char, len: usize)>,
    context: *mut c_void,
) -> teak_status {
    boundary!([reference(table), callback(sink)] {
        let mut proceed = || match interrupt {
            // SAFETY: the caller's callback, with the caller's context.
            Some(interrupt) => unsafe { !interrupt(context) },
            None => true,
        };
        // SAFETY: as above.
        let mut findings = |text: &str| unsafe { sink(context, text.as_ptr().cast(), text.len()) };
        table.handle.verify(&mut proceed, &mut findings)?;
        Ok(())
    })
}

/// `damaged` receives whether damage was found in the table since its files were opened, or the
/// table was opened only to be repaired.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_table_is_damaged(
    table: *mut teak_table,
    damaged: *mut bool,
) -> teak_status {
    boundary!([reference(table), out(damaged)] {
        damaged.set(table.handle.is_damaged());
        Ok(())
    })
}
