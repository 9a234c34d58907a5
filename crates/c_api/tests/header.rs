//! Checks that the committed headers match the sources.
//!
//! cbindgen generates each section of a header separately, from the source files of that section.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing
)]

use std::fmt::Write;
use std::path::{Path, PathBuf};

struct Section {
    title: &'static str,
    text: &'static str,
    files: &'static [&'static str],
}

const TEAK: &[Section] = &[
    Section {
        title: "Version",
        text: "",
        files: &["version"],
    },
    Section {
        title: "Status and errors",
        text: "Every call that can fail returns a teak_status and writes its out-parameters only on TEAK_OK,\n\
               unless stated otherwise. A call whose comment only names a status can return it for the reason\n\
               given in teak_status. After any status other than TEAK_OK and TEAK_NOT_FOUND,\n\
               teak_last_error() returns its message, in the same thread.",
        files: &["status", "errors"],
    },
    Section {
        title: "Bytes and handles",
        text: "Handles are opaque.",
        files: &["slice", "handles"],
    },
    Section {
        title: "Engine and options",
        text: "",
        files: &["options", "engine"],
    },
    Section {
        title: "Tables",
        text: "A table has a row index, number 0, and up to 255 secondary indexes. Each index maps keys to\n\
               values, both byte strings. The caller derives the entries of a row and writes all of them in\n\
               one call.",
        files: &["codec", "table", "table_counter", "index"],
    },
    Section {
        title: "Transactions",
        text: "A deadlock, a conflict or a lock timeout does not undo earlier writes. After a deadlock or a\n\
               conflict, roll the transaction back and retry it; after a lock timeout, the call can be repeated.",
        files: &["transaction"],
    },
    Section {
        title: "Rows",
        text: "",
        files: &["row", "load"],
    },
    Section {
        title: "Cursors",
        text: "A cursor reads one index, including the writes of its own transaction.",
        files: &["cursor"],
    },
    Section {
        title: "Hot backup",
        text: "The steps: begin; copy steps, until there is no other file; finish; end.",
        files: &["backup"],
    },
    Section {
        title: "Monitoring",
        text: "",
        files: &["monitoring"],
    },
];

const SERVER: &[Section] = &[
    Section {
        title: "Tables",
        text: "",
        files: &["server/table"],
    },
    Section {
        title: "Transactions",
        text: "",
        files: &["server/transaction"],
    },
    Section {
        title: "Cursors",
        text: "",
        files: &["server/cursor"],
    },
    Section {
        title: "Aggregates and filters",
        text: "Conditions, groups and aggregates of all rows of an index, computed by column. The steps: open; for each\n\
               group: next, and get the parts of its key and its items; close.",
        files: &[
            "server/aggregate_query",
            "server/aggregate",
            "server/page_filter",
        ],
    },
    Section {
        title: "Two-phase commit",
        text: "",
        files: &["server/prepared"],
    },
    Section {
        title: "Altering tables",
        text: "The steps: begin; add every entry of a snapshot; build; commit, while no transaction writes the\n\
               table; end.",
        files: &["server/alteration"],
    },
    Section {
        title: "Repairing tables",
        text: "The steps: open the damaged table; begin an alteration that adds all indexes again, and make\n\
               it a repair; salvage the rows and add their entries; build; commit; end.",
        files: &["server/salvage"],
    },
    Section {
        title: "Lists of transactions, locks and waits",
        text: "",
        files: &["server/locks"],
    },
    Section {
        title: "List of indexes",
        text: "",
        files: &["server/indexes"],
    },
    Section {
        title: "Reports that read tables",
        text: "",
        files: &["server/visitor", "server/columns", "server/block_map"],
    },
    Section {
        title: "Background jobs and the log",
        text: "",
        files: &["server/jobs", "server/log"],
    },
    Section {
        title: "Hot backup",
        text: "The steps: arm; begin a stage; end the stage. The engine copies in a thread of its own.",
        files: &["server/backup"],
    },
];

const TEAK_TOP: &str = "\
// The C interface of the Teak storage engine. Generated from crates/c_api: do not edit.
//
// Sections: version; status and errors; bytes and handles; engine and options; tables;
// transactions; rows; cursors; hot backup; monitoring. Calls for database servers are in teak_server.h.
//
// Pointers must not be NULL unless stated; NULL is refused with TEAK_INVALID_ARGUMENT. Strings are
// UTF-8 with a length. Structs that later versions may extend begin with struct_size, which the
// caller sets. A panic inside the library is caught and returned as TEAK_INTERNAL.
// Names follow one rule: teak_<object>_<verb>.
//
// Link with -lteak (pkg-config teak). The program examples/c/basic.c:
//
";

const SERVER_TOP: &str = "\
// Calls of the Teak storage engine that a database server needs, in addition to teak.h.
// Generated from crates/c_api: do not edit.
//
// Unlike teak.h, this header may change in any version: compile the caller together with the
// library.
";

/// The end of teak.h: a function that makes a slice of a C string.
const TEAK_END: &str = "\
// A slice of a string that ends with NUL, without the NUL.
static inline teak_slice teak_string(const char *string) {
  teak_slice slice = {(const uint8_t *)string, strlen(string)};
  return slice;
}
";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_owned()
}

/// Gives structs and enums their names as tags too, so that C++ and debuggers
/// have them: `typedef struct {` ... `} name;` becomes `typedef struct name {`.
fn tagged(generated: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    let mut open = None;
    for line in generated.lines() {
        if line.starts_with("typedef struct {") || line.starts_with("typedef enum {") {
            open = Some(lines.len());
        } else if let (Some(first), Some(name)) = (open, line.strip_prefix("} ")) {
            let name = name.trim_end_matches(';');
            lines[first] = lines[first].replace('{', &format!("{name} {{"));
            open = None;
        }
        lines.push(line.to_owned());
    }
    lines.join("\n")
}

fn section(section: &Section) -> String {
    let config = cbindgen::Config::from_file(root().join("cbindgen.toml")).unwrap();
    let mut builder = cbindgen::Builder::new().with_config(config);
    for file in section.files {
        builder = builder.with_src(root().join(format!("src/{file}.rs")));
    }
    let mut generated = Vec::new();
    builder.generate().unwrap().write(&mut generated);
    let generated = tagged(String::from_utf8(generated).unwrap().trim());
    let rule = "-".repeat(100 - 8 - section.title.len());
    let mut text = format!("// --- {} {rule}\n", section.title);
    for line in section.text.lines() {
        writeln!(text, "// {line}").unwrap();
    }
    format!("{text}\n{generated}\n\n")
}

/// Defines the version as one string, for comparison with `teak_version()`.
fn version_string() -> String {
    let version = env!("CARGO_PKG_VERSION");
    format!("// The version of this header.\n#define TEAK_VERSION_STRING \"{version}\"\n\n")
}

fn header(guard: &str, top: &str, includes: &str, sections: &[Section], end: &str) -> String {
    let mut text = format!("{top}\n#ifndef {guard}\n#define {guard}\n\n{includes}\n");
    text.push_str("#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n");
    for part in sections {
        text.push_str(&section(part));
        if part.title == "Version" {
            text.push_str(&version_string());
        }
        if part.files.contains(&"handles") {
            text.push_str(end);
            text.push('\n');
        }
    }
    write!(
        text,
        "#ifdef __cplusplus\n}}\n#endif\n\n#endif // {guard}\n"
    )
    .unwrap();
    text
}

fn expect_current(name: &str, generated: &str) {
    let path = root().join("include").join(name);
    if std::env::var_os("TEAK_WRITE_HEADER").is_some() {
        std::fs::write(&path, generated).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == generated,
        "include/{name} is not current: run TEAK_WRITE_HEADER=1 cargo test -p teak-c-api"
    );
}

#[test]
fn headers_are_current() {
    let example = std::fs::read_to_string(root().join("../../examples/c/basic.c")).unwrap();
    let mut top = TEAK_TOP.to_owned();
    for line in example.lines() {
        writeln!(top, "{}", format!("//   {line}").trim_end()).unwrap();
    }
    let includes =
        "#include <stdbool.h>\n#include <stddef.h>\n#include <stdint.h>\n#include <string.h>\n";
    let teak = header("TEAK_H", &top, includes, TEAK, TEAK_END);
    expect_current("teak.h", &teak);
    let includes = "#include \"teak.h\"\n";
    let server = header("TEAK_SERVER_H", SERVER_TOP, includes, SERVER, "");
    expect_current("teak_server.h", &server);
}
