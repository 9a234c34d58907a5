//! Test support that several crates share: a disk with planned faults, a disk
//! whose operations wait or fail while a gate is closed, a key management, and a seeded random number
//! generator. No product crate depends on this one except as a dev-dependency.

mod fault_disk;
mod gate_disk;
mod random;
mod test_keys;

pub use fault_disk::{FaultDisk, FileFailure, SyncFailure, WriteFailure};
pub use gate_disk::GateDisk;
pub use random::Random;
pub use test_keys::TestKeys;
