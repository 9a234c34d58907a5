//! Calls made once per row do not allocate. The few allocations that the test permits on the
//! calling thread are amortised growth in the layers below.

// With the feature `allocator`, the library has its own global allocator.
#![cfg(not(feature = "allocator"))]
#![allow(unsafe_code, clippy::unwrap_used)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::ptr::null_mut;
use teak_c_api::cursor::*;
use teak_c_api::engine::*;
use teak_c_api::handles::{teak_cursor, teak_table, teak_transaction};
use teak_c_api::options::teak_engine_options;
use teak_c_api::row::*;
use teak_c_api::slice::teak_slice;
use teak_c_api::status::teak_status::{TEAK_DUPLICATE_KEY, TEAK_NOT_FOUND, TEAK_OK};
use teak_c_api::table::*;
use teak_c_api::transaction::*;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

/// The system's allocator, with a count of the allocations of each thread.
struct Counting;

// SAFETY: every call is passed to `System`; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
        // SAFETY: the caller guarantees what `System` requires.
        unsafe { System.alloc(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
        // SAFETY: the caller guarantees what `System` requires.
        unsafe { System.realloc(pointer, layout, bytes) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller guarantees what `System` requires.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const ROWS: u32 = 10_000;
const NONE: teak_slice = slice(&[]);

const fn slice(bytes: &[u8]) -> teak_slice {
    teak_slice {
        data: bytes.as_ptr(),
        len: bytes.len(),
    }
}

/// Runs the call for every row. There may be fewer than one allocation for fifty rows.
fn sparing(what: &str, mut each: impl FnMut(u32)) {
    let before = ALLOCATIONS.get();
    (0..ROWS).for_each(&mut each);
    let made = ALLOCATIONS.get() - before;
    assert!(
        made < u64::from(ROWS / 50),
        "{what}: {made} allocations for {ROWS} rows"
    );
}

fn entries(key: &[u8; 8]) -> [teak_row_entry; 3] {
    [0, 1, 2].map(|index| teak_row_entry {
        index,
        unchecked: index == 2,
        key: slice(key),
        value: slice(b"a value of some length"),
    })
}

fn options(directory: &str) -> teak_engine_options {
    teak_engine_options {
        struct_size: size_of::<teak_engine_options>(),
        directory: slice(directory.as_bytes()),
        cache_bytes: 128 << 20,
        log_segment_bytes: 0,
        log_bytes_max: 0,
        background_threads: 1,
        checkpoint_period_seconds: 0,
        commit_without_sync: true,
        log_sync_period_milliseconds: 0,
        lock_timeout_milliseconds: 50,
        open_files: 0,
        log_message: None,
        log_context: null_mut(),
        lock_bytes_max: 0,
        wait_begins: None,
        io_bytes_per_second: 0,
        direct_io: false,
        spill_directory: slice(b""),
        sort_bytes_max: 0,
        newest_key_version: None,
        key_bytes: None,
        key_context: null_mut(),
        log_encryption_key: 0,
    }
}

fn new_directory() -> std::path::PathBuf {
    let directory = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join(format!("allocations-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&directory);
    std::fs::create_dir_all(&directory).unwrap();
    directory
}

fn index(label: &'static [u8]) -> teak_index_definition {
    teak_index_definition {
        label: slice(label),
        codec: teak_c_api::codec::teak_codec::TEAK_CODEC_LZ4 as u32,
        page_bytes: 0,
        exact_lookups: true,
        value_fixed_bytes: 0,
        key_columns: std::ptr::null(),
        key_column_count: 0,
        value_columns: std::ptr::null(),
        value_column_count: 0,
        optional_columns: std::ptr::null(),
        optional_column_count: 0,
        variable_columns: std::ptr::null(),
        variable_column_count: 0,
        suffix: 0,
        suffix_bytes: 0,
        encryption_key: 0,
    }
}

/// Ends the transaction, and reads each row in a transaction of its own with the same handles.
unsafe fn read_in_short_transactions(
    transaction: *mut teak_transaction,
    table: *mut teak_table,
    cursor: *mut teak_cursor,
) {
    let mut row = teak_row {
        key: NONE,
        value: NONE,
    };
    // SAFETY: the caller's handles are open, and every slice outlives its call.
    unsafe {
        assert_eq!(teak_transaction_take_snapshot(transaction), TEAK_OK);
        teak_cursor_park(cursor);
        assert_eq!(teak_transaction_commit_and_keep(transaction), TEAK_OK);
        sparing("transactions that read one row", |n| {
            assert_eq!(teak_transaction_begin_again(transaction, 2), TEAK_OK);
            assert_eq!(
                teak_cursor_open_again(cursor, transaction, table, 0, 0),
                TEAK_OK
            );
            let key = u64::from(n).to_be_bytes();
            assert_eq!(teak_cursor_get(cursor, slice(&key), &mut row), TEAK_OK);
            teak_cursor_park(cursor);
            assert_eq!(teak_transaction_commit_and_keep(transaction), TEAK_OK);
        });
    }
}

#[test]
fn calls_made_per_row_do_not_allocate() {
    let directory = new_directory();
    let options = options(directory.to_str().unwrap());
    let name = slice(b"./db/rows");
    let indexes = [b"p", b"u", b"s"].map(|label| index(label));
    let definition = teak_table_definition {
        struct_size: size_of::<teak_table_definition>(),
        index_struct_size: size_of::<teak_index_definition>(),
        name,
        indexes: indexes.as_ptr(),
        index_count: indexes.len(),
        metadata: NONE,
    };
    let (mut engine, mut table, mut transaction, mut cursor) =
        (null_mut(), null_mut(), null_mut(), null_mut());
    let mut row = teak_row {
        key: NONE,
        value: NONE,
    };
    // SAFETY: handles come from the calls above each use, and every slice
    // outlives its call.
    unsafe {
        assert_eq!(teak_engine_open(&options, &mut engine), TEAK_OK);
        assert!(ALLOCATIONS.get() > 0, "the allocator counts");
        assert_eq!(teak_table_create(engine, &definition), TEAK_OK);
        assert_eq!(teak_table_open(engine, name, &mut table), TEAK_OK);
        assert_eq!(teak_transaction_begin(engine, 2, &mut transaction), TEAK_OK);
        sparing("insert", |n| {
            let key = u64::from(n).to_be_bytes();
            let row = entries(&key);
            assert_eq!(
                teak_transaction_insert(transaction, table, row.as_ptr(), 3, null_mut()),
                TEAK_OK
            );
        });
        let mut duplicate = teak_duplicate {
            index: 9,
            key: NONE,
            value: NONE,
            is_locked: false,
        };
        sparing("duplicate", |n| {
            let key = u64::from(n).to_be_bytes();
            let row = entries(&key);
            let status =
                teak_transaction_insert(transaction, table, row.as_ptr(), 3, &mut duplicate);
            assert_eq!(status, TEAK_DUPLICATE_KEY);
        });
        assert_eq!(teak_transaction_commit(transaction), TEAK_OK);

        assert_eq!(teak_transaction_begin(engine, 2, &mut transaction), TEAK_OK);
        assert_eq!(
            teak_cursor_open(transaction, table, 0, 0, &mut cursor),
            TEAK_OK
        );
        assert_eq!(teak_cursor_first(cursor, &mut row), TEAK_OK);
        assert_eq!(teak_cursor_previous(cursor, &mut row), TEAK_NOT_FOUND);
        assert_eq!(teak_cursor_first(cursor, &mut row), TEAK_OK);
        sparing("next", |n| {
            let expected = if n + 1 < ROWS {
                TEAK_OK
            } else {
                TEAK_NOT_FOUND
            };
            assert_eq!(teak_cursor_next(cursor, &mut row), expected);
        });
        sparing("get", |n| {
            let key = u64::from(n).to_be_bytes();
            assert_eq!(teak_cursor_get(cursor, slice(&key), &mut row), TEAK_OK);
        });
        sparing("get of absent keys", |n| {
            let key = (u64::from(n) + (1 << 40)).to_be_bytes();
            assert_eq!(
                teak_cursor_get(cursor, slice(&key), &mut row),
                TEAK_NOT_FOUND
            );
        });
        read_in_short_transactions(transaction, table, cursor);
        teak_cursor_close(cursor);
        assert_eq!(teak_transaction_begin_again(transaction, 2), TEAK_OK);
        sparing("delete", |n| {
            let key = u64::from(n).to_be_bytes();
            let row = entries(&key);
            assert_eq!(
                teak_transaction_delete(transaction, table, row.as_ptr(), 3),
                TEAK_OK
            );
        });
        assert_eq!(teak_transaction_rollback(transaction), TEAK_OK);
        teak_table_close(table);
        assert_eq!(teak_engine_close(engine), TEAK_OK);
    }
    let _ = std::fs::remove_dir_all(&directory);
}
