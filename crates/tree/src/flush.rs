//! Moving entries down: choosing jobs, running them without locks, installing
//! their results.
//!
//! The life of a job:
//! 1. Planning, under the install lock, claims a memtable or a child, and
//!    keeps the version as of then. Claims are exclusive, so a run is consumed
//!    by one job at most, and always together with all that is older in its
//!    child.
//! 2. Running merges the claimed runs and writes new ones. No lock is held;
//!    other jobs go on above, below and beside.
//! 3. Installing, under the lock, replaces exactly the claimed runs in the then
//!    current root. New runs are placed by key range, so it does not matter
//!    what has been split or dropped meanwhile. What arrived at the child
//!    after step 1 is newer and stays in front.
//! 4. A job that fails or is dropped leaves the tree as it was: the claim and
//!    the space are given back.

mod bulk;
mod child;
mod claim;
mod context;
mod divide;
mod inputs;
mod install;
mod job;
mod leaf;
mod memtable;
mod output;
mod partition;
mod plan;
mod report;

pub use bulk::{BulkLoad, PausedLoad};
pub use job::FlushJob;
pub use report::{FlushReport, JobKind};
