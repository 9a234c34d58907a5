//! Test support that several crates share: a disk with planned faults, a disk
//! whose operations wait or fail while a gate is closed, and a seeded random number
//! generator. No product crate depends on this one except as a dev-dependency.

mod fault_disk;
mod gate_disk;
mod random;

pub use fault_disk::{FaultDisk, FileFailure, SyncFailure, WriteFailure};
pub use gate_disk::GateDisk;
pub use random::Random;
