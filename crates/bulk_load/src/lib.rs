//! Sorting entries of any number, and building trees from sorted entries: the component that ALTER
//! and REPAIR use. It depends on neither the engine nor SQL.
//!
//! An external merge sort with bounded memory ([`Sorter`]):
//! 1. The caller adds entries to a sort buffer. When it is full, a worker thread sorts it and copies
//!    its entries in order, while the caller fills the next buffer. A buffer whose entries were
//!    added in order is not sorted.
//! 2. When the sorted entries use much of the reserved memory, a worker merges them into a spill
//!    file. It frees them as it writes them. If the memory is used up, the caller does the same.
//! 3. At the end, while there are more spill files than can be merged at the same time, some of them
//!    are merged into one. A last merge returns all entries in order ([`SortedEntries`]). A worker
//!    merges the next batch while the caller uses the current one.
//!
//! Each step runs on the thread of the caller if no worker is available ([`Workers`]), so a caller
//! without workers needs no threads at all. The crate takes all its memory from one
//! [`MemoryReservation`].
//!
//! Trees are built with [`SortedLoad`], which sorts, and [`OrderedLoad`] for entries that are added
//! in key order.

mod batches;
mod cancel;
mod duplicates;
mod entries;
mod error;
mod key_range;
mod load;
mod memory;
mod merge;
mod observer;
mod prefix;
mod progress;
mod range_writers;
mod run_stream;
mod sequences;
mod sort_buffer;
mod sorter;
mod source;
mod spill;
mod work_queue;
mod workers;

pub use batches::SortedEntries;
pub use cancel::Interrupted;
pub use error::{BulkLoadError, BulkLoadResult, LoadError};
pub use load::{OrderedLoad, SortedLoad};
pub use memory::MemoryReservation;
pub use observer::LoadObserver;
pub use progress::SortProgress;
pub use sorter::{Sorter, SorterOptions};
pub use spill::SpillDirectory;
pub use work_queue::{Processor, WorkQueue};
pub use workers::{Delivery, NoWorkers, Task, Worker, Workers};
