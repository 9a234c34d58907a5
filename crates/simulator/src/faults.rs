//! What the disk is told to do wrong.

use crate::mood::DIRECTORY;
use std::path::Path;
use teak_disk::{Disk, FaultDisk, Random, SyncFailure, WriteFailure};

/// Plans one fault; returns what it is, for the trace.
pub(crate) fn plan(disk: &FaultDisk, random: &mut Random) -> String {
    let scale = random.below(8);
    let after = random.below(1 << scale);
    match random.below(10) {
        0 => {
            disk.fail_write(after, WriteFailure::Nothing);
            format!("write fails after {after}")
        }
        1 => {
            disk.fail_write(after, WriteFailure::Partial);
            format!("write fails in part after {after}")
        }
        2 => {
            disk.fail_write(after, WriteFailure::NoSpace);
            format!("no space after {after}")
        }
        3 => {
            disk.fail_sync(after, SyncFailure::Kept);
            format!("sync fails after {after}")
        }
        4 => {
            disk.fail_sync(after, SyncFailure::Dropped);
            format!("sync fails and drops after {after}")
        }
        5 => {
            disk.fail_name_change(after);
            format!("name change fails after {after}")
        }
        6 => {
            disk.fail_read(after);
            format!("read fails after {after}")
        }
        7 => {
            let bytes = used_bytes(disk) + random.below(20_000);
            disk.set_capacity(Some(bytes));
            format!("capacity {bytes} bytes")
        }
        _ => {
            disk.cut_power(after);
            format!("power goes after {after}")
        }
    }
}

/// Takes back all faults but a planned power loss.
pub(crate) fn clear(disk: &FaultDisk) {
    disk.clear_failures();
    disk.set_capacity(None);
}

/// Whether the disk has lost power.
pub(crate) fn power_is_off(disk: &FaultDisk) -> bool {
    disk.exists(Path::new(DIRECTORY)).is_err()
}

fn used_bytes(disk: &FaultDisk) -> u64 {
    fn walk(disk: &FaultDisk, directory: &Path) -> u64 {
        let mut bytes = 0;
        for path in disk.list(directory).unwrap_or_default() {
            bytes += match disk.open(&path) {
                Ok(file) => file.len().unwrap_or(0),
                Err(_) => walk(disk, &path),
            };
        }
        bytes
    }
    walk(disk, Path::new(DIRECTORY))
}
