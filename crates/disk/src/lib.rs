//! The interface to storage: the only crate that calls the file functions of the
//! operating system. All crates above use a [`Disk`], so that tests can replace
//! it, for example by a disk with planned faults (`crates/testing`).

mod direct;
mod disk;
mod io_pacer;
mod limited;
mod locks;
mod memory;
mod names;
mod overlay;
mod paced;
mod read_only;
mod real;
mod replace;
mod system;
mod temporary;

pub use direct::DirectDisk;
pub use disk::{Disk, DiskFile};
pub use io_pacer::{
    IoCounts, IoHurry, IoJob, IoPacer, IoProgress, IoPurpose, IoScope, IoUrgency, SharedIoScope,
    pay_for_io,
};
pub use limited::LimitedDisk;
pub use locks::{DiskLock, LockTable};
pub use memory::MemoryDisk;
pub use overlay::OverlayDisk;
pub use paced::PacedDisk;
pub use read_only::ReadOnlyDisk;
pub use real::RealDisk;
pub use replace::replace_file;
pub use temporary::TemporaryDisk;
