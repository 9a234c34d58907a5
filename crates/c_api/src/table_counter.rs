//! Durable counters of a table.

use crate::boundary::{Failure, boundary};
use crate::handles::{teak_table, teak_transaction};
use crate::status::teak_status;

/// Number of counters that a table has.
pub const TEAK_TABLE_COUNTERS: u32 = 8;

const _: () = assert!(TEAK_TABLE_COUNTERS as usize == ::teak_engine::COUNTERS);

fn number_of(counter: u32) -> Result<u8, Failure> {
    u8::try_from(counter).map_err(|_| Failure::invalid("counter is out of range"))
}

/// The value of a counter of the table; `counter` is 0 to TEAK_TABLE_COUNTERS - 1. Counters belong
/// to no transaction: a rollback does not change them. They are 0 in a new table.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_table_counter_get(
    table: *mut teak_table,
    counter: u32,
    value: *mut u64,
) -> teak_status {
    boundary!([reference(table), out(value)] {
        value.set(table.handle.counter(number_of(counter)?)?);
        Ok(())
    })
}

/// Raises a counter to `value`, unless it is already that high. Durable with the next durable
/// commit of any transaction with writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_table_counter_advance(
    table: *mut teak_table,
    counter: u32,
    value: u64,
) -> teak_status {
    boundary!([reference(table)] {
        table.handle.advance_counter(number_of(counter)?, value)?;
        Ok(())
    })
}

/// Sets a counter to a higher or lower value. If another thread raises the counter at the same
/// time, that value remains. Durable with the next durable commit of any transaction with writes.
/// After an error the counter is unchanged.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_table_counter_set(
    table: *mut teak_table,
    counter: u32,
    value: u64,
) -> teak_status {
    boundary!([reference(table)] {
        table.handle.set_counter(number_of(counter)?, value)?;
        Ok(())
    })
}

/// Locks a counter. Lock calls are counted: the counter remains locked until the same number of
/// unlock calls, or until the transaction ends. Waits like a row lock. The lock is advisory: the
/// other calls on counters ignore it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_table_counter_lock(
    transaction: *mut teak_transaction,
    table: *mut teak_table,
    counter: u32,
) -> teak_status {
    boundary!([owned(transaction), reference(table)] {
        transaction.lock_counter(&table.handle, number_of(counter)?)?;
        Ok(())
    })
}

/// Undoes one lock call of a counter; the last one releases the lock. Does nothing when the
/// transaction does not hold the lock.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_table_counter_unlock(
    transaction: *mut teak_transaction,
    table: *mut teak_table,
    counter: u32,
) -> teak_status {
    boundary!([owned(transaction), reference(table)] {
        transaction.unlock_counter(&table.handle, number_of(counter)?)?;
        Ok(())
    })
}
