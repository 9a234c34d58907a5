//! The atomics, locks and waits of the memtable. With the feature `schedules`, the types come from
//! shuttle, which explores interleavings in tests. Without it, they come from the standard library
//! and `parking_lot`.

#[cfg(not(feature = "schedules"))]
pub(super) use parking_lot::{Mutex, RwLock};
#[cfg(not(feature = "schedules"))]
pub(super) use std::sync::atomic;
#[cfg(not(feature = "schedules"))]
pub(super) use std::thread::yield_now;
#[cfg(not(feature = "schedules"))]
pub(super) use teak_base::stripes::thread_number;

#[cfg(feature = "schedules")]
pub(super) use explored::{Mutex, RwLock, thread_number};
#[cfg(feature = "schedules")]
pub(super) use shuttle::sync::atomic;
#[cfg(feature = "schedules")]
pub(super) use shuttle::thread::yield_now;

/// Whether a waiting thread yields without spinning: Miri and shuttle run one
/// thread at a time.
pub(super) const YIELDS_WITHOUT_SPINNING: bool = cfg!(miri) || cfg!(feature = "schedules");

/// Shuttle's locks, wrapped in the interface of `parking_lot`.
#[cfg(feature = "schedules")]
mod explored {
    use shuttle::sync::{MutexGuard, RwLockReadGuard, RwLockWriteGuard};
    use std::sync::PoisonError;

    #[derive(Debug, Default)]
    pub(in crate::memtable) struct Mutex<T>(shuttle::sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub(in crate::memtable) fn new(value: T) -> Self {
            Self(shuttle::sync::Mutex::new(value))
        }

        pub(in crate::memtable) fn lock(&self) -> MutexGuard<'_, T> {
            self.0.lock().unwrap_or_else(PoisonError::into_inner)
        }

        pub(in crate::memtable) fn get_mut(&mut self) -> &mut T {
            self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
        }
    }

    #[derive(Debug, Default)]
    pub(in crate::memtable) struct RwLock<T>(shuttle::sync::RwLock<T>);

    impl<T> RwLock<T> {
        pub(in crate::memtable) fn new(value: T) -> Self {
            Self(shuttle::sync::RwLock::new(value))
        }

        pub(in crate::memtable) fn read(&self) -> RwLockReadGuard<'_, T> {
            self.0.read().unwrap_or_else(PoisonError::into_inner)
        }

        pub(in crate::memtable) fn write(&self) -> RwLockWriteGuard<'_, T> {
            self.0.write().unwrap_or_else(PoisonError::into_inner)
        }
    }

    pub(in crate::memtable) fn thread_number() -> usize {
        usize::from(shuttle::current::me())
    }
}
