//! A row as text, field by field: for LOAD DATA (a separator between fields, a newline after each row,
//! `\N` for NULL) or for INSERT.
//!
//! No field contains a character that either form has to escape; this is asserted.

use std::io::{self, Write};

/// How rows are written.
#[derive(Clone, Debug)]
pub enum Form {
    /// The format of LOAD DATA. With a tab as the separator it is the default format.
    Load {
        /// The character between fields.
        separator: u8,
    },
    /// Statements `INSERT INTO table VALUES (...),(...);`, one on each line.
    Insert {
        /// The table, with a list of columns if the rows do not have all columns: `purchases (day,
        /// price)`.
        table: String,
        /// Rows of each statement; the last one may have fewer.
        rows: u64,
    },
}

/// Collects fields into rows and writes them in large chunks.
#[derive(Debug)]
pub struct RowWriter<W: Write> {
    out: W,
    form: Form,
    buffer: Vec<u8>,
    fields_in_row: u64,
    rows_in_statement: u64,
}

const FLUSH_BYTES: usize = 1 << 20;

impl<W: Write> RowWriter<W> {
    /// Writes rows in `form` to `out`.
    pub fn new(out: W, form: Form) -> Self {
        Self {
            out,
            form,
            buffer: Vec::with_capacity(FLUSH_BYTES + (64 << 10)),
            fields_in_row: 0,
            rows_in_statement: 0,
        }
    }

    fn begin_field(&mut self) {
        if self.fields_in_row == 0 {
            if let Form::Insert { table, .. } = &self.form {
                if self.rows_in_statement == 0 {
                    self.buffer.extend_from_slice(b"INSERT INTO ");
                    self.buffer.extend_from_slice(table.as_bytes());
                    self.buffer.extend_from_slice(b" VALUES (");
                } else {
                    self.buffer.extend_from_slice(b",(");
                }
            }
        } else {
            self.buffer.push(match self.form {
                Form::Load { separator } => separator,
                Form::Insert { .. } => b',',
            });
        }
        self.fields_in_row += 1;
    }

    /// A whole number.
    pub fn number(&mut self, value: u64) {
        self.begin_field();
        self.digits(value, 1);
    }

    /// A whole number that may be negative.
    pub fn signed(&mut self, value: i64) {
        self.begin_field();
        if value < 0 {
            self.buffer.push(b'-');
        }
        self.digits(value.unsigned_abs(), 1);
    }

    /// `value` units of 10^-`places`: 1234 with 2 places is 12.34.
    pub fn decimal(&mut self, value: u64, places: u32) {
        self.begin_field();
        let unit = 10_u64.pow(places);
        self.digits(value / unit, 1);
        self.buffer.push(b'.');
        self.digits(value % unit, places);
    }

    /// Text without single quotes, backslashes, tabs, bars and newlines.
    ///
    /// # Panics
    /// When `value` has such a character.
    pub fn text(&mut self, value: &str) {
        assert!(
            !value
                .bytes()
                .any(|byte| matches!(byte, b'\'' | b'\\' | b'\t' | b'|' | b'\n')),
            "text to be escaped"
        );
        self.begin_field();
        let quoted = matches!(self.form, Form::Insert { .. });
        if quoted {
            self.buffer.push(b'\'');
        }
        self.buffer.extend_from_slice(value.as_bytes());
        if quoted {
            self.buffer.push(b'\'');
        }
    }

    /// NULL.
    pub fn null(&mut self) {
        self.begin_field();
        self.buffer.extend_from_slice(match self.form {
            Form::Load { .. } => b"\\N",
            Form::Insert { .. } => b"NULL",
        });
    }

    fn digits(&mut self, mut value: u64, width: u32) {
        const DIGITS: &[u8; 10] = b"0123456789";
        let mut reversed = [b'0'; 20];
        let mut count = 0_u32;
        for digit in &mut reversed {
            if value == 0 && count >= width {
                break;
            }
            *digit = usize::try_from(value % 10)
                .ok()
                .and_then(|digit| DIGITS.get(digit).copied())
                .unwrap_or(b'0');
            value /= 10;
            count += 1;
        }
        let from = reversed.len().min(count as usize);
        self.buffer.extend(reversed.iter().take(from).rev());
    }

    /// Ends the row.
    ///
    /// # Errors
    /// Errors of the output.
    pub fn end_row(&mut self) -> io::Result<()> {
        self.fields_in_row = 0;
        match &self.form {
            Form::Load { .. } => self.buffer.push(b'\n'),
            Form::Insert { rows, .. } => {
                self.buffer.push(b')');
                self.rows_in_statement += 1;
                if self.rows_in_statement >= *rows {
                    self.buffer.extend_from_slice(b";\n");
                    self.rows_in_statement = 0;
                }
            }
        }
        if self.buffer.len() >= FLUSH_BYTES {
            self.out.write_all(&self.buffer)?;
            self.buffer.clear();
        }
        Ok(())
    }

    /// Ends the last statement and writes the rest.
    ///
    /// # Errors
    /// Errors of the output.
    pub fn finish(mut self) -> io::Result<W> {
        if self.rows_in_statement > 0 {
            self.buffer.extend_from_slice(b";\n");
        }
        self.out.write_all(&self.buffer)?;
        self.out.flush()?;
        Ok(self.out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(form: Form) -> String {
        let mut writer = RowWriter::new(Vec::new(), form);
        for row in 0..3 {
            writer.number(row);
            writer.decimal(1205, 2);
            writer.text("a word");
            writer.null();
            writer.end_row().unwrap();
        }
        String::from_utf8(writer.finish().unwrap()).unwrap()
    }

    #[test]
    fn rows_for_load_data_are_tab_separated_lines() {
        assert_eq!(
            write(Form::Load { separator: b'\t' }),
            "0\t12.05\ta word\t\\N\n1\t12.05\ta word\t\\N\n2\t12.05\ta word\t\\N\n"
        );
    }

    #[test]
    fn rows_for_insert_are_batched_one_statement_to_a_line() {
        let form = Form::Insert {
            table: "t".to_owned(),
            rows: 2,
        };
        assert_eq!(
            write(form),
            "INSERT INTO t VALUES (0,12.05,'a word',NULL),(1,12.05,'a word',NULL);\n\
             INSERT INTO t VALUES (2,12.05,'a word',NULL);\n"
        );
    }

    #[test]
    fn negative_numbers_have_a_sign() {
        let mut writer = RowWriter::new(Vec::new(), Form::Load { separator: b'|' });
        for value in [-1, 0, 7, i64::MIN] {
            writer.signed(value);
        }
        writer.end_row().unwrap();
        assert_eq!(writer.finish().unwrap(), b"-1|0|7|-9223372036854775808\n");
    }

    #[test]
    fn the_largest_number_is_written_whole() {
        let mut writer = RowWriter::new(Vec::new(), Form::Load { separator: b'|' });
        writer.number(u64::MAX);
        writer.decimal(u64::MAX, 1);
        writer.end_row().unwrap();
        assert_eq!(
            writer.finish().unwrap(),
            b"18446744073709551615|1844674407370955161.5\n"
        );
    }
}
