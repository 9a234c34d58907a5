//! Altering tables in place.

use crate::arguments::{Context, GivenUp, array, exclusive, out, reference, store, teak_slice};
use crate::engine::teak_engine;
use crate::status::teak_status::{self, TEAK_DUPLICATE_KEY, TEAK_OK};
use crate::status::{Failure, call};
use crate::table::{definition_of, teak_index_definition, teak_table};
use crate::transaction::teak_duplicate;
use ::teak_engine::{AddedIndex, Alteration, AlterationPlan, EngineError, PlannedIndex};
use std::ffi::c_void;

/// A change of one table's indexes and metadata under way. Belongs to one thread at a time.
pub struct teak_alteration {
    alteration: Option<Alteration>,
}

/// An index to add.
#[repr(C)]
pub struct teak_added_index {
    /// Its file and form.
    pub definition: teak_index_definition,
    /// Two entries of one key are refused.
    pub unique: bool,
    /// Its entries are added in order of their keys, each key once: they need no sorting, and no space for it.
    pub in_order: bool,
}

/// An index of the altered table.
#[repr(C)]
pub struct teak_planned_index {
    /// One of those that were added, else one that the table has.
    pub added: bool,
    /// Its number among them.
    pub number: u32,
    /// Of a kept index: its label, and how it is written from now on. Not looked at for an added one.
    pub definition: teak_index_definition,
}

/// What a table is to be.
#[repr(C)]
pub struct teak_alteration_plan {
    /// The indexes in their new order, that of the rows first, which may be an added one; those left out are dropped.
    pub indexes: *const teak_planned_index,
    /// How many.
    pub index_count: usize,
    /// Replaces the table's metadata.
    pub metadata: teak_slice,
}

/// Begins to alter a table: makes the files of the indexes to add. No transaction that wrote the table may be open. Whoever
/// writes its rows from now on must write the entries of the added indexes too, see teak_alteration_get_index. `interrupt` may
/// be NULL; it is asked now and then by what takes long, on the calling thread, and ends it when it returns true.
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
    call(|| {
        // SAFETY: pointers as promised in `arguments`.
        let (engine, table, given) = unsafe {
            (
                reference(engine, "engine")?,
                reference(table, "table")?,
                array(added, added_count, "added")?,
            )
        };
        let alteration = out(alteration, "alteration")?;
        let mut added = Vec::with_capacity(given.len());
        for index in given {
            added.push(AddedIndex {
                // SAFETY: as above.
                definition: unsafe { definition_of(&index.definition) }?,
                unique: index.unique,
                in_order: index.in_order,
            });
        }
        let context = Context(context);
        let interrupted = move || {
            // The whole context, which may be sent, and not its pointer alone.
            let context = &context;
            match interrupt {
                // SAFETY: the caller's callback, with the caller's context.
                Some(interrupt) => unsafe { interrupt(context.0) },
                None => false,
            }
        };
        let begun = engine
            .engine
            .begin_alteration(&table.handle, &added, Box::new(interrupted))?;
        let handle = Box::new(teak_alteration {
            alteration: Some(begun),
        });
        // SAFETY: checked above.
        unsafe { store(alteration, Box::into_raw(handle)) };
        Ok(TEAK_OK)
    })
}

fn ended() -> Failure {
    Failure::invalid("the alteration has ended")
}

/// The number by which writers of rows reach an added index until the alteration ends.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_alteration_get_index(
    alteration: *mut teak_alteration,
    added: u32,
    index: *mut u32,
) -> teak_status {
    call(|| {
        // SAFETY: pointers as promised in `arguments`.
        let alteration = unsafe { reference(alteration, "alteration") }?;
        let index = out(index, "index")?;
        let number = alteration
            .alteration
            .as_ref()
            .ok_or_else(ended)?
            .index(added);
        // SAFETY: checked above.
        unsafe { store(index, number) };
        Ok(TEAK_OK)
    })
}

/// Adds the entry of a row, in any order of rows unless the index was promised another. The rows are those of one snapshot, taken after teak_alteration_begin.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_alteration_add_entry(
    alteration: *mut teak_alteration,
    added: u32,
    key: teak_slice,
    value: teak_slice,
) -> teak_status {
    call(|| {
        // SAFETY: pointers as promised in `arguments`.
        let (alteration, key, value) = unsafe {
            (
                exclusive(alteration, "alteration")?,
                key.bytes()?,
                value.bytes()?,
            )
        };
        let alteration = alteration.alteration.as_mut().ok_or_else(ended)?;
        alteration.add(added, key, value)?;
        Ok(TEAK_OK)
    })
}

/// Sorts and writes what was added. `progress` may be NULL; it hears now and then how many entries of how many are written.
/// On TEAK_DUPLICATE_KEY `duplicate` names the key that a unique index has twice, and the number of the added index; it is
/// valid until the next call on the alteration. It may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_alteration_build(
    alteration: *mut teak_alteration,
    progress: Option<unsafe extern "C" fn(context: *mut c_void, done: u64, total: u64)>,
    context: *mut c_void,
    duplicate: *mut teak_duplicate,
) -> teak_status {
    call(|| {
        // SAFETY: pointers as promised in `arguments`.
        let alteration = unsafe { exclusive(alteration, "alteration") }?;
        let alteration = alteration.alteration.as_mut().ok_or_else(ended)?;
        let built = alteration.build(&mut |done, total| {
            if let Some(progress) = progress {
                // SAFETY: the caller's callback, with the caller's context.
                unsafe { progress(context, done, total) };
            }
        });
        match built {
            Ok(()) => Ok(TEAK_OK),
            Err(EngineError::DuplicateKey) => {
                let found = alteration.duplicate();
                if !duplicate.is_null() {
                    let found = teak_duplicate {
                        index: found.index,
                        key: teak_slice::of(&found.key),
                        value: teak_slice::of(&found.value),
                    };
                    // SAFETY: an out-parameter that is not NULL.
                    unsafe { store(duplicate, found) };
                }
                Ok(TEAK_DUPLICATE_KEY)
            }
            Err(error) => Err(error.into()),
        }
    })
}

/// Commits alterations of several tables of one engine together. Nobody may write the tables meanwhile. Durable on return.
/// The alterations have ended then, whatever is returned, and must be freed. On an error the tables are as before, but for
/// TEAK_POISONED and TEAK_IO of the log, which leave the outcome to recovery.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_alteration_commit(
    alterations: *const *mut teak_alteration,
    plans: *const teak_alteration_plan,
    count: usize,
) -> teak_status {
    call(|| {
        // SAFETY: pointers as promised in `arguments`.
        let (alterations, plans) = unsafe {
            (
                array(alterations, count, "alterations")?,
                array(plans, count, "plans")?,
            )
        };
        let mut list = Vec::with_capacity(count);
        for (alteration, plan) in alterations.iter().zip(plans) {
            // SAFETY: as above.
            let alteration = unsafe { exclusive(*alteration, "an alteration") }?;
            // SAFETY: as above.
            let plan = unsafe { plan_of(plan) }?;
            list.push((alteration.alteration.take().ok_or_else(ended)?, plan));
        }
        Alteration::commit(list)?;
        Ok(TEAK_OK)
    })
}

unsafe fn plan_of(plan: &teak_alteration_plan) -> Result<AlterationPlan, Failure> {
    // SAFETY: passed on.
    let given = unsafe { array(plan.indexes, plan.index_count, "indexes") }?;
    let mut indexes = Vec::with_capacity(given.len());
    for index in given {
        indexes.push(if index.added {
            PlannedIndex::Added(index.number)
        } else {
            // SAFETY: passed on.
            PlannedIndex::Kept(index.number, unsafe { definition_of(&index.definition) }?)
        });
    }
    Ok(AlterationPlan {
        indexes,
        // SAFETY: passed on.
        metadata: unsafe { plan.metadata.bytes() }?.to_vec(),
    })
}

/// Frees an alteration; NULL is allowed. One that was not committed is undone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_alteration_end(alteration: *mut teak_alteration) {
    call(|| {
        if !alteration.is_null() {
            // SAFETY: a handle, which the caller gives up.
            drop(unsafe { GivenUp::new(alteration) });
        }
        Ok(TEAK_OK)
    });
}
