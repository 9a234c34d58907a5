//! Fuzz targets for the decoders of a tree's file, which panic on a violation. Not part of the
//! public interface.
#![allow(clippy::expect_used, clippy::panic)]

mod decoders;
mod node;
mod page_parts;
mod run;
mod tree_builder;
mod tree_file;

use teak_base::fuzzing::Target;

/// The targets of this crate.
pub const TARGETS: &[Target] = &[
    Target {
        name: "page",
        run: decoders::page,
        seeds: decoders::page_seeds,
    },
    Target {
        name: "page_parts",
        run: page_parts::page_parts,
        seeds: decoders::page_seeds,
    },
    Target {
        name: "index_block",
        run: decoders::index_block,
        seeds: decoders::index_block_seeds,
    },
    Target {
        name: "run_description",
        run: decoders::run_description,
        seeds: decoders::run_description_seeds,
    },
    Target {
        name: "filter",
        run: decoders::filter,
        seeds: decoders::filter_seeds,
    },
    Target {
        name: "tree_payload",
        run: decoders::tree_payload,
        seeds: decoders::tree_payload_seeds,
    },
    Target {
        name: "node",
        run: node::node,
        seeds: node::node_seeds,
    },
    Target {
        name: "run",
        run: run::run,
        seeds: run::run_seeds,
    },
    Target {
        name: "tree_file",
        run: tree_file::tree_file,
        seeds: tree_file::tree_file_seeds,
    },
];
