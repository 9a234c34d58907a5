//! Atomics and locks of the memtable, in one place. With the feature
//! `schedules` they are those of the schedule explorer (shuttle).

pub(super) use parking_lot::{Mutex, RwLock};
pub(super) use std::sync::atomic;
pub(super) use teak_base::stripes::thread_number;
