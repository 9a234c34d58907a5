//! Writing the blocks of an index again that are encrypted with another key than new ones.

use super::flusher::FlushContext;
use super::space::Pace;
use crate::core::index::Index;
use crate::error::EngineResult;
use std::sync::Arc;
use std::time::Duration;
use teak_disk::{IoPurpose, IoUrgency};
use teak_tree::KeyChangeStep;

/// Bytes written after which a checkpoint makes the space of the old blocks reusable.
const ROUND_BYTES: u64 = 64 << 20;

/// Pause while another job works on the next part of a tree.
const WAIT_PERIOD: Duration = Duration::from_millis(20);

/// Maximum number of such pauses in a row.
const WAITS_MAX: u32 = 500;

impl FlushContext<'_> {
    /// Writes the blocks again. Ends early if the index is dropped or `may_continue` returns false; that loses only the
    /// knowledge of which blocks are done. If blocks with an older key were published during the call, another call is needed.
    ///
    /// # Errors
    /// `Key`: the key is not available; those of reading and writing blocks, and of checkpoints.
    pub(crate) fn change_key(
        &self,
        index: &Arc<Index>,
        pace: &mut Pace,
        may_continue: &dyn Fn() -> bool,
    ) -> EngineResult<()> {
        let tree = &index.tree;
        let Some(mut change) = tree.begin_key_change()? else {
            return Ok(());
        };
        self.written.register(index);
        let (mut round, mut waits) = (0, 0);
        loop {
            if index.is_dropped() || !may_continue() {
                return Ok(());
            }
            match tree.next_key_change(&mut change)? {
                KeyChangeStep::Job(job) => {
                    let (purpose, urgency) = (IoPurpose::Moving, IoUrgency::Optional);
                    let report = self.run_unrecorded_job(index, job, purpose, urgency)?;
                    let bytes = report.bytes_relocated + report.stored_bytes_written;
                    pace.add(bytes);
                    round += bytes;
                }
                // The index is being built, or another thread is slow: a later call begins again.
                KeyChangeStep::Wait if waits == WAITS_MAX || !self.signals.has_threads() => {
                    return Ok(());
                }
                KeyChangeStep::Wait => {
                    waits += 1;
                    std::thread::sleep(WAIT_PERIOD);
                    continue;
                }
                KeyChangeStep::Finished => break,
            }
            waits = 0;
            if round >= ROUND_BYTES {
                round = 0;
                self.checkpoint_index(index)?;
            }
        }
        tree.finish_key_change();
        self.checkpoint_index(index)?;
        tree.end_key_change();
        self.checkpoint_index(index)
    }
}
