//! Where rows are written, and in which form.

use crate::cell::{Cell, Column, hex};
use crate::names::quoted_name;
use crate::paths::named;
use clap::ValueEnum;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

/// The form of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// A line with the names of columns, then a line for each row
    Csv,
    /// A JSON object for each row, on a line of its own
    Json,
    /// INSERT statements
    Sql,
}

/// Bytes of an INSERT statement from which the next row begins a new one.
const STATEMENT_BYTES: usize = 1 << 20;

const BUFFER_BYTES: usize = 1 << 20;

/// Opens a file for the output; standard output without a path.
pub(crate) fn open(path: Option<&PathBuf>) -> io::Result<Box<dyn Write>> {
    Ok(match path {
        Some(path) => {
            let file = File::create(path).map_err(|error| named(path, &error))?;
            Box::new(BufWriter::with_capacity(BUFFER_BYTES, file))
        }
        None => Box::new(BufWriter::with_capacity(BUFFER_BYTES, io::stdout().lock())),
    })
}

/// Writes rows of one table.
pub(crate) struct RowWriter<'a> {
    output: &'a mut dyn Write,
    format: Format,
    /// The names as they are written before each value, in JSON.
    names: Vec<String>,
    /// The beginning of an INSERT, and which columns it has.
    insert: String,
    inserted: Vec<bool>,
    /// Bytes of the current INSERT; 0 when none has begun.
    statement_bytes: usize,
    line: String,
}

impl<'a> RowWriter<'a> {
    /// Writes what precedes the rows. `table`: the name in INSERT statements.
    pub(crate) fn new(
        output: &'a mut dyn Write,
        format: Format,
        columns: &[Column],
        table: &str,
    ) -> io::Result<Self> {
        let mut line = String::new();
        match format {
            Format::Csv => {
                for (number, column) in columns.iter().enumerate() {
                    put_separator(number, &mut line);
                    put_csv_text(&column.name, &mut line);
                }
                line.push('\n');
            }
            Format::Json => {}
            Format::Sql => {
                line += "SET NAMES utf8mb4;\nSET time_zone = '+00:00';\n";
                line += "SET sql_mode = 'NO_AUTO_VALUE_ON_ZERO';\n";
            }
        }
        output.write_all(line.as_bytes())?;
        let names = columns.iter().map(|column| json_text(&column.name));
        let inserted = columns.iter().filter(|column| column.is_insertable);
        let inserted: Vec<String> = inserted.map(|column| quoted_name(&column.name)).collect();
        Ok(Self {
            output,
            format,
            names: names.collect(),
            insert: format!(
                "INSERT INTO {} ({}) VALUES\n",
                quoted_name(table),
                inserted.join(", ")
            ),
            inserted: columns.iter().map(|column| column.is_insertable).collect(),
            statement_bytes: 0,
            line: String::new(),
        })
    }

    pub(crate) fn row(&mut self, cells: &[Cell]) -> io::Result<()> {
        let mut line = std::mem::take(&mut self.line);
        line.clear();
        match self.format {
            Format::Csv => {
                for (number, cell) in cells.iter().enumerate() {
                    put_separator(number, &mut line);
                    put_csv(cell, &mut line);
                }
                line.push('\n');
            }
            Format::Json => {
                line.push('{');
                for (number, (name, cell)) in self.names.iter().zip(cells).enumerate() {
                    put_separator(number, &mut line);
                    line += name;
                    line.push(':');
                    put_json(cell, &mut line);
                }
                line += "}\n";
            }
            Format::Sql => self.put_sql(cells, &mut line),
        }
        let written = self.output.write_all(line.as_bytes());
        self.line = line;
        written
    }

    fn put_sql(&mut self, cells: &[Cell], line: &mut String) {
        if self.statement_bytes == 0 {
            *line += &self.insert;
        } else {
            *line += ",\n";
        }
        line.push('(');
        let inserted = cells.iter().zip(&self.inserted).filter(|(_, is)| **is);
        for (number, (cell, _)) in inserted.enumerate() {
            put_separator(number, line);
            put_sql(cell, line);
        }
        line.push(')');
        self.statement_bytes += line.len();
        if self.statement_bytes >= STATEMENT_BYTES {
            *line += ";\n";
            self.statement_bytes = 0;
        }
    }

    /// Ends the output.
    pub(crate) fn finish(self) -> io::Result<()> {
        if self.statement_bytes > 0 {
            self.output.write_all(b";\n")?;
        }
        self.output.flush()
    }
}

fn put_separator(number: usize, line: &mut String) {
    if number > 0 {
        line.push(',');
    }
}

/// Encloses a text in quotes if a reader would take it for something else otherwise.
fn put_csv_text(text: &str, line: &mut String) {
    let is_special = |char| matches!(char, ',' | '"' | '\n' | '\r');
    let is_ambiguous = text.is_empty() || text == "NULL" || text.starts_with([' ', '\t']);
    if !is_ambiguous && !text.contains(is_special) && !text.starts_with("0x") {
        *line += text;
        return;
    }
    line.push('"');
    *line += &text.replace('"', "\"\"");
    line.push('"');
}

fn put_csv(cell: &Cell, line: &mut String) {
    match cell {
        Cell::Null => *line += "NULL",
        Cell::Number(digits) => *line += digits,
        Cell::Text(text) => put_csv_text(text, line),
        Cell::Bytes(bytes) => {
            *line += "0x";
            *line += &hex(bytes);
        }
    }
}

/// A text as a JSON string.
pub(crate) fn json_text(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

fn put_json(cell: &Cell, line: &mut String) {
    match cell {
        Cell::Null => *line += "null",
        Cell::Number(digits) => *line += digits,
        Cell::Text(text) => *line += &json_text(text),
        Cell::Bytes(bytes) => {
            *line += "{\"hex\":\"";
            *line += &hex(bytes);
            *line += "\"}";
        }
    }
}

fn put_sql(cell: &Cell, line: &mut String) {
    match cell {
        Cell::Null => *line += "NULL",
        Cell::Number(digits) => *line += digits,
        Cell::Bytes(bytes) => {
            *line += "x'";
            *line += &hex(bytes);
            line.push('\'');
        }
        Cell::Text(text) => {
            line.push('\'');
            for char in text.chars() {
                match char {
                    '\'' => *line += "''",
                    '\\' => *line += "\\\\",
                    '\n' => *line += "\\n",
                    '\r' => *line += "\\r",
                    '\0' => *line += "\\0",
                    '\u{1a}' => *line += "\\Z",
                    other => line.push(other),
                }
            }
            line.push('\'');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(format: Format, rows: &[[Cell; 3]]) -> String {
        let column = |name: &str, is_insertable| Column {
            name: name.to_owned(),
            is_insertable,
        };
        let columns = [
            column("id", true),
            column("na,me", true),
            column("sum", false),
        ];
        let mut output = Vec::new();
        let mut writer = RowWriter::new(&mut output, format, &columns, "t`x").unwrap();
        for row in rows {
            writer.row(row).unwrap();
        }
        writer.finish().unwrap();
        String::from_utf8(output).unwrap()
    }

    fn rows() -> [[Cell; 3]; 3] {
        let number = |text: &str| Cell::Number(text.into());
        let text = |text: &str| Cell::Text(text.into());
        [
            [number("-1"), text("a \"b\", 'c'\n\\"), Cell::Null],
            [Cell::Null, text(""), Cell::Bytes(vec![0, 255])],
            [number("1.5"), text("NULL"), text("0x00")],
        ]
    }

    #[test]
    fn csv_distinguishes_null_empty_and_text() {
        let expected = "id,\"na,me\",sum\n-1,\"a \"\"b\"\", 'c'\n\\\",NULL\nNULL,\"\",0x00ff\n1.5,\"NULL\",\"0x00\"\n";
        assert_eq!(written(Format::Csv, &rows()), expected);
    }

    #[test]
    fn json_lines_are_objects() {
        let text = written(Format::Json, &rows());
        let mut lines = text.lines();
        let first: serde_json::Value = serde_json::from_str(lines.next().unwrap()).unwrap();
        assert_eq!(first["na,me"], "a \"b\", 'c'\n\\");
        assert_eq!(first["id"], -1);
        let second: serde_json::Value = serde_json::from_str(lines.next().unwrap()).unwrap();
        assert!(second["id"].is_null() && second["sum"]["hex"] == "00ff");
    }

    #[test]
    fn sql_leaves_generated_columns_out() {
        let text = written(Format::Sql, &rows());
        let statement = "INSERT INTO `t``x` (`id`, `na,me`) VALUES\n(-1,'a \"b\", ''c''\\n\\\\'),\n(NULL,''),\n(1.5,'NULL');\n";
        assert!(text.ends_with(statement), "{text}");
        assert!(text.starts_with("SET NAMES utf8mb4;\n"));
        let long = [
            Cell::Number("1".into()),
            Cell::Text("x".repeat(1 << 20)),
            Cell::Null,
        ];
        let text = written(Format::Sql, &[long.clone(), long]);
        assert_eq!(text.matches("INSERT INTO").count(), 2);
        assert!(text.ends_with("');\n"));
    }
}
