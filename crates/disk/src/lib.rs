//! The interface to storage: the only crate that calls the file functions of the
//! operating system. All crates above use a [`Disk`], so that tests can replace
//! it, for example by a disk with planned faults (`crates/testing`).

mod disk;
mod limited;
mod locks;
mod memory;
mod real;
mod system;
mod temporary;

pub use disk::{Disk, DiskFile};
pub use limited::LimitedDisk;
pub use locks::{DiskLock, LockTable};
pub use memory::MemoryDisk;
pub use real::RealDisk;
pub use temporary::TemporaryDisk;
