//! The decoders of index files, for fuzz targets. Not part of the interface.
//!
//! Where bytes carry a checksum it is made right again, so that a fuzzer
//! reaches the decoder behind it.
// A target panics when something does not hold: that is its answer.
#![allow(clippy::expect_used, clippy::panic)]

mod blocks;
mod file;
mod space;

use teak_base::fuzzing::Target;

/// The targets of this crate.
pub const TARGETS: &[Target] = &[
    Target {
        name: "superblock",
        run: blocks::superblock,
        seeds: blocks::superblock_seeds,
    },
    Target {
        name: "block",
        run: blocks::block,
        seeds: blocks::block_seeds,
    },
    Target {
        name: "extents",
        run: space::extents,
        seeds: space::extents_seeds,
    },
    Target {
        name: "space_map",
        run: space::space_map,
        seeds: space::space_map_seeds,
    },
    Target {
        name: "index_file",
        run: file::index_file,
        seeds: file::index_file_seeds,
    },
];
