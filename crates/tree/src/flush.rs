//! Jobs that move entries down the tree: planning, running without locks, and
//! installing the results.
//!
//! Each job has these steps:
//! 1. Planning, under the install lock, claims the memtables or a child, and takes a reference to
//!    the current version. Claims are exclusive, so only one job at a time consumes runs of a
//!    child. A flush or the merge of a leaf consumes all runs that the child has at that time. A
//!    consolidation consumes some adjacent ones. Nodes that planning needs are read without the
//!    lock.
//! 2. Running merges the claimed runs and writes new ones. No lock is held;
//!    other jobs run at the same time on other parts of the tree. A large flush is divided over
//!    threads (see `divided`).
//! 3. Installing, under the lock, replaces exactly the consumed runs in the current root. New runs
//!    are placed by key range, so splits and removals since step 1 do not matter. Runs that the
//!    child received after step 1 are newer than the consumed ones and remain in front. If a node
//!    on the path is not in memory, it is read without the lock, and the step is repeated.
//! 4. A job that fails or is dropped leaves the tree unchanged: its claim and the space that it has
//!    written are released.

mod bulk;
mod candidate;
mod child;
mod claim;
mod context;
mod divide;
mod divided;
mod hidden;
mod inputs;
mod install;
mod install_load;
mod job;
mod key_change;
mod layers;
mod leaf;
mod memtable;
mod optional;
mod output;
mod partition;
mod plan;
mod readers;
mod relocate;
mod report;
mod search;
mod separate;
mod settling;
mod threads;
mod tier;

pub use bulk::{BulkLoad, LoadedEntries, PausedLoad};
pub use install_load::RequiredNode;
pub use job::FlushJob;
pub use key_change::{KeyChange, KeyChangeStep};
pub use plan::TreeBacklog;
pub use report::{FlushReport, JobKind};
pub use threads::{JobThreads, OneThread};
