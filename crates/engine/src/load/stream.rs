//! Rows of a load that another thread encodes: the caller passes batches in a form of its own, and an
//! encoder adds their rows to the load, on a worker if one is idle.

use super::RowLoad;
use crate::core::sorts::sort_workers;
use crate::error::{EngineError, EngineResult};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use teak_bulk_load::{Interrupted, Processor, WorkQueue};

/// A batch with more bytes, which may be a single large row, does not wait in memory while the caller
/// produces the next one.
const WAITING_BYTES_MAX: usize = 1 << 20;

/// Adds the rows of batches to a load.
pub trait RowEncoder: Send + 'static {
    /// Adds the rows of a batch with [`RowLoad::add`]. Called by one thread at a time.
    ///
    /// # Errors
    /// Any; the load is then unusable.
    fn encode(&mut self, batch: &[u8], load: &mut RowLoad) -> EngineResult<()>;
}

/// A load and its encoder.
struct Encoding {
    load: RowLoad,
    encoder: Box<dyn RowEncoder>,
}

impl Processor for Encoding {
    type Item = Vec<u8>;
    type Error = EngineError;

    fn process(&mut self, batch: Vec<u8>) -> EngineResult<()> {
        self.encoder.encode(&batch, &mut self.load)
    }
}

/// Stops the encoder when the stream is dropped.
struct StopOnDrop(Arc<AtomicBool>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A load whose rows are passed as batches. Dropping it drops the load.
pub struct LoadStream {
    // The first field: it stops the encoder, for which the queue waits.
    _stop: StopOnDrop,
    queue: WorkQueue<Encoding>,
    interrupted: Box<Interrupted>,
    /// Rows that were passed.
    rows: u64,
}

impl fmt::Debug for LoadStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoadStream")
            .field("rows", &self.rows)
            .finish_non_exhaustive()
    }
}

impl RowLoad {
    /// Continues the load with rows that an encoder adds.
    #[must_use]
    pub fn encoded_by(mut self, encoder: Box<dyn RowEncoder>) -> LoadStream {
        let stopped = Arc::new(AtomicBool::new(false));
        let (flag, handle) = (Arc::clone(&stopped), Arc::clone(&self.handle));
        let stops = move || flag.load(Ordering::Relaxed) || handle.is_interrupted();
        let interrupted = std::mem::replace(&mut self.interrupted, Box::new(stops));
        let rows = self.rows;
        let workers = sort_workers(&self.table.core);
        let encoding = Encoding {
            load: self,
            encoder,
        };
        LoadStream {
            _stop: StopOnDrop(stopped),
            queue: WorkQueue::new(encoding, workers),
            interrupted,
            rows,
        }
    }
}

impl LoadStream {
    /// The number of rows that were added and passed.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Passes a batch with so many rows to the encoder. Waits while another batch waits.
    ///
    /// # Errors
    /// Errors of the encoder for this or an earlier batch; `Storage`, `Internal`. The stream can then
    /// only be dropped.
    pub fn pass(&mut self, batch: Vec<u8>, rows: u64) -> EngineResult<()> {
        let waits = batch.len() > WAITING_BYTES_MAX;
        self.queue.pass(batch, &*self.interrupted)?;
        if waits {
            self.queue.wait(&*self.interrupted)?;
        }
        self.rows += rows;
        Ok(())
    }

    /// Waits until all batches are encoded.
    ///
    /// # Errors
    /// As [`LoadStream::pass`]; `Internal` if the encoder has added another number of rows.
    pub fn finish(self) -> EngineResult<RowLoad> {
        let Self {
            _stop,
            queue,
            interrupted,
            rows,
        } = self;
        let Encoding { mut load, .. } = *queue.finish(&*interrupted)?;
        if load.rows != rows {
            let reason = format!("{} of {rows} rows of a load were encoded", load.rows);
            return Err(EngineError::Internal(reason));
        }
        load.interrupted = interrupted;
        Ok(load)
    }
}
