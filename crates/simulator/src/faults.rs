//! Planned faults of the disk.

use crate::swarm::DIRECTORY;
use std::path::{Path, PathBuf};
use teak_disk::Disk;
use teak_testing::{FaultDisk, FileFailure, Random, SyncFailure, WriteFailure};

pub(crate) struct Planned {
    /// A description of the fault, for the trace.
    pub(crate) text: String,
    /// Whether the fault may stop the log for this incarnation. A full disk and faults of index
    /// files must not stop it.
    pub(crate) may_stop_log: bool,
    /// Whether the fault may make index files refuse checkpoints until they are opened again.
    pub(crate) refuses_checkpoints: bool,
    /// Whether the fault is a power loss, which remains planned after [`clear`].
    pub(crate) power: bool,
}

/// All index files.
fn index_files(disk: &FaultDisk) -> Vec<PathBuf> {
    let list = |path: &Path| disk.list(path).unwrap_or_default();
    let directories = list(Path::new(DIRECTORY));
    let files = directories.iter().flat_map(|directory| list(directory));
    files
        .filter(|path| path.extension().is_some_and(|end| end == "teak"))
        .collect()
}

/// Plans one fault.
pub(crate) fn plan(disk: &FaultDisk, random: &mut Random, only_full_disk: bool) -> Planned {
    let scale = random.below(8);
    let after = random.below(1 << scale);
    let planned = |text: String, may_stop_log| Planned {
        text,
        may_stop_log,
        refuses_checkpoints: may_stop_log,
        power: false,
    };
    let stopping = |text| planned(text, true);
    let space = |text| planned(text, false);
    let kind = match (only_full_disk, random.below(20)) {
        (true, kind) => 10 + kind % 3,
        (false, kind) => kind,
    };
    match kind {
        0 => {
            disk.fail_write(after, WriteFailure::Nothing);
            stopping(format!("write fails after {after}"))
        }
        1 => {
            disk.fail_write(after, WriteFailure::Partial);
            stopping(format!("write fails in part after {after}"))
        }
        2 => {
            disk.fail_sync(after, SyncFailure::NoSpace);
            stopping(format!("no space for a sync after {after}"))
        }
        3 => {
            disk.fail_sync(after, SyncFailure::Kept);
            stopping(format!("sync fails after {after}"))
        }
        4 => {
            disk.fail_sync(after, SyncFailure::Dropped);
            stopping(format!("sync fails and drops after {after}"))
        }
        5 => {
            disk.fail_name_change(after);
            stopping(format!("name change fails after {after}"))
        }
        6 => {
            disk.fail_read(after);
            stopping(format!("read fails after {after}"))
        }
        7..=9 => {
            disk.cut_power(after);
            Planned {
                power: true,
                ..stopping(format!("power is lost after {after}"))
            }
        }
        10 => {
            disk.fail_write(after, WriteFailure::NoSpace);
            space(format!("no space after {after}"))
        }
        12.. => {
            let failure = match kind {
                12 | 13 => FileFailure::NoSpace,
                14 | 15 => FileFailure::Writes,
                _ => FileFailure::Syncs,
            };
            let files = index_files(disk);
            let count = files.len() as u64;
            let failing = files.iter().filter(|_| count == 1 || random.one_in(2));
            let mut text = format!("{failure:?} of");
            for path in failing {
                disk.fail_file(path, failure);
                text += &format!(" {}", path.display());
            }
            Planned {
                refuses_checkpoints: failure != FileFailure::NoSpace,
                ..space(text)
            }
        }
        _ => {
            let bytes = disk.used_bytes() + random.below(20_000);
            disk.set_capacity(Some(bytes));
            space(format!("capacity {bytes} bytes"))
        }
    }
}

/// Clears all planned faults except a power loss.
pub(crate) fn clear(disk: &FaultDisk) {
    disk.clear_failures();
    disk.set_capacity(None);
}

/// Whether the disk has lost power.
pub(crate) fn power_is_off(disk: &FaultDisk) -> bool {
    disk.exists(Path::new(DIRECTORY)).is_err()
}
