//! Tables of text with aligned columns.

/// Rows of cells. The first column is aligned to the left, all others to the right.
#[derive(Default)]
pub(super) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(super) fn new(titles: &[&str]) -> Self {
        let mut table = Self::default();
        table.row(titles.iter().map(|title| (*title).to_owned()).collect());
        table
    }

    pub(super) fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    pub(super) fn text(&self) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        let mut text = String::new();
        for row in &self.rows {
            let mut line = String::new();
            for (number, (cell, width)) in row.iter().zip(&widths).enumerate() {
                let blanks = " ".repeat(width - cell.chars().count());
                if number == 0 {
                    line += &format!("{cell}{blanks}");
                } else {
                    line += &format!("  {blanks}{cell}");
                }
            }
            text += line.trim_end();
            text.push('\n');
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_aligned() {
        let mut table = Table::new(&["name", "n"]);
        table.row(vec!["a".into(), "1,000".into()]);
        assert_eq!(table.text(), "name      n\na     1,000\n");
    }
}
