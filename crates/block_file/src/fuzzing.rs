//! Fuzz targets of the decoders of index files. Not part of the interface.
//!
//! The targets correct the checksums of their input, so that a fuzzer reaches
//! the decoders after them.
// A target panics when a property does not hold.
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
