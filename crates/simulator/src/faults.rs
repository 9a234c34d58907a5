//! What the disk is told to do wrong.

use crate::mood::DIRECTORY;
use std::path::Path;
use teak_disk::Disk;
use teak_testing::{FaultDisk, Random, SyncFailure, WriteFailure};

/// A planned fault.
pub(crate) struct Planned {
    /// What it is, for the trace.
    pub(crate) text: String,
    /// Whether it may end the log's work for this life, as anything but a full
    /// disk may.
    pub(crate) grave: bool,
    /// Whether it is a power loss, which nothing takes back.
    pub(crate) power: bool,
}

/// Plans one fault.
pub(crate) fn plan(disk: &FaultDisk, random: &mut Random, only_space: bool) -> Planned {
    let scale = random.below(8);
    let after = random.below(1 << scale);
    let planned = |text: String, grave| Planned {
        text,
        grave,
        power: false,
    };
    let grave = |text| planned(text, true);
    let space = |text| planned(text, false);
    let kind = match (only_space, random.below(12)) {
        (true, kind) => 10 + kind % 2,
        (false, kind) => kind,
    };
    match kind {
        0 => {
            disk.fail_write(after, WriteFailure::Nothing);
            grave(format!("write fails after {after}"))
        }
        1 => {
            disk.fail_write(after, WriteFailure::Partial);
            grave(format!("write fails in part after {after}"))
        }
        2 => {
            disk.fail_sync(after, SyncFailure::NoSpace);
            grave(format!("no space for a sync after {after}"))
        }
        3 => {
            disk.fail_sync(after, SyncFailure::Kept);
            grave(format!("sync fails after {after}"))
        }
        4 => {
            disk.fail_sync(after, SyncFailure::Dropped);
            grave(format!("sync fails and drops after {after}"))
        }
        5 => {
            disk.fail_name_change(after);
            grave(format!("name change fails after {after}"))
        }
        6 => {
            disk.fail_read(after);
            grave(format!("read fails after {after}"))
        }
        7..=9 => {
            disk.cut_power(after);
            Planned {
                power: true,
                ..grave(format!("power goes after {after}"))
            }
        }
        10 => {
            disk.fail_write(after, WriteFailure::NoSpace);
            space(format!("no space after {after}"))
        }
        _ => {
            let bytes = disk.used_bytes() + random.below(20_000);
            disk.set_capacity(Some(bytes));
            space(format!("capacity {bytes} bytes"))
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
