//! Opening and closing the engine, and its settings.

use crate::boundary::{boundary, read_versioned, reference};
use crate::handles::teak_engine;
use crate::options::{io_bytes_per_second, log_sync_period, options_of, teak_engine_options};
use crate::status::teak_status;
use ::teak_engine::{Engine, FileIo, file_system};

/// Opens the engine of a data directory. An empty directory becomes a new database; after a crash,
/// all durable commits are recovered first. TEAK_IN_USE when another engine has the directory open.
/// TEAK_CORRUPT when the catalogue or the log is damaged.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_engine_open(
    options: *const teak_engine_options,
    engine: *mut *mut teak_engine,
) -> teak_status {
    boundary!([out(engine)] {
        // SAFETY: the contract of `boundary`.
        let given = unsafe { read_versioned(options, "options") }?;
        // SAFETY: as above.
        let options = unsafe { options_of(&given) }?;
        let io = match given.direct_io {
            true => FileIo::Direct,
            false => FileIo::Buffered,
        };
        engine.set_handle(teak_engine {
            engine: Engine::open(file_system(&options, io), options)?,
        });
        Ok(())
    })
}

/// Flushes, writes a checkpoint and closes the engine. Before the call, all cursors and tables must
/// be closed and all transactions ended. Frees the handle even on an error. Data that could not be
/// flushed is in the log, and the next teak_engine_open() recovers it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_engine_close(engine: *mut teak_engine) -> teak_status {
    boundary!([] {
        // SAFETY: the contract of `boundary`.
        unsafe { reference(engine, "engine") }?;
        // SAFETY: not NULL, and the caller transfers it.
        let engine = unsafe { Box::from_raw(engine) };
        engine.engine.close()?;
        Ok(())
    })
}

/// Changes the memory budget, at least 1 MiB. The page cache shrinks immediately; the memtables
/// shrink as they are flushed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_engine_set_cache_bytes(
    engine: *mut teak_engine,
    bytes: u64,
) -> teak_status {
    boundary!([reference(engine)] {
        engine.engine.set_cache_bytes(bytes)?;
        Ok(())
    })
}

/// Changes the memory limit of row and range locks; 0 = an eighth of the memory budget.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_engine_set_lock_bytes_max(
    engine: *mut teak_engine,
    bytes: u64,
) -> teak_status {
    boundary!([reference(engine)] {
        engine.engine.set_lock_bytes_max(bytes);
        Ok(())
    })
}

/// Changes the memory limit of the sorts of one statement, see teak_engine_options.sort_bytes_max; 0 =
/// the default. It applies to sorts that begin afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_engine_set_sort_bytes_max(
    engine: *mut teak_engine,
    bytes: u64,
) -> teak_status {
    boundary!([reference(engine)] {
        engine.engine.set_sort_bytes_max(bytes);
        Ok(())
    })
}

/// Whether other sorts have left memory for those of a load. One that begins nevertheless gets 1 MiB.
/// false for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_engine_has_sort_memory(engine: *mut teak_engine) -> bool {
    boundary!(or false, [reference(engine)] {
        Ok(engine.engine.has_sort_memory())
    })
}

/// Takes memory for rows that the caller keeps, such as those that it may load later, from the memory
/// budget. false: all callers would keep more than a sixteenth of the budget; nothing was taken.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_engine_take_memory(engine: *mut teak_engine, bytes: u64) -> bool {
    boundary!(or false, [reference(engine)] {
        Ok(engine.engine.take_caller_bytes(bytes))
    })
}

/// Returns memory that teak_engine_take_memory() took.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_engine_return_memory(
    engine: *mut teak_engine,
    bytes: u64,
) -> teak_status {
    boundary!([reference(engine)] {
        engine.engine.return_caller_bytes(bytes);
        Ok(())
    })
}

/// Notes that the caller uses `bytes` more for other things, such as its handles of tables, or less. The memory
/// budget includes them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_engine_note_memory(
    engine: *mut teak_engine,
    bytes: i64,
) -> teak_status {
    boundary!([reference(engine)] {
        engine.engine.note_caller_bytes(bytes);
        Ok(())
    })
}

/// Changes the limit of the bytes per second that background jobs read and write, see
/// teak_engine_options.io_bytes_per_second; 0 = the default.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_engine_set_io_bytes_per_second(
    engine: *mut teak_engine,
    bytes: u64,
) -> teak_status {
    boundary!([reference(engine)] {
        engine.engine.set_io_bytes_per_second(io_bytes_per_second(bytes));
        Ok(())
    })
}

/// Sets whether commits are durable when they return; overrides
/// teak_engine_options.commit_without_sync.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_engine_set_commit_sync(
    engine: *mut teak_engine,
    sync: bool,
) -> teak_status {
    boundary!([reference(engine)] {
        engine.engine.set_commit_sync(sync);
        Ok(())
    })
}

/// Changes teak_engine_options.log_sync_period_milliseconds. 0 selects the default; TEAK_NEVER is
/// allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_engine_set_log_sync_period(
    engine: *mut teak_engine,
    milliseconds: u32,
) -> teak_status {
    boundary!([reference(engine)] {
        engine
            .engine
            .set_log_sync_period(log_sync_period(milliseconds));
        Ok(())
    })
}

/// Makes all committed transactions durable, by syncing the log.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_engine_flush_log(engine: *mut teak_engine) -> teak_status {
    boundary!([reference(engine)] {
        engine.engine.flush_log()?;
        Ok(())
    })
}

/// Flushes every memtable, writes a checkpoint of every changed index, and waits until that is
/// done. The engine writes checkpoints automatically; an explicit one shortens the next recovery.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_engine_checkpoint(engine: *mut teak_engine) -> teak_status {
    boundary!([reference(engine)] {
        engine.engine.checkpoint()?;
        Ok(())
    })
}
