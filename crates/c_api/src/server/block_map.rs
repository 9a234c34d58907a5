//! The map of the files of tables, through a callback.

use crate::boundary::boundary;
use crate::handles::teak_engine;
use crate::server::visitor::{Visitor, teak_table_visitor};
use crate::slice::teak_slice;
use crate::status::teak_status;
use ::teak_engine::{IndexRange, RangeKind, RangeUse, RunPlace};
use std::ffi::c_void;

/// What a range of a file contains.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum teak_range_kind {
    /// The superblocks.
    TEAK_RANGE_SUPERBLOCKS = 0,
    /// The list of free space of the last checkpoint.
    TEAK_RANGE_SPACE_MAP = 1,
    /// A node.
    TEAK_RANGE_NODE = 2,
    /// The list of runs to which several children refer.
    TEAK_RANGE_SHARED_RUNS = 3,
    /// Index blocks of a run.
    TEAK_RANGE_INDEX = 4,
    /// Pages of a run.
    TEAK_RANGE_PAGES = 5,
    /// Values that are stored apart from their entries; nodes that were replaced since the last
    /// checkpoint.
    TEAK_RANGE_UNLISTED = 6,
    /// Free space.
    TEAK_RANGE_FREE = 7,
    /// Space that a writer has reserved, or that was freed but is needed by a reader, or until a later
    /// checkpoint.
    TEAK_RANGE_UNAVAILABLE = 8,
}

use teak_range_kind::*;

/// A range of the file of an index.
#[repr(C)]
pub struct teak_range_info {
    /// The name of the table.
    pub table: teak_slice,
    /// The label of the index.
    pub label: teak_slice,
    /// The number of the index in the table; 0 contains the rows.
    pub index: u32,
    /// Offset of the range in the file.
    pub offset: u64,
    /// Number of bytes.
    pub bytes: u64,
    /// The contents.
    pub kind: teak_range_kind,
    /// Number of blocks; 0: unknown.
    pub blocks: u64,
    /// Whether the blocks belong to a run.
    pub has_run: bool,
    /// The offset of the first index block of the run, which identifies it.
    pub run: u64,
    /// Whether it is a bottom run, which has the oldest entries of a leaf.
    pub is_bottom: bool,
    /// The height of the node, or of the node with the child that has the run: 1 above the leaves; 0:
    /// neither node nor run.
    pub height: u32,
}

fn info(range: &IndexRange<'_>) -> teak_range_info {
    let of_run = |kind, place: RunPlace| (kind, Some(place), place.height);
    let (kind, run, height) = match range.range.kind {
        RangeKind::Other(RangeUse::Superblocks) => (TEAK_RANGE_SUPERBLOCKS, None, 0),
        RangeKind::Other(RangeUse::SpaceMap) => (TEAK_RANGE_SPACE_MAP, None, 0),
        RangeKind::Other(RangeUse::Free) => (TEAK_RANGE_FREE, None, 0),
        RangeKind::Other(RangeUse::Unavailable) => (TEAK_RANGE_UNAVAILABLE, None, 0),
        RangeKind::Node { height } => (TEAK_RANGE_NODE, None, height),
        RangeKind::SharedRuns => (TEAK_RANGE_SHARED_RUNS, None, 0),
        RangeKind::Index(place) => of_run(TEAK_RANGE_INDEX, place),
        RangeKind::Pages(place) => of_run(TEAK_RANGE_PAGES, place),
        RangeKind::Unlisted => (TEAK_RANGE_UNLISTED, None, 0),
    };
    teak_range_info {
        table: teak_slice::of(range.table.as_bytes()),
        label: teak_slice::of(range.label.as_bytes()),
        index: range.number,
        offset: range.range.offset,
        bytes: range.range.bytes,
        kind,
        blocks: range.range.blocks.unwrap_or(0),
        has_run: run.is_some(),
        run: run.map_or(0, |place| place.run),
        is_bottom: run.is_some_and(|place| place.is_bottom),
        height: height.into(),
    }
}

/// Calls `sink` for each range of the file of each index of the tables that the visitor wants, except
/// temporary ones. Opens the files of these tables, one table at a time, and reads their nodes and
/// index blocks, but no pages. Blocks no writer. Slices are valid during the call of `sink`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn teak_block_map(
    engine: *mut teak_engine,
    visitor: *const teak_table_visitor,
    sink: Option<unsafe extern "C" fn(context: *mut c_void, range: *const teak_range_info)>,
) -> teak_status {
    boundary!([reference(engine), reference(visitor), callback(sink)] {
        let mut visitor = Visitor::new(visitor)?;
        let context = visitor.context;
        engine.engine.map_blocks(&mut visitor, &mut |range| {
            let info = info(range);
            // SAFETY: the caller's callback, with the caller's context.
            unsafe { sink(context, &raw const info) };
        })?;
        Ok(())
    })
}
