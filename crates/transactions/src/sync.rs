//! The mutexes, condition variables and atomics of this crate. With the feature
//! `schedules` they come from shuttle, which explores thread interleavings.

use teak_base::stripes::Stripe;

#[cfg(not(feature = "schedules"))]
pub(crate) use parking_lot::{Condvar, Mutex, MutexGuard};
#[cfg(not(feature = "schedules"))]
pub(crate) use std::sync::atomic;

#[cfg(feature = "schedules")]
pub(crate) use explored::{Condvar, Mutex, MutexGuard};
#[cfg(feature = "schedules")]
pub(crate) use shuttle::sync::atomic;

/// The calling thread's stripe.
#[cfg(not(feature = "schedules"))]
pub(crate) fn current_stripe() -> Stripe {
    Stripe::current()
}

#[cfg(feature = "schedules")]
pub(crate) fn current_stripe() -> Stripe {
    Stripe::of(usize::from(shuttle::current::me()))
}

/// Shuttle's primitives with the interface of `parking_lot`. Timeouts never expire, so that shuttle
/// reports an error if no thread can run.
#[cfg(feature = "schedules")]
mod explored {
    use std::ops::{Deref, DerefMut};
    use std::sync::PoisonError;
    use std::time::Instant;

    #[derive(Debug, Default)]
    pub(crate) struct Mutex<T>(shuttle::sync::Mutex<T>);

    /// The inner guard is `None` only while its owner waits.
    pub(crate) struct MutexGuard<'a, T>(Option<shuttle::sync::MutexGuard<'a, T>>);

    impl<T> Mutex<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(shuttle::sync::Mutex::new(value))
        }

        pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
            let guard = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            MutexGuard(Some(guard))
        }

        pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
            self.0.try_lock().ok().map(|guard| MutexGuard(Some(guard)))
        }
    }

    impl<T> Deref for MutexGuard<'_, T> {
        type Target = T;

        fn deref(&self) -> &T {
            match &self.0 {
                Some(guard) => guard,
                None => unreachable!("its owner waits"),
            }
        }
    }

    impl<T> DerefMut for MutexGuard<'_, T> {
        fn deref_mut(&mut self) -> &mut T {
            match &mut self.0 {
                Some(guard) => guard,
                None => unreachable!("its owner waits"),
            }
        }
    }

    #[derive(Debug, Default)]
    pub(crate) struct Condvar(shuttle::sync::Condvar);

    pub(crate) struct Woken;

    impl Woken {
        #[allow(clippy::unused_self)] // The interface of `parking_lot`.
        pub(crate) fn timed_out(&self) -> bool {
            false
        }
    }

    impl Condvar {
        pub(crate) fn new() -> Self {
            Self(shuttle::sync::Condvar::new())
        }

        pub(crate) fn notify_all(&self) {
            self.0.notify_all();
        }

        pub(crate) fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
            if let Some(held) = guard.0.take() {
                let held = self.0.wait(held).unwrap_or_else(PoisonError::into_inner);
                guard.0 = Some(held);
            }
        }

        pub(crate) fn wait_until<T>(&self, guard: &mut MutexGuard<'_, T>, _: Instant) -> Woken {
            self.wait(guard);
            Woken
        }
    }
}
