//! `teak verify` and `teak inspect` on files of the tree.

// A test fails by a panic.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation
)]

mod common;

use common::{Directory, ROWS, create, text};

#[test]
fn verify_reports_each_file_and_fails_for_a_damaged_one() {
    let directory = Directory::new("verify");
    create(&directory.0.join("db/one.teak"));
    create(&directory.0.join("db/two.teak"));
    std::fs::write(directory.0.join("db/other.frm"), b"no index").unwrap();
    let checked = directory.teak(&["verify", "."]);
    assert!(checked.status.success(), "{checked:?}");
    let lines = text(&checked);
    assert_eq!(lines.matches("ok ").count(), 2, "{lines}");
    assert!(lines.contains("20,000 entries") && lines.ends_with("2 files, 0 damaged\n"));

    let path = directory.0.join("db/two.teak");
    let mut bytes = std::fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    for byte in &mut bytes[middle..middle + 600] {
        *byte ^= 0x55;
    }
    std::fs::write(&path, &bytes).unwrap();
    let checked = directory.teak(&["verify", "--quiet", "db"]);
    assert_eq!(checked.status.code(), Some(1));
    let lines = text(&checked);
    assert!(
        lines.starts_with("damaged  db/two.teak: ") && lines.lines().count() == 1,
        "{lines}"
    );
    assert_eq!(std::fs::read(&path).unwrap(), bytes, "the file was changed");

    let missing = directory.teak(&["verify", "db/none.teak"]);
    assert_eq!(missing.status.code(), Some(1));
}

#[test]
fn inspect_shows_levels_and_columns() {
    let directory = Directory::new("inspect");
    create(&directory.0.join("db/one.teak"));
    let shown = directory.teak(&["inspect", "db/one.teak"]);
    assert!(shown.status.success(), "{shown:?}");
    let lines = text(&shown);
    assert!(
        lines.contains("leaves") && lines.contains("key column 0"),
        "{lines}"
    );

    let shown = directory.teak(&["inspect", "--json", "db"]);
    let reports: serde_json::Value = serde_json::from_slice(&shown.stdout).unwrap();
    let report = &reports[0];
    assert_eq!(report["levels"][0]["entries"], ROWS);
    assert_eq!(report["bottom"]["entries"], ROWS);
    let parts = report["parts"].as_array().unwrap();
    let names: Vec<_> = parts
        .iter()
        .map(|part| part["part"].as_str().unwrap())
        .collect();
    assert_eq!(
        names,
        [
            "heads of entries",
            "key column 0",
            "column 0",
            "column 1",
            "column 2"
        ]
    );
    let sum = |field: &str| {
        parts
            .iter()
            .map(|part| part[field].as_u64().unwrap())
            .sum::<u64>()
    };
    let encoded = report["bottom"]["encoded_bytes"].as_u64().unwrap();
    // The lists of columns are not in the parts.
    assert!(sum("encoded_bytes") <= encoded && sum("encoded_bytes") * 100 > encoded * 95);
    for part in &parts[1..] {
        assert_eq!(part["values"], ROWS, "{part}");
    }
    assert_eq!(parts[3]["raw_bytes"], u64::from(ROWS) * 4);
}

#[test]
fn inspect_draws_a_page_without_other_files() {
    let directory = Directory::new("html");
    create(&directory.0.join("db/one.teak"));
    create(&directory.0.join("db/two.teak"));
    let shown = directory.teak(&["inspect", "--html", "db", "--output", "page.html"]);
    assert!(
        shown.status.success() && shown.stdout.is_empty(),
        "{shown:?}"
    );
    let page = std::fs::read_to_string(directory.0.join("page.html")).unwrap();
    assert!(page.starts_with("<!doctype html>") && page.ends_with("</html>\n"));
    assert_eq!(page.matches("<svg").count(), 6);
    assert_eq!(page.matches("<svg").count(), page.matches("</svg>").count());
    assert!(page.contains("20,000 entries") && page.contains("column 2"));
    for other in ["<script", "http:", "https:", "url(", "@import", "src="] {
        assert!(!page.contains(other), "the page needs {other}");
    }
}
