//! A page of HTML with pictures of index files. It needs nothing else: no scripts, fonts or images.

use super::report::{Level, Part, Report};
use crate::sizes::{grouped, ratio};
use std::fmt::Write;
use teak_base::ByteSize;

const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;color:#1f2933;background:#fff;max-width:1000px;margin:2rem auto;\
padding:0 1rem}h1{font-size:1.5rem;overflow-wrap:anywhere}h2{font-size:1.15rem;margin:2.2rem 0 .3rem}p{margin:.3rem 0;color:#52606d}\
svg{display:block;width:100%;height:auto}text{font:12px system-ui,sans-serif;fill:#1f2933}.quiet{fill:#7b8794}\
dl{display:grid;grid-template-columns:repeat(auto-fill,minmax(9rem,1fr));gap:.6rem;margin:1rem 0}\
dt{color:#7b8794;font-size:.8rem}dd{margin:0;font-size:1.1rem}hr{border:0;border-top:1px solid #e4e7eb;margin:3rem 0}\
.key i{display:inline-block;width:.8em;height:.8em;border-radius:2px;margin:0 .3em 0 1em}";

const WIDTH: f64 = 960.0;
const USED: &str = "#2f6f9f";
const PALE: &str = "#cfe0ee";
const WARM: &str = "#e0a458";
const EMPTY: &str = "#eef1f4";

/// Cells of the map in a row, and rows.
const MAP_COLUMNS: u64 = 96;
const MAP_ROWS: u64 = 12;

/// Children that the picture of a level shows one by one.
const BOXES_MAX: u64 = 120;

/// Columns that are shown; the rest is summed up.
const PARTS_MAX: usize = 60;

/// Every block occupies whole units of so many bytes.
const UNIT: u64 = 128;

/// Bytes of the two superblocks.
const SUPERBLOCKS: u64 = 8192;

/// A text in which no character has a meaning for HTML.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

/// A quotient for coordinates.
#[allow(clippy::cast_precision_loss)] // Pixels need no more.
fn share(part: u64, whole: u64) -> f64 {
    part as f64 / whole.max(1) as f64
}

/// Writing to a string does not fail.
macro_rules! put {
    ($out:expr, $($form:tt)*) => { let _ = write!($out, $($form)*); };
}

/// The page.
pub(super) fn page(reports: &[Report]) -> String {
    let mut out = String::from("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">");
    put!(
        out,
        "<meta name=\"viewport\" content=\"width=device-width\"><title>Teak index files</title>"
    );
    put!(out, "<style>{STYLE}</style></head><body>\n");
    for (number, report) in reports.iter().enumerate() {
        if number > 0 {
            out += "<hr>\n";
        }
        section(report, &mut out);
    }
    out += "</body></html>\n";
    out
}

fn section(report: &Report, out: &mut String) {
    put!(out, "<h1>{}</h1>\n<dl>", escaped(&report.path));
    let facts = [
        ("rows, about", grouped(report.rows_estimated)),
        ("file", ByteSize(report.file_bytes).to_string()),
        ("live", ByteSize(report.live_bytes).to_string()),
        ("free", ByteSize(report.free_bytes).to_string()),
        ("codec", report.codec.clone()),
        (
            "pages of at most",
            ByteSize(report.page_bytes_max.into()).to_string(),
        ),
        (
            "pages, uncompressed to compressed",
            ratio(report.bottom.encoded_bytes, report.bottom.page_bytes),
        ),
        (
            "filter bits for each entry",
            ratio(report.bottom.filter_bytes * 8, report.bottom.entries),
        ),
    ];
    for (name, value) in facts {
        put!(
            out,
            "<div><dt>{name}</dt><dd>{}</dd></div>",
            escaped(&value)
        );
    }
    *out += "</dl>\n";
    tree(&report.levels, out);
    map(report, out);
    columns(&report.parts, out);
}

/// The levels of the tree, the root at the top: a box for each child, or a bar if there are too many.
fn tree(levels: &[Level], out: &mut String) {
    const ROW: f64 = 64.0;
    const BAR: f64 = 22.0;
    *out += "<h2>The tree</h2>\n<p>Each row is a level, the root at the top, with a box for each child of its nodes. The line \
        below the leaves is the share of upper runs in their runs.</p>\n<p class=\"key\">";
    put!(
        out,
        "<i style=\"background:{USED}\"></i>leaves, with bottom runs"
    );
    put!(
        out,
        "<i style=\"background:{WARM}\"></i>inner children and upper runs, with newer entries</p>\n"
    );
    let height = ROW * f64::from(u32::try_from(levels.len()).unwrap_or(0)) + 4.0;
    put!(
        out,
        "<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"levels of the tree\">\n"
    );
    let widest = levels.iter().map(|level| level.children).max().unwrap_or(1);
    let mut top = 4.0;
    for level in levels.iter().rev() {
        // The square root, so that upper levels remain visible next to thousands of leaves.
        let width = WIDTH * share(level.children, widest).sqrt().clamp(0.02, 1.0);
        let left = (WIDTH - width) / 2.0;
        let runs = level.bottom_runs + level.upper_runs;
        let colour = if level.height == 1 { USED } else { WARM };
        let name = match level.height {
            1 => "leaves".to_owned(),
            height => format!("inner level {}", height - 1),
        };
        put!(
            out,
            "<g><title>{} runs, {} of one child at most</title>",
            grouped(runs),
            level.child_runs_max
        );
        let boxes = level.children.clamp(1, BOXES_MAX);
        let step = width / share(boxes, 1);
        let gap = (step * 0.15).min(3.0);
        for number in 0..boxes {
            let x = left + step * share(number, 1);
            put!(
                out,
                "<rect x=\"{x:.1}\" y=\"{top}\" width=\"{:.1}\" height=\"{BAR}\" rx=\"2\" fill=\"{colour}\"/>",
                (step - gap).max(0.5)
            );
        }
        if level.height == 1 && runs > 0 {
            // The part of upper runs, from the right.
            let upper = width * share(level.upper_runs, runs);
            put!(
                out,
                "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{upper:.1}\" height=\"5\" fill=\"{WARM}\"/>",
                left + width - upper,
                top + BAR - 5.0
            );
        }
        put!(
            out,
            "</g><text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{name}: {} nodes, {} children, {} bottom and {} upper runs, \
             {} entries, {}</text>\n",
            WIDTH / 2.0,
            top + BAR + 16.0,
            grouped(level.nodes),
            grouped(level.children),
            grouped(level.bottom_runs),
            grouped(level.upper_runs),
            grouped(level.entries),
            ByteSize(level.stored_bytes)
        );
        top += ROW;
    }
    *out += "</svg>\n";
}

/// The bytes of `[start, end)` that no hole contains. `holes`: by offset; `next`: the first that may overlap.
fn used_bytes(start: u64, end: u64, holes: &[(u64, u64)], next: &mut usize) -> u64 {
    let mut free = 0;
    let mut place = *next;
    while let Some((from, to)) = holes.get(place).filter(|(from, _)| *from < end) {
        let overlap = (*to).min(end).saturating_sub((*from).max(start));
        free += overlap;
        if *to > end {
            break;
        }
        place += 1;
    }
    *next = place;
    (end - start) - free
}

/// The file from its first byte to its last: how much of each part is used.
fn map(report: &Report, out: &mut String) {
    const CELL: f64 = WIDTH / 96.0;
    let bytes = report.file_bytes.max(1);
    let cells = MAP_COLUMNS * MAP_ROWS;
    let of_cell = bytes.div_ceil(cells).next_multiple_of(UNIT);
    let holes = &report.unused_ranges;
    *out += "<h2>The file</h2>\n";
    put!(
        out,
        "<p>From left to right and from top to bottom, each cell is {} of the file; {} holes. </p><p class=\"key\">",
        ByteSize(of_cell),
        grouped(holes.len() as u64)
    );
    put!(out, "<i style=\"background:{WARM}\"></i>superblocks");
    put!(out, "<i style=\"background:{USED}\"></i>blocks");
    put!(out, "<i style=\"background:{PALE}\"></i>partly free");
    put!(out, "<i style=\"background:{EMPTY}\"></i>free</p>\n");
    let rows = bytes.div_ceil(of_cell).div_ceil(MAP_COLUMNS).max(1);
    let height = CELL * share(rows, 1);
    put!(
        out,
        "<svg viewBox=\"0 0 {WIDTH} {height:.1}\" role=\"img\" aria-label=\"used and free parts of the file\">\n"
    );
    let mut next = 0;
    for cell in 0..bytes.div_ceil(of_cell) {
        let (start, end) = (cell * of_cell, ((cell + 1) * of_cell).min(bytes));
        let used = used_bytes(start, end, holes, &mut next);
        let part = share(used, end - start);
        let colour = match part {
            _ if start < SUPERBLOCKS => WARM.to_owned(),
            0.0 => EMPTY.to_owned(),
            part => shade(part),
        };
        put!(
            out,
            "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"{colour}\"><title>from byte {start}: {} used</title></rect>",
            CELL * share(cell % MAP_COLUMNS, 1),
            CELL * share(cell / MAP_COLUMNS, 1),
            CELL - 1.0,
            CELL - 1.0,
            ByteSize(used)
        );
    }
    *out += "\n</svg>\n";
}

/// A colour between that of partly free cells and that of used ones.
fn shade(part: f64) -> String {
    let mix = |pale: f64, used: f64| pale + (used - pale) * part;
    format!(
        "rgb({:.0},{:.0},{:.0})",
        mix(207.0, 47.0),
        mix(224.0, 111.0),
        mix(238.0, 159.0)
    )
}

/// A bar for each part of pages: its bytes before and after encoding.
fn columns(parts: &[Part], out: &mut String) {
    const ROW: f64 = 30.0;
    const NAME: f64 = 230.0;
    const NUMBERS: f64 = 190.0;
    *out += "<h2>Bytes for each column</h2>\n<p>In the pages of bottom runs: the bytes of the values, and the bytes after they were \
        encoded by type. The codec compresses whole pages afterwards.</p>\n<p class=\"key\">";
    put!(out, "<i style=\"background:{PALE}\"></i>values");
    put!(out, "<i style=\"background:{USED}\"></i>encoded</p>\n");
    let mut sorted: Vec<&Part> = parts.iter().collect();
    sorted.sort_by_key(|part| std::cmp::Reverse(part.encoded_bytes));
    let shown = sorted.get(..PARTS_MAX).unwrap_or(&sorted);
    let longest = |part: &&Part| part.raw_bytes.max(part.encoded_bytes);
    let longest = shown.iter().map(longest).max().unwrap_or(1);
    let room = WIDTH - NAME - NUMBERS;
    let height = ROW * share(shown.len() as u64, 1) + 4.0;
    put!(
        out,
        "<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"bytes for each column\">\n"
    );
    let mut top = 4.0;
    for part in shown {
        let encodings: Vec<String> = part
            .encodings
            .iter()
            .map(|(name, pages)| format!("{name} on {} pages", grouped(*pages)))
            .collect();
        let kind = part.kind.as_deref().unwrap_or("");
        let name = match &part.name {
            Some(name) => format!("{name} ({})", part.part),
            None => part.part.clone(),
        };
        put!(
            out,
            "<g><title>{}: {}; {}</title>",
            escaped(&name),
            escaped(kind),
            escaped(&encodings.join(", "))
        );
        put!(
            out,
            "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>",
            NAME - 8.0,
            top + 15.0,
            escaped(&shortened(&name))
        );
        for (bytes, colour, y, thick) in [
            (part.raw_bytes, PALE, top + 2.0, 18.0),
            (part.encoded_bytes, USED, top + 6.0, 10.0),
        ] {
            put!(
                out,
                "<rect x=\"{NAME}\" y=\"{y}\" width=\"{:.1}\" height=\"{thick}\" rx=\"2\" fill=\"{colour}\"/>",
                room * share(bytes, longest)
            );
        }
        put!(
            out,
            "<text class=\"quiet\" x=\"{}\" y=\"{}\">{} to {}, {}</text></g>\n",
            WIDTH - NUMBERS + 8.0,
            top + 15.0,
            ByteSize(part.raw_bytes),
            ByteSize(part.encoded_bytes),
            ratio(part.raw_bytes, part.encoded_bytes)
        );
        top += ROW;
    }
    *out += "</svg>\n";
    if let Some(rest) = sorted.get(PARTS_MAX..).filter(|rest| !rest.is_empty()) {
        let bytes = rest.iter().map(|part| part.encoded_bytes).sum();
        put!(
            out,
            "<p>{} other columns have {} together.</p>\n",
            grouped(rest.len() as u64),
            ByteSize(bytes)
        );
    }
}

/// A name that fits into the picture.
fn shortened(name: &str) -> String {
    const CHARACTERS_MAX: usize = 34;
    match name.char_indices().nth(CHARACTERS_MAX) {
        Some((end, _)) => format!("{}…", name.get(..end).unwrap_or(name)),
        None => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_used_bytes_of_consecutive_ranges_add_up() {
        let holes = [(100, 250), (300, 301), (390, 700)];
        for step in [1, 7, 64, 1000] {
            let mut next = 0;
            let mut used = 0;
            let mut start = 0;
            while start < 1000 {
                let end = (start + step).min(1000);
                used += used_bytes(start, end, &holes, &mut next);
                start = end;
            }
            assert_eq!(used, 1000 - 150 - 1 - 310, "step {step}");
        }
    }

    #[test]
    fn names_are_escaped_and_fit() {
        assert_eq!(escaped("<a & \"b\">"), "&lt;a &amp; &quot;b&quot;&gt;");
        assert_eq!(shortened("name"), "name");
        assert_eq!(shortened(&"ü".repeat(50)).chars().count(), 35);
    }
}
