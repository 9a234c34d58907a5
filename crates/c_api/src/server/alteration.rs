//! Altering tables in place.

use crate::boundary::{
    Failure, array, boundary, exclusive, free, interruption, progress_report, reference,
};
use crate::handles::{teak_engine, teak_table, teak_transaction};
use crate::row::{teak_duplicate, with_duplicate};
use crate::slice::teak_slice;
use crate::status::teak_status;
use crate::table::{definition_of, teak_index_definition};
use ::teak_engine::{
    AddedIndex, Alteration, AlterationPlan, EntryOrder, IndexNumber, PlannedIndex,
};
use std::ffi::c_void;

/// A change of a table's indexes and metadata in progress. One thread at a time uses it.
pub struct teak_alteration {
    pub(crate) alteration: Option<Alteration>,
}

/// An index to add.
#[repr(C)]
pub struct teak_added_index {
    /// Label and format.
    pub definition: teak_index_definition,
    /// true: two entries with equal keys are an error.
    pub unique: bool,
    /// true: entries are added in strictly ascending order of their keys. The engine then needs
    /// neither memory nor disk space to sort them.
    pub in_order: bool,
}

/// An index of the altered table.
#[repr(C)]
pub struct teak_planned_index {
    /// true: an added index; false: an existing index of the table.
    pub added: bool,
    /// Its number among the added indexes, or among the existing ones.
    pub number: u32,
    /// For an existing index: its new label, and the format of pages written later. Ignored for an
    /// added index.
    pub definition: teak_index_definition,
}

/// The table after the alteration.
#[repr(C)]
pub struct teak_alteration_plan {
    /// The indexes in their new order. The first one contains the rows and may be an added one.
    /// Indexes that are not listed are dropped.
    pub indexes: *const teak_planned_index,
    /// Number of indexes.
    pub index_count: usize,
    /// Replaces the table's metadata.
    pub metadata: teak_slice,
}

/// Begins to alter a table: creates the files of the indexes to add. No transaction that has
/// written the table may be active; TEAK_LOCK_TIMEOUT when one is prepared and has no handle. After
/// this call, writers of its rows must also write the entries of the added indexes, see
/// teak_alteration_get_index(). `interrupt` may be NULL. Long calls on the alteration call it
/// regularly, on the calling thread, and end with TEAK_INTERRUPTED when it returns true.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_alteration_begin(
    engine: *mut teak_engine,
    table: *mut teak_table,
    added: *const teak_added_index,
    added_count: usize,
    interrupt: Option<unsafe extern "C" fn(context: *mut c_void) -> bool>,
    context: *mut c_void,
    alteration: *mut *mut teak_alteration,
) -> teak_status {
    boundary!([reference(engine), reference(table), array(added, added_count), out(alteration)] {
        let mut indexes = Vec::with_capacity(added.len());
        for index in added {
            indexes.push(AddedIndex {
                // SAFETY: the contract of `boundary`.
                definition: unsafe { definition_of(&index.definition) }?,
                unique: index.unique,
                entry_order: if index.in_order {
                    EntryOrder::ByKey
                } else {
                    EntryOrder::Any
                },
            });
        }
        let interrupted = interruption(interrupt, context);
        let begun = engine
            .engine
            .begin_alteration(&table.handle, &indexes, Box::new(interrupted))?;
        alteration.set_handle(teak_alteration {
            alteration: Some(begun),
        });
        Ok(())
    })
}

/// The number by which writers of rows refer to an added index until the alteration ends.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_alteration_get_index(
    alteration: *mut teak_alteration,
    added: u32,
    index: *mut u32,
) -> teak_status {
    boundary!([reference(alteration), out(index)] {
        let alteration = alteration.alteration.as_ref().ok_or_else(Failure::alteration_ended)?;
        index.set(alteration.index(added).0);
        Ok(())
    })
}

/// The limit of an alteration's I/O.
pub struct teak_background_io {
    _scope: ::teak_engine::IoScope,
}

/// From now on, until teak_alteration_end_io(), which must be called by the same thread, the calling thread
/// reads and writes no more than background jobs may (teak_engine_options.io_bytes_per_second), and
/// lets other threads read first: it waits in the functions of the alteration.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_alteration_begin_io(
    alteration: *mut teak_alteration,
    scope: *mut *mut teak_background_io,
) -> teak_status {
    boundary!([reference(alteration), out(scope)] {
        let alteration = alteration.alteration.as_ref().ok_or_else(Failure::alteration_ended)?;
        scope.set_handle(teak_background_io {
            _scope: alteration.begin_background_io(),
        });
        Ok(())
    })
}

/// Ends the limit; NULL is allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_alteration_end_io(scope: *mut teak_background_io) {
    free!(scope);
}

/// Adds the entry of a row of the table. Entries may be added in any order unless the index is
/// `in_order`. The rows must be read from one snapshot taken after teak_alteration_begin().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_alteration_add_entry(
    alteration: *mut teak_alteration,
    added: u32,
    key: teak_slice,
    value: teak_slice,
) -> teak_status {
    boundary!([exclusive(alteration), bytes(key), bytes(value)] {
        let alteration = alteration.alteration.as_mut().ok_or_else(Failure::alteration_ended)?;
        alteration.add(added, key, value)?;
        Ok(())
    })
}

/// Sorts and writes the entries that were added. `progress` may be NULL; it is called regularly on
/// the calling thread, with the number of written entries and their total. On TEAK_DUPLICATE_KEY
/// `duplicate`, which may be NULL, receives the duplicate key and the number of the added index; it
/// is valid until the next call on the alteration.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_alteration_build(
    alteration: *mut teak_alteration,
    progress: Option<unsafe extern "C" fn(context: *mut c_void, done: u64, total: u64)>,
    context: *mut c_void,
    duplicate: *mut teak_duplicate,
) -> teak_status {
    boundary!([exclusive(alteration), maybe_out(duplicate)] {
        let alteration = alteration.alteration.as_mut().ok_or_else(Failure::alteration_ended)?;
        let built = alteration.build(&mut progress_report(progress, context));
        with_duplicate(built, duplicate, || alteration.duplicate())?;
        Ok(())
    })
}

/// Looks keys of added unique indexes that were written since teak_alteration_begin() up among the
/// entries that were added. Called after teak_alteration_build(), if rows were written in the meantime.
/// `reader`: the transaction that has read the rows, from one snapshot that it still has, and which it took
/// before rows were written. With NULL, only duplicates that writers have found are returned; the call is
/// so repeated before teak_alteration_commit(), when no transaction writes the table. On
/// TEAK_DUPLICATE_KEY `duplicate`, which may be NULL, receives an entry with the duplicate key; it is
/// valid until the next call on the alteration.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_alteration_verify(
    alteration: *mut teak_alteration,
    reader: *mut teak_transaction,
    duplicate: *mut teak_duplicate,
) -> teak_status {
    boundary!([exclusive(alteration), maybe_out(duplicate)] {
        let alteration = alteration.alteration.as_mut().ok_or_else(Failure::alteration_ended)?;
        let reader = match reader.is_null() {
            true => None,
            // SAFETY: the contract of `boundary`; the calling thread is the owner.
            false => Some(unsafe { reference(reader, "reader")?.owned() }),
        };
        let verified = alteration.verify(reader);
        with_duplicate(verified, duplicate, || alteration.duplicate())?;
        Ok(())
    })
}

/// Commits alterations of one or several tables of one engine atomically. No transaction may write
/// the tables during the call. Durable on return. The call ends the alterations, even after an
/// error. Free them with teak_alteration_end(). After an error the tables are unchanged, except
/// after TEAK_POISONED and TEAK_IO of the log: then recovery determines the outcome.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_alteration_commit(
    alterations: *const *mut teak_alteration,
    plans: *const teak_alteration_plan,
    count: usize,
) -> teak_status {
    boundary!([array(alterations, count), array(plans, count)] {
        let mut list = Vec::with_capacity(count);
        for (alteration, plan) in alterations.iter().zip(plans) {
            // SAFETY: the contract of `boundary`.
            let (alteration, plan) =
                unsafe { (exclusive(*alteration, "alteration")?, plan_of(plan)?) };
            list.push((alteration.alteration.take().ok_or_else(Failure::alteration_ended)?, plan));
        }
        Alteration::commit(list)?;
        Ok(())
    })
}

unsafe fn plan_of(plan: &teak_alteration_plan) -> Result<AlterationPlan, Failure> {
    // SAFETY: the caller guarantees the contract of `boundary`.
    let given = unsafe { array(plan.indexes, plan.index_count, "indexes") }?;
    let mut indexes = Vec::with_capacity(given.len());
    for index in given {
        indexes.push(if index.added {
            PlannedIndex::Added(index.number)
        } else {
            // SAFETY: the caller guarantees the contract of `boundary`.
            PlannedIndex::Kept(IndexNumber(index.number), unsafe {
                definition_of(&index.definition)
            }?)
        });
    }
    Ok(AlterationPlan {
        indexes,
        // SAFETY: the caller guarantees the contract of `boundary`.
        metadata: unsafe { plan.metadata.bytes() }?.to_vec(),
    })
}

/// Frees an alteration, and undoes it if it was not committed; NULL is allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_alteration_end(alteration: *mut teak_alteration) {
    free!(alteration);
}
