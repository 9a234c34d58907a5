//! How an engine is opened.

use crate::boundary::{Context, Extensible, Failure, Versioned, first_version_bytes};
use crate::slice::teak_slice;
use ::teak_encryption::{KeySource, KeySourceError, PluginCipher};
use ::teak_engine::{
    Cipher, Encryption, EngineOptions, KeyId, KeyVersion, Level, Owner, WaitListener,
};
use std::ffi::{c_char, c_void};
use std::sync::Arc;
use std::time::Duration;
use zeroize::Zeroizing;

/// A timeout or period without end.
pub const TEAK_NEVER: u32 = u32::MAX;

/// A lock timeout: a call that would have to wait fails immediately with TEAK_LOCK_TIMEOUT. 0 has
/// the same effect, except where it selects the default.
pub const TEAK_NO_WAIT: u32 = u32::MAX - 1;

/// A number of bytes per second without a limit.
pub const TEAK_NO_LIMIT: u64 = u64::MAX;

/// Importance of a log message.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum teak_log_level {
    /// Information.
    TEAK_LOG_NOTE = 0,
    /// A failure or a condition with which the engine continues.
    TEAK_LOG_WARNING = 1,
    /// A failure that needs attention.
    TEAK_LOG_ERROR = 2,
}

/// How an engine is opened. Set all bytes to zero, then struct_size and directory; zero means the
/// default for every other field. Fields are added at the end in later versions.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct teak_engine_options {
    /// sizeof(teak_engine_options).
    pub struct_size: usize,
    /// The data directory, UTF-8. Created if it does not exist. Required.
    pub directory: teak_slice,
    /// Memory budget in bytes, for all memory of the engine. At least 1 MiB. Default: 256 MiB.
    pub cache_bytes: u64,
    /// Memory limit of row and range locks, in bytes. Default: an eighth of cache_bytes.
    pub lock_bytes_max: u64,
    /// Size in bytes at which the log continues in a new file. Default: 64 MiB.
    pub log_segment_bytes: u64,
    /// Bound of the log's size in bytes. From a quarter of it on, checkpoints shorten the log; from
    /// half of it on, writers are slowed; near it, they wait for a checkpoint. Default: 1 GiB.
    pub log_bytes_max: u64,
    /// Number of threads that flush and merge. Default: the number of cores.
    pub background_threads: u32,
    /// Limit of open file descriptors. Default: no limit. With or without a limit, the files of a
    /// table that is not used for a while are closed.
    pub open_files: u32,
    /// Seconds between checkpoints. Default: 60.
    pub checkpoint_period_seconds: u32,
    /// Maximum time in milliseconds from a commit that did not wait for a sync of the log to that
    /// sync. TEAK_NEVER: no maximum. The log is synced earlier by a durable commit, a checkpoint or
    /// a new log file, and after 16 MiB of unsynced records. Default: 1000.
    pub log_sync_period_milliseconds: u32,
    /// Lock timeout in milliseconds; TEAK_NO_WAIT: do not wait; TEAK_NEVER: no limit. Default:
    /// 4000.
    pub lock_timeout_milliseconds: u32,
    /// true: commits return before the log is synced, see log_sync_period_milliseconds. A crash of
    /// the process or the machine may lose the newest commits; if it loses a commit, it also loses
    /// all later ones. Default: false, commits are durable when they return.
    pub commit_without_sync: bool,
    /// Receives log messages: `len` bytes of UTF-8 that contain no NUL and are not followed by one.
    /// A message has one sentence or a few. Called from any thread, until teak_engine_close() has
    /// returned. The callback must not call the engine. Default: messages are dropped.
    pub log_message: Option<
        unsafe extern "C" fn(
            context: *mut c_void,
            level: teak_log_level,
            text: *const c_char,
            len: usize,
        ),
    >,
    /// Passed to log_message.
    pub log_context: *mut c_void,
    /// Called when a transaction starts to wait for another, if both have an owner
    /// (teak_transaction_set_owner() of teak_server.h), in the thread of the waiting transaction.
    /// The blocking transaction does not end before the callback returns, so the callback must not
    /// wait for that. It must not call the engine either. Default: none.
    pub wait_begins: Option<unsafe extern "C" fn(waiter: *mut c_void, holder: *mut c_void)>,
    /// Limit of the bytes per second that background jobs read and write. Jobs that writers wait for
    /// are not limited. TEAK_NO_LIMIT: no limit. Default: 256 MiB.
    pub io_bytes_per_second: u64,
    /// true: index files bypass the cache of the operating system, if the file system allows it;
    /// otherwise a message reports that they do not. Default: false.
    pub direct_io: bool,
    /// Directory of the spill files of sorts, UTF-8. It must exist. Other processes may use it, too.
    /// Default: the data directory.
    pub spill_directory: teak_slice,
    /// Memory limit of the sorts of one statement in bytes, at most a quarter of cache_bytes. Default:
    /// an eighth of cache_bytes, at most 256 MiB.
    pub sort_bytes_max: u64,
    /// Stores the newest version of a key of the key management. Returns false if there is none. Called from any thread, also
    /// by background jobs, until teak_engine_close() has returned; must not call the engine. NULL: there is no key
    /// management, so nothing is encrypted, and encrypted files cannot be read.
    pub newest_key_version:
        Option<unsafe extern "C" fn(context: *mut c_void, key: u32, version: *mut u32) -> bool>,
    /// Copies a version of a key, of 1 to `capacity` bytes, to `bytes`. Returns their number, or 0 if there is no such key.
    /// As newest_key_version otherwise.
    pub key_bytes: Option<
        unsafe extern "C" fn(
            context: *mut c_void,
            key: u32,
            version: u32,
            bytes: *mut u8,
            capacity: usize,
        ) -> usize,
    >,
    /// Passed to newest_key_version and key_bytes.
    pub key_context: *mut c_void,
    /// The id of the key with which the log is encrypted from now on. 0: it is not. Default: 0.
    pub log_encryption_key: u32,
}

// SAFETY: `repr(C)`; numbers, nullable pointers and a bool.
unsafe impl Extensible for teak_engine_options {
    const FIRST_VERSION_BYTES: usize = first_version_bytes!(Self, wait_begins, 104);
}

// SAFETY: the first field is `struct_size`.
unsafe impl Versioned for teak_engine_options {}

const IO_BYTES_PER_SECOND_DEFAULT: u64 = 256 << 20;

const LOG_SYNC_PERIOD_DEFAULT: Duration = Duration::from_secs(1);

/// Passes reports of waits to C.
struct Reports(unsafe extern "C" fn(waiter: *mut c_void, holder: *mut c_void));

impl WaitListener for Reports {
    fn wait_begins(&self, waiter: Owner, holder: Owner) {
        let pointer = std::ptr::with_exposed_provenance_mut;
        // SAFETY: the callback lives as long as the engine; owners come from
        // teak_transaction_set_owner, and neither transaction has ended.
        unsafe { (self.0)(pointer(waiter.0), pointer(holder.0)) };
    }
}

/// Converts the period for the engine, which has zero for "never".
pub(crate) fn log_sync_period(milliseconds: u32) -> Duration {
    match milliseconds {
        TEAK_NEVER => Duration::ZERO,
        0 => LOG_SYNC_PERIOD_DEFAULT,
        some => Duration::from_millis(some.into()),
    }
}

/// Converts the limit for the engine, which has zero for "no limit".
pub(crate) fn io_bytes_per_second(bytes: u64) -> u64 {
    match bytes {
        TEAK_NO_LIMIT => 0,
        0 => IO_BYTES_PER_SECOND_DEFAULT,
        some => some,
    }
}

/// Sets a field to the given value, unless that is zero, which selects the default.
fn choose<T, U: Default + PartialEq + Copy>(field: &mut T, given: U, convert: impl Fn(U) -> T) {
    if given != U::default() {
        *field = convert(given);
    }
}

/// Converts a lock timeout.
pub(crate) fn wait_time(milliseconds: u32) -> Duration {
    match milliseconds {
        TEAK_NEVER => Duration::MAX,
        TEAK_NO_WAIT => Duration::ZERO,
        some => Duration::from_millis(some.into()),
    }
}

/// The key management of C.
struct Keys {
    newest: unsafe extern "C" fn(context: *mut c_void, key: u32, version: *mut u32) -> bool,
    bytes: unsafe extern "C" fn(
        context: *mut c_void,
        key: u32,
        version: u32,
        bytes: *mut u8,
        capacity: usize,
    ) -> usize,
    context: Context,
}

/// Maximum length of a key, in bytes.
const KEY_BYTES_MAX: usize = 64;

impl KeySource for Keys {
    fn newest_version(&self, key: KeyId) -> Result<u32, KeySourceError> {
        let mut version = 0;
        let id = KeyId::number(Some(key));
        // SAFETY: the callback and its context live as long as the engine.
        match unsafe { (self.newest)(self.context.0, id, &raw mut version) } {
            true => Ok(version),
            false => Err(no_key("the key management does not have it")),
        }
    }

    fn key(&self, key: KeyVersion) -> Result<Zeroizing<Vec<u8>>, KeySourceError> {
        let mut bytes = Zeroizing::new(vec![0; KEY_BYTES_MAX]);
        let id = KeyId::number(Some(key.key));
        let out = bytes.as_mut_ptr();
        // SAFETY: the callback and its context live as long as the engine; it writes at most as many bytes.
        let length = unsafe { (self.bytes)(self.context.0, id, key.version, out, KEY_BYTES_MAX) };
        match length {
            1..=KEY_BYTES_MAX => {
                bytes.truncate(length);
                Ok(bytes)
            }
            _ => Err(no_key("the key management does not return it")),
        }
    }
}

fn no_key(reason: &str) -> KeySourceError {
    KeySourceError(reason.into())
}

fn encryption_of(options: &teak_engine_options) -> Encryption {
    let source = options.newest_key_version.zip(options.key_bytes);
    let source = source.map(|(newest, bytes)| Keys {
        newest,
        bytes,
        context: Context(options.key_context),
    });
    Encryption {
        cipher: source
            .map(|source| -> Arc<dyn Cipher> { Arc::new(PluginCipher::new(Box::new(source))) }),
        key: KeyId::new(options.log_encryption_key),
    }
}

/// Converts the options for the engine.
pub(crate) unsafe fn options_of(options: &teak_engine_options) -> Result<EngineOptions, Failure> {
    // SAFETY: the contract of `boundary`.
    let directory = unsafe { options.directory.text("directory") }?;
    if directory.is_empty() {
        return Err(Failure::invalid("directory is empty"));
    }
    let mut chosen = EngineOptions::new(directory);
    let bytes = |bytes| bytes;
    choose(&mut chosen.cache_bytes, options.cache_bytes, bytes);
    choose(&mut chosen.lock_bytes_max, options.lock_bytes_max, bytes);
    choose(&mut chosen.sort_bytes_max, options.sort_bytes_max, bytes);
    // SAFETY: the contract of `boundary`.
    let spill_directory = unsafe { options.spill_directory.text("spill_directory") }?;
    if !spill_directory.is_empty() {
        chosen.spill_directory = Some(spill_directory.into());
    }
    choose(
        &mut chosen.log_segment_bytes,
        options.log_segment_bytes,
        bytes,
    );
    choose(&mut chosen.log_bytes_max, options.log_bytes_max, bytes);
    let number = |number| usize::try_from(number).unwrap_or(usize::MAX);
    choose(
        &mut chosen.background_threads,
        options.background_threads,
        number,
    );
    choose(&mut chosen.open_files, options.open_files, number);
    choose(
        &mut chosen.checkpoint_period,
        options.checkpoint_period_seconds,
        |seconds| Duration::from_secs(seconds.into()),
    );
    choose(
        &mut chosen.log_sync_period,
        options.log_sync_period_milliseconds,
        log_sync_period,
    );
    choose(
        &mut chosen.lock_timeout,
        options.lock_timeout_milliseconds,
        wait_time,
    );
    chosen.io_bytes_per_second = io_bytes_per_second(options.io_bytes_per_second);
    chosen.commit_sync = !options.commit_without_sync;
    if let Some(log_message) = options.log_message {
        let context = Context(options.log_context);
        chosen.messages = Some(Arc::new(move |level, text: &str| {
            let Context(context) = { context };
            let level = match level {
                Level::Note => teak_log_level::TEAK_LOG_NOTE,
                Level::Warning => teak_log_level::TEAK_LOG_WARNING,
                Level::Error => teak_log_level::TEAK_LOG_ERROR,
            };
            // SAFETY: the callback and its context live as long as the engine.
            unsafe { log_message(context, level, text.as_ptr().cast(), text.len()) };
        }));
    }
    if let Some(wait_begins) = options.wait_begins {
        chosen.wait_listener = Some(Arc::new(Reports(wait_begins)));
    }
    chosen.encryption = encryption_of(options);
    #[cfg(feature = "allocator")]
    crate::allocator::measure(&mut chosen);
    Ok(chosen)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_to_wait_have_two_special_values() {
        assert_eq!(wait_time(TEAK_NEVER), Duration::MAX);
        assert_eq!(wait_time(TEAK_NO_WAIT), Duration::ZERO);
        assert_eq!(wait_time(0), Duration::ZERO);
        assert_eq!(wait_time(1500), Duration::from_millis(1500));
    }
}
