//! RocksDB, an LSM tree, by the functions of its C interface that the benchmark needs.
#![allow(unsafe_code)]

use super::{Change, Failure, Store};
use std::ffi::{CStr, CString, c_char, c_double, c_int, c_uchar, c_void};
use std::path::Path;
use std::ptr::{NonNull, null_mut};

/// A pointer to any of RocksDB's objects.
type Object = *mut c_void;
type Message = *mut *mut c_char;

// Declarations of <rocksdb/c.h> of release 7.8.
unsafe extern "C" {
    fn rocksdb_open(options: Object, name: *const c_char, error: Message) -> Object;
    fn rocksdb_close(database: Object);
    fn rocksdb_write(database: Object, options: Object, batch: Object, error: Message);
    fn rocksdb_get(
        database: Object,
        options: Object,
        key: *const u8,
        key_bytes: usize,
        value_bytes: *mut usize,
        error: Message,
    ) -> *mut c_void;
    fn rocksdb_flush(database: Object, options: Object, error: Message);
    fn rocksdb_free(memory: *mut c_void);

    fn rocksdb_create_iterator(database: Object, options: Object) -> Object;
    fn rocksdb_iter_destroy(iterator: Object);
    fn rocksdb_iter_seek(iterator: Object, key: *const u8, key_bytes: usize);
    fn rocksdb_iter_valid(iterator: Object) -> c_uchar;
    fn rocksdb_iter_next(iterator: Object);
    fn rocksdb_iter_key(iterator: Object, bytes: *mut usize) -> *const u8;
    fn rocksdb_iter_value(iterator: Object, bytes: *mut usize) -> *const u8;
    fn rocksdb_iter_get_error(iterator: Object, error: Message);

    fn rocksdb_writebatch_create() -> Object;
    fn rocksdb_writebatch_destroy(batch: Object);
    fn rocksdb_writebatch_put(
        batch: Object,
        key: *const u8,
        key_bytes: usize,
        value: *const u8,
        value_bytes: usize,
    );
    fn rocksdb_writebatch_delete(batch: Object, key: *const u8, key_bytes: usize);

    fn rocksdb_options_create() -> Object;
    fn rocksdb_options_destroy(options: Object);
    fn rocksdb_options_set_create_if_missing(options: Object, value: c_uchar);
    fn rocksdb_options_set_compression(options: Object, codec: c_int);
    fn rocksdb_options_set_db_write_buffer_size(options: Object, bytes: usize);
    fn rocksdb_options_set_block_based_table_factory(options: Object, table: Object);
    fn rocksdb_block_based_options_create() -> Object;
    fn rocksdb_block_based_options_destroy(table: Object);
    fn rocksdb_block_based_options_set_block_cache(table: Object, cache: Object);
    fn rocksdb_block_based_options_set_cache_index_and_filter_blocks(table: Object, value: c_uchar);
    fn rocksdb_block_based_options_set_filter_policy(table: Object, policy: Object);
    fn rocksdb_cache_create_lru(bytes: usize) -> Object;
    fn rocksdb_cache_destroy(cache: Object);
    fn rocksdb_filterpolicy_create_bloom_full(bits: c_double) -> Object;
    fn rocksdb_writeoptions_create() -> Object;
    fn rocksdb_writeoptions_destroy(options: Object);
    fn rocksdb_writeoptions_set_sync(options: Object, value: c_uchar);
    fn rocksdb_readoptions_create() -> Object;
    fn rocksdb_readoptions_destroy(options: Object);
    fn rocksdb_flushoptions_create() -> Object;
    fn rocksdb_flushoptions_destroy(options: Object);
}

const LZ4: c_int = 4;
const FILTER_BITS: c_double = 10.0;

pub struct RocksDb {
    database: Object,
    durable: Object,
    reads: Object,
    flushes: Object,
}

/// Calls `call` with a place for an error message, which RocksDB allocates.
fn checked<R>(call: impl FnOnce(Message) -> R) -> Result<R, Failure> {
    let mut message: *mut c_char = null_mut();
    let result = call(&raw mut message);
    match NonNull::new(message) {
        None => Ok(result),
        Some(text) => {
            // SAFETY: on failure RocksDB stores a string that ends with zero, and that the caller frees.
            let failure = unsafe { CStr::from_ptr(text.as_ptr()) }
                .to_string_lossy()
                .into_owned();
            // SAFETY: as above; it is not used afterwards.
            unsafe { rocksdb_free(text.as_ptr().cast()) };
            Err(failure.into())
        }
    }
}

impl RocksDb {
    pub fn open(directory: &Path, cache_bytes: u64) -> Result<Self, Failure> {
        let name = CString::new(
            directory
                .to_str()
                .ok_or("a directory's name is not UTF-8")?,
        )?;
        let cache_bytes = usize::try_from(cache_bytes)?;
        // SAFETY: the objects are created here. The options share ownership of the cache, and own the filter policy and
        // a copy of the table's options; the database copies the options.
        unsafe {
            let (options, table) = (
                rocksdb_options_create(),
                rocksdb_block_based_options_create(),
            );
            let cache = rocksdb_cache_create_lru(cache_bytes / 4 * 3);
            rocksdb_block_based_options_set_block_cache(table, cache);
            // As in the other engines, indexes and filters count towards the cache.
            rocksdb_block_based_options_set_cache_index_and_filter_blocks(table, 1);
            rocksdb_block_based_options_set_filter_policy(
                table,
                rocksdb_filterpolicy_create_bloom_full(FILTER_BITS),
            );
            rocksdb_options_set_block_based_table_factory(options, table);
            rocksdb_options_set_db_write_buffer_size(options, cache_bytes / 4);
            rocksdb_options_set_compression(options, LZ4);
            rocksdb_options_set_create_if_missing(options, 1);
            let database = checked(|error| rocksdb_open(options, name.as_ptr(), error));
            rocksdb_options_destroy(options);
            rocksdb_block_based_options_destroy(table);
            rocksdb_cache_destroy(cache);
            let durable = rocksdb_writeoptions_create();
            rocksdb_writeoptions_set_sync(durable, 1);
            Ok(Self {
                database: database?,
                durable,
                reads: rocksdb_readoptions_create(),
                flushes: rocksdb_flushoptions_create(),
            })
        }
    }
}

impl Store for RocksDb {
    fn commit(&self, changes: &[Change]) -> Result<(), Failure> {
        // SAFETY: the batch exists until it is destroyed below, and copies keys and values.
        unsafe {
            let batch = rocksdb_writebatch_create();
            for change in changes {
                match change {
                    Change::Put(key, value) => rocksdb_writebatch_put(
                        batch,
                        key.as_ptr(),
                        key.len(),
                        value.as_ptr(),
                        value.len(),
                    ),
                    Change::Delete(key) => {
                        rocksdb_writebatch_delete(batch, key.as_ptr(), key.len())
                    }
                }
            }
            let done = checked(|error| rocksdb_write(self.database, self.durable, batch, error));
            rocksdb_writebatch_destroy(batch);
            done
        }
    }

    fn get(&self, key: &[u8]) -> Result<Option<usize>, Failure> {
        let mut bytes = 0;
        // SAFETY: the key is read during the call only; `bytes` is valid.
        let value = checked(|error| unsafe {
            rocksdb_get(
                self.database,
                self.reads,
                key.as_ptr(),
                key.len(),
                &raw mut bytes,
                error,
            )
        })?;
        if value.is_null() {
            return Ok(None);
        }
        // SAFETY: the caller owns the copy of the value.
        unsafe { rocksdb_free(value) };
        Ok(Some(bytes))
    }

    fn scan(&self, from: &[u8], limit: usize) -> Result<usize, Failure> {
        // SAFETY: the iterator exists until it is destroyed below. Key and value are valid until it moves.
        unsafe {
            let iterator = rocksdb_create_iterator(self.database, self.reads);
            rocksdb_iter_seek(iterator, from.as_ptr(), from.len());
            let mut rows = 0;
            while rows < limit && rocksdb_iter_valid(iterator) != 0 {
                let mut bytes = (0, 0);
                std::hint::black_box((
                    rocksdb_iter_key(iterator, &raw mut bytes.0),
                    rocksdb_iter_value(iterator, &raw mut bytes.1),
                ));
                rows += 1;
                rocksdb_iter_next(iterator);
            }
            let done = checked(|error| rocksdb_iter_get_error(iterator, error));
            rocksdb_iter_destroy(iterator);
            done.map(|()| rows)
        }
    }

    fn flush(&self) -> Result<(), Failure> {
        // SAFETY: the database and the options exist.
        checked(|error| unsafe { rocksdb_flush(self.database, self.flushes, error) })
    }
}

impl Drop for RocksDb {
    fn drop(&mut self) {
        // SAFETY: nothing uses the objects afterwards.
        unsafe {
            rocksdb_close(self.database);
            rocksdb_writeoptions_destroy(self.durable);
            rocksdb_readoptions_destroy(self.reads);
            rocksdb_flushoptions_destroy(self.flushes);
        }
    }
}
