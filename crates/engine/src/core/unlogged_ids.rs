//! Write ids that no log record contains, because their statements wrote
//! temporary tables only.
//!
//! Recovery refuses a log in which too many consecutive ids are missing, because
//! that is damage. So a write of a temporary table logs its id, without any
//! operation and without a sync, if it is far above the last one logged here.

use crate::catalogue::UNNAMED_IDS_MAX;
use std::sync::atomic::{AtomicU64, Ordering};
use teak_base::{StorageResult, WriteId};
use teak_write_ahead_log::{Record, WriteAheadLog};

/// Distance between two logged ids.
const LOGGED_ID_INTERVAL: u64 = UNNAMED_IDS_MAX / 64;

/// The last id that [`UnloggedIds::note`] has logged.
#[derive(Debug, Default)]
pub(crate) struct UnloggedIds(AtomicU64);

impl UnloggedIds {
    /// Called before an unlogged write.
    ///
    /// # Errors
    /// Those of the log, but only when the ids since the last record are at least
    /// half of those that may be missing.
    #[inline]
    pub(crate) fn note(&self, log: &WriteAheadLog, id: WriteId) -> StorageResult<()> {
        let missing = id.0.saturating_sub(self.0.load(Ordering::Relaxed));
        if missing < LOGGED_ID_INTERVAL {
            return Ok(());
        }
        self.log(log, id, missing)
    }

    #[cold]
    fn log(&self, log: &WriteAheadLog, id: WriteId, missing: u64) -> StorageResult<()> {
        let record = Record::Write {
            write_id: id,
            operations: [].as_slice().into(),
        };
        match log.append(&record) {
            Ok(_) => {
                self.0.fetch_max(id.0, Ordering::Relaxed);
                Ok(())
            }
            Err(_) if missing < UNNAMED_IDS_MAX / 2 => Ok(()),
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::EngineError;
    use std::path::Path;
    use std::sync::Arc;
    use teak_base::Lsn;
    use teak_disk::{Disk, MemoryDisk};
    use teak_write_ahead_log::LogOptions;

    #[test]
    fn an_id_is_logged_before_too_many_are_missing() {
        let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
        let directory = Path::new("/data");
        disk.create_directories(directory).unwrap();
        let log = WriteAheadLog::open::<EngineError>(
            &disk,
            directory,
            LogOptions::new(1),
            Lsn(0),
            &mut |_, _| Ok(()),
        )
        .unwrap();
        let unlogged = UnloggedIds::default();
        let mut logged = 0;
        for step in 0..1000 {
            let end = log.end();
            unlogged
                .note(&log, WriteId(step * LOGGED_ID_INTERVAL / 8))
                .unwrap();
            logged += u32::from(log.end() > end);
        }
        assert_eq!(logged, 124);
    }
}
