//! What is shown about an index file.

use super::table::Table;
use crate::cell::ColumnNames;
use crate::sizes::{grouped, ratio};
use serde::Serialize;
use std::collections::BTreeMap;
use teak_base::ByteSize;
use teak_tree::{LevelShape, PagePart, PartTotals, Tree, TreeInspection};

#[derive(Serialize)]
pub(super) struct Report {
    pub(super) path: String,
    file_id: u64,
    pub(super) codec: String,
    pub(super) page_bytes_max: u32,
    pub(super) file_bytes: u64,
    pub(super) live_bytes: u64,
    pub(super) free_bytes: u64,
    pub(super) rows_estimated: u64,
    /// The lowest first.
    pub(super) levels: Vec<Level>,
    pub(super) bottom: Bottom,
    pub(super) parts: Vec<Part>,
    /// The ranges of the file without live blocks, by offset.
    #[serde(skip)]
    pub(super) unused_ranges: Vec<(u64, u64)>,
}

#[derive(Serialize)]
pub(super) struct Level {
    pub(super) height: usize,
    pub(super) nodes: u64,
    pub(super) children: u64,
    pub(super) bottom_runs: u64,
    pub(super) upper_runs: u64,
    pub(super) child_runs_max: u64,
    pub(super) entries: u64,
    pub(super) deletes: u64,
    pub(super) range_tombstones: u64,
    pub(super) raw_bytes: u64,
    pub(super) stored_bytes: u64,
}

/// The bottom runs.
#[derive(Serialize)]
pub(super) struct Bottom {
    pub(super) entries: u64,
    pub(super) pages: u64,
    pub(super) encoded_bytes: u64,
    pub(super) page_bytes: u64,
    pub(super) index_blocks: u64,
    pub(super) filter_bytes: u64,
}

#[derive(Serialize)]
pub(super) struct Part {
    pub(super) part: String,
    /// The name of the column, if the definition of the table is known.
    pub(super) name: Option<String>,
    pub(super) kind: Option<String>,
    /// Pages with each encoding.
    pub(super) encodings: BTreeMap<&'static str, u64>,
    #[serde(skip)]
    encodings_text: String,
    pub(super) values: u64,
    pub(super) raw_bytes: u64,
    pub(super) encoded_bytes: u64,
}

fn level((number, level): (usize, &LevelShape)) -> Level {
    Level {
        height: number + 1,
        nodes: level.nodes,
        children: level.children,
        bottom_runs: level.bottom_runs,
        upper_runs: level.upper_runs,
        child_runs_max: level.child_runs_max,
        entries: level.entries,
        deletes: level.deletes,
        range_tombstones: level.range_tombstones,
        raw_bytes: level.raw_bytes,
        stored_bytes: level.stored_bytes,
    }
}

/// The name of a part. `fixed` and `optional`: the numbers of columns at the front of values, and of optional ones.
fn name(part: PagePart, fixed: usize, optional: usize) -> String {
    match part {
        PagePart::Heads => "heads of entries".to_owned(),
        PagePart::Keys => "keys".to_owned(),
        PagePart::KeyColumn(number) => format!("key column {number}"),
        PagePart::FrontColumn(number) => format!("column {number}"),
        PagePart::OptionalColumn(number) => format!("column {}", fixed + number),
        PagePart::VariableColumn(number) => format!("column {}", fixed + optional + number),
        PagePart::Values => "values".to_owned(),
    }
}

fn parts(found: &BTreeMap<PagePart, PartTotals>, names: &ColumnNames) -> Vec<Part> {
    let count = |is: fn(&PagePart) -> bool| found.keys().filter(|part| is(part)).count();
    let fixed = count(|part| matches!(part, PagePart::FrontColumn(_)));
    let optional = count(|part| matches!(part, PagePart::OptionalColumn(_)));
    let known = |part| match part {
        PagePart::KeyColumn(number) => names.keys.get(number),
        // The first one is the header of rows.
        PagePart::FrontColumn(number) => names.values.get(number.checked_sub(1)?),
        PagePart::OptionalColumn(number) => names.values.get((fixed + number).checked_sub(1)?),
        PagePart::VariableColumn(number) => names
            .values
            .get((fixed + optional + number).checked_sub(1)?),
        _ => None,
    };
    let part = |(part, totals): (&PagePart, &PartTotals)| Part {
        part: name(*part, fixed, optional),
        name: known(*part).cloned(),
        kind: totals
            .column
            .map(|(kind, bytes)| format!("{kind:?}, {bytes} bytes")),
        encodings: totals.encodings.clone(),
        encodings_text: totals.encodings_text(),
        values: totals.values,
        raw_bytes: totals.raw_bytes,
        encoded_bytes: totals.encoded_bytes,
    };
    found.iter().map(part).collect()
}

impl Report {
    pub(super) fn new(tree: &Tree, found: &TreeInspection, names: &ColumnNames) -> Self {
        let (file, options) = (tree.file_statistics(), tree.options());
        Self {
            path: tree.path().display().to_string(),
            file_id: tree.file_id().0,
            codec: format!("{:?}", options.codec).to_lowercase(),
            page_bytes_max: options.page_bytes,
            file_bytes: file.file_bytes,
            live_bytes: file.live_bytes,
            free_bytes: file.free_bytes,
            rows_estimated: tree.statistics().rows,
            levels: found.levels.iter().enumerate().map(level).collect(),
            bottom: Bottom {
                entries: found.entries,
                pages: found.pages,
                encoded_bytes: found.encoded_bytes,
                page_bytes: found.page_bytes,
                index_blocks: found.index_blocks,
                filter_bytes: found.filter_bytes,
            },
            parts: parts(&found.parts, names),
            unused_ranges: tree.unused_ranges(),
        }
    }

    /// The report for people.
    pub(super) fn text(&self) -> String {
        let mut text = format!(
            "{}\nfile {}: {}, of which live {}, free {}; codec {}, pages of at most {}, about {} rows\n\n",
            self.path,
            self.file_id,
            ByteSize(self.file_bytes),
            ByteSize(self.live_bytes),
            ByteSize(self.free_bytes),
            self.codec,
            ByteSize(self.page_bytes_max.into()),
            grouped(self.rows_estimated),
        );
        text += &self.levels_text();
        let bottom = &self.bottom;
        text += &format!(
            "\nbottom runs: {} pages, {} before and {} after compression; {} index blocks; filters of {}, {} bits for each entry\n\n",
            grouped(bottom.pages),
            ByteSize(bottom.encoded_bytes),
            ByteSize(bottom.page_bytes),
            grouped(bottom.index_blocks),
            ByteSize(bottom.filter_bytes),
            ratio(bottom.filter_bytes * 8, bottom.entries),
        );
        text += &self.parts_text();
        text.push('\n');
        text
    }

    fn levels_text(&self) -> String {
        let mut table = Table::new(&[
            "level",
            "nodes",
            "children",
            "bottom runs",
            "upper runs",
            "of one child",
            "entries",
            "deletes",
            "raw",
            "in the file",
        ]);
        for level in self.levels.iter().rev() {
            let name = match level.height {
                1 => "leaves".to_owned(),
                height => format!("inner {}", height - 1),
            };
            let mut cells = vec![name];
            let counts = [
                level.nodes,
                level.children,
                level.bottom_runs,
                level.upper_runs,
                level.child_runs_max,
                level.entries,
                level.deletes,
            ];
            cells.extend(counts.map(grouped));
            cells.extend(
                [level.raw_bytes, level.stored_bytes].map(|bytes| ByteSize(bytes).to_string()),
            );
            table.row(cells);
        }
        table.text()
    }

    fn parts_text(&self) -> String {
        let mut table = Table::new(&[
            "part of pages",
            "kind",
            "values",
            "raw",
            "encoded",
            "ratio",
            "encodings",
        ]);
        for part in &self.parts {
            let name = part.name.as_deref().map(|name| format!(" {name}"));
            table.row(vec![
                format!("{}{}", part.part, name.unwrap_or_default()),
                part.kind.clone().unwrap_or_default(),
                grouped(part.values),
                ByteSize(part.raw_bytes).to_string(),
                ByteSize(part.encoded_bytes).to_string(),
                ratio(part.raw_bytes, part.encoded_bytes),
                part.encodings_text.clone(),
            ]);
        }
        table.text()
    }
}
