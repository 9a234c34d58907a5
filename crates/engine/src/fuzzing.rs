//! Fuzz targets: the decoders of the catalogue, of retained log records and of lists of backups, and recovery. Not part
//! of the public interface.
// A target panics when it finds a fault.
#![allow(clippy::expect_used, clippy::panic)]

mod backup_list;
mod decoders;
mod recovery;
mod retained;

use teak_base::fuzzing::Target;

/// The targets of this crate.
pub const TARGETS: &[Target] = &[
    Target {
        name: "backup_list",
        run: backup_list::backup_list,
        seeds: backup_list::backup_list_seeds,
    },
    Target {
        name: "catalogue",
        run: decoders::catalogue,
        seeds: decoders::catalogue_seeds,
    },
    Target {
        name: "catalogue_records",
        run: decoders::catalogue_records,
        seeds: decoders::catalogue_record_seeds,
    },
    Target {
        name: "retained_records",
        run: retained::retained_records,
        seeds: retained::retained_record_seeds,
    },
    Target {
        name: "recovery",
        run: recovery::recovery,
        seeds: recovery::recovery_seeds,
    },
];
