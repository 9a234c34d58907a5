//! Test support that several crates share: a disk with planned faults, a disk
//! with a gate in front of its reads, one with gates in front of its writes, and a seeded random number generator. No product crate depends on this one except
//! as a dev-dependency.

mod fault_disk;
mod gate_disk;
mod hold_disk;
mod random;

pub use fault_disk::{FaultDisk, SyncFailure, WriteFailure};
pub use gate_disk::GateDisk;
pub use hold_disk::HoldDisk;
pub use random::Random;
