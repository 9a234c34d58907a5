//! Editing the definition of a table.

use super::report::{Options, Report};
use super::tokens::{Kind, Token, tokens};

use std::ops::Range;

/// The codecs for TokuDB's row formats.
const ROW_FORMATS: [(&str, &str); 8] = [
    ("TOKUDB_DEFAULT", "zstd"),
    ("TOKUDB_FAST", "lz4"),
    ("TOKUDB_SMALL", "lzma"),
    ("TOKUDB_ZLIB", "zstd"),
    ("TOKUDB_QUICKLZ", "lz4"),
    ("TOKUDB_LZMA", "lzma"),
    ("TOKUDB_SNAPPY", "snappy"),
    ("TOKUDB_UNCOMPRESSED", "none"),
];

/// Characters of a definition that are shown in the report.
const SHOWN_CHARACTERS_MAX: usize = 200;

/// The changes of a statement: ranges, in ascending order, and the bytes that replace them.
#[derive(Default)]
pub(super) struct Edits(Vec<(Range<usize>, Vec<u8>)>);

/// A statement and its tokens.
struct Source<'a> {
    statement: &'a [u8],
    tokens: Vec<Token>,
}

impl Source<'_> {
    fn text(&self, number: usize) -> &[u8] {
        let token = self.tokens.get(number);
        token
            .and_then(|token| self.statement.get(token.place.clone()))
            .unwrap_or_default()
    }

    fn is_word(&self, number: usize, word: &str) -> bool {
        let is_word = self
            .tokens
            .get(number)
            .is_some_and(|token| token.kind == Kind::Word);
        is_word && self.text(number).eq_ignore_ascii_case(word.as_bytes())
    }

    fn is_symbol(&self, number: usize, symbol: u8) -> bool {
        self.tokens
            .get(number)
            .is_some_and(|token| token.kind == Kind::Symbol(symbol))
    }

    fn start(&self, number: usize) -> usize {
        self.tokens
            .get(number)
            .map_or(self.statement.len(), |token| token.place.start)
    }

    fn end(&self, number: usize) -> usize {
        self.tokens
            .get(number)
            .map_or(self.statement.len(), |token| token.place.end)
    }

    /// The text of a token without its quotes.
    fn unquoted(&self, number: usize) -> String {
        let text = String::from_utf8_lossy(self.text(number)).into_owned();
        let quotes = ['`', '\'', '"'];
        text.trim_matches(quotes).to_owned()
    }

    /// The number of the token after TABLE, if the statement creates or changes a table.
    fn table_name(&self) -> Option<usize> {
        let mut number = 1;
        let is_create = self.is_word(0, "CREATE");
        if !is_create && !self.is_word(0, "ALTER") {
            return None;
        }
        while ["OR", "REPLACE", "TEMPORARY", "ONLINE", "IGNORE"]
            .iter()
            .any(|word| self.is_word(number, word))
        {
            number += 1;
        }
        if !self.is_word(number, "TABLE") {
            return None;
        }
        number += 1;
        while ["IF", "NOT", "EXISTS"]
            .iter()
            .any(|word| self.is_word(number, word))
        {
            number += 1;
        }
        Some(number)
    }

    /// The text of a definition, for the report.
    fn shown(&self, definition: &Definition) -> String {
        let place = self.start(definition.first)..self.end(definition.end - 1);
        let text = String::from_utf8_lossy(self.statement.get(place).unwrap_or_default());
        text.chars().take(SHOWN_CHARACTERS_MAX).collect()
    }

    /// The value of an option at this token, `NAME value` or `NAME = value`.
    fn value_of(&self, number: usize) -> usize {
        number + 1 + usize::from(self.is_symbol(number + 1, b'='))
    }
}

/// The table of a definition.
struct Table {
    name: String,
    /// The server refuses options of keys of such a table.
    is_partitioned: bool,
}

/// A definition of a column or key: its first token, and the one after its last, a comma or bracket.
struct Definition {
    first: usize,
    end: usize,
}

/// The definitions in the brackets that begin at token `open`, and the number of the closing bracket.
fn definitions(source: &Source<'_>, open: usize) -> (Vec<Definition>, usize) {
    let mut found = Vec::new();
    let (mut depth, mut first) = (1, open + 1);
    for number in open + 1..source.tokens.len() {
        if source.is_symbol(number, b'(') {
            depth += 1;
        } else if source.is_symbol(number, b')') {
            depth -= 1;
        }
        if depth == 0 || depth == 1 && source.is_symbol(number, b',') {
            found.push(Definition { first, end: number });
            first = number + 1;
        }
        if depth == 0 {
            return (found, number);
        }
    }
    (found, source.tokens.len())
}

impl Edits {
    /// The changes of a statement. Notes them in the report.
    pub(super) fn of(statement: &[u8], options: &Options, report: &mut Report) -> Self {
        let tokens = tokens(statement).collect();
        let source = Source { statement, tokens };
        let mut edits = Self::default();
        let Some(name) = source.table_name() else {
            return edits;
        };
        // A name may have a database in front.
        let last = if source.is_symbol(name + 1, b'.') {
            name + 2
        } else {
            name
        };
        let mut after = last + 1;
        let mut found = Vec::new();
        if source.is_word(0, "CREATE") && source.is_symbol(after, b'(') {
            (found, after) = definitions(&source, after);
        }
        if source.is_word(0, "ALTER") {
            note_added_foreign_keys(&source, last, report);
        }
        let mut options_of_table = Self::default();
        if !options_of_table.convert_options(&source, after, options, report) {
            return edits;
        }
        report.tables += 1;
        let table = Table {
            name: source.unquoted(last),
            is_partitioned: (after..source.tokens.len())
                .any(|number| source.is_word(number, "PARTITION")),
        };
        edits.convert_definitions(&source, &found, &table, options, report);
        edits.0.extend(options_of_table.0);
        edits
    }

    /// Applies the changes.
    pub(super) fn apply(&self, statement: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(statement.len());
        let mut at = 0;
        for (place, bytes) in &self.0 {
            out.extend_from_slice(statement.get(at..place.start).unwrap_or_default());
            out.extend_from_slice(bytes);
            at = place.end;
        }
        out.extend_from_slice(statement.get(at..).unwrap_or_default());
        out
    }

    fn replace(&mut self, place: Range<usize>, bytes: &str) {
        self.0.push((place, bytes.as_bytes().to_vec()));
    }

    /// Converts the options of a table and its partitions, after token `first`. Returns whether its engine is one to
    /// convert.
    fn convert_options(
        &mut self,
        source: &Source<'_>,
        first: usize,
        options: &Options,
        report: &mut Report,
    ) -> bool {
        let mut is_converted = false;
        let mut row_formats = 0;
        for number in first..source.tokens.len() {
            let value = source.value_of(number);
            if source.is_word(number, "ENGINE") {
                let engine = source.unquoted(value);
                if options
                    .from
                    .iter()
                    .any(|from| from.eq_ignore_ascii_case(&engine))
                {
                    self.replace(source.start(value)..source.end(value), "TEAK");
                    is_converted = true;
                }
            } else if source.is_word(number, "ROW_FORMAT") {
                let format = source.unquoted(value);
                let mut known = ROW_FORMATS.iter();
                if let Some((_, codec)) = known.find(|known| known.0.eq_ignore_ascii_case(&format))
                {
                    let compression = format!("COMPRESSION={codec}");
                    self.replace(source.start(number)..source.end(value), &compression);
                    row_formats += 1;
                }
            }
        }
        if is_converted {
            report.row_formats += row_formats;
        }
        is_converted
    }

    fn convert_definitions(
        &mut self,
        source: &Source<'_>,
        definitions: &[Definition],
        table: &Table,
        options: &Options,
        report: &mut Report,
    ) {
        let mut is_first = true;
        for (position, definition) in definitions.iter().enumerate() {
            let Definition { first, end } = *definition;
            let refused = refused_kind(source, first);
            let is_dropped = match refused {
                Some(Refused::ForeignKey) => options.drop_foreign_keys,
                Some(Refused::OtherKey) => options.drop_fulltext_and_spatial_keys,
                None => false,
            };
            if refused.is_some() {
                let shown = source.shown(definition);
                report.refused.push((table.name.clone(), shown, is_dropped));
            }
            if is_dropped {
                // With the comma before it; before the first one that remains, with the comma after it.
                let has_next = position + 1 < definitions.len();
                let place = match is_first {
                    true if has_next => source.start(first)..source.start(end + 1),
                    true => source.start(first)..source.end(end - 1),
                    false => source.start(first - 1)..source.end(end - 1),
                };
                self.replace(place, "");
                continue;
            }
            is_first = false;
            self.convert_clustering(source, definition, table, report);
        }
    }

    /// `[UNIQUE] CLUSTERING KEY ...` becomes `[UNIQUE] KEY ... CLUSTERING=YES`, or in a table with
    /// partitions `[UNIQUE] KEY ...`.
    fn convert_clustering(
        &mut self,
        source: &Source<'_>,
        definition: &Definition,
        table: &Table,
        report: &mut Report,
    ) {
        let Definition { first, end } = *definition;
        let is_unique = source.is_word(first, "UNIQUE");
        let clustering = first + usize::from(is_unique);
        let is_clustering = source.is_word(clustering, "CLUSTERING");
        let mut key = clustering + 1;
        if source.is_word(key, "UNIQUE") && !is_unique {
            key += 1;
        }
        if !is_clustering || !(source.is_word(key, "KEY") || source.is_word(key, "INDEX")) {
            return;
        }
        self.replace(source.start(clustering)..source.start(clustering + 1), "");
        if table.is_partitioned {
            let shown = format!("CLUSTERING of {}", source.shown(definition));
            report.refused.push((table.name.clone(), shown, true));
            return;
        }
        let behind = source.end(end - 1);
        self.replace(behind..behind, " CLUSTERING=YES");
        report.clustering_keys += 1;
    }
}

/// Reports the foreign keys that `ALTER TABLE` adds. They are not left out, because a statement may
/// consist of nothing else.
fn note_added_foreign_keys(source: &Source<'_>, name: usize, report: &mut Report) {
    for number in name..source.tokens.len() {
        let is_added = source.is_word(number, "ADD")
            && matches!(refused_kind(source, number + 1), Some(Refused::ForeignKey));
        if is_added {
            let end = source.tokens.len();
            let definition = Definition { first: number, end };
            let table = source.unquoted(name);
            report
                .refused
                .push((table, source.shown(&definition), false));
            return;
        }
    }
}

/// A definition that Teak refuses.
#[derive(Clone, Copy)]
enum Refused {
    ForeignKey,
    OtherKey,
}

fn refused_kind(source: &Source<'_>, first: usize) -> Option<Refused> {
    let mut number = first;
    if source.is_word(number, "CONSTRAINT") {
        number += 1;
        // The name may be left out.
        if !source.is_word(number, "FOREIGN") {
            number += 1;
        }
    }
    if source.is_word(number, "FOREIGN") && source.is_word(number + 1, "KEY") {
        return Some(Refused::ForeignKey);
    }
    let is_other = source.is_word(first, "FULLTEXT") || source.is_word(first, "SPATIAL");
    let is_key = ["KEY", "INDEX"]
        .iter()
        .any(|word| source.is_word(first + 1, word));
    (is_other && is_key).then_some(Refused::OtherKey)
}
