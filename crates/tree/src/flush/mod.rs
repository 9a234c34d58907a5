//! Moving entries down: choosing jobs, running them without locks, installing
//! their results.

mod install;
mod job;

pub(crate) use install::InstallState;
pub use job::{FlushJob, FlushReport, JobKind};
