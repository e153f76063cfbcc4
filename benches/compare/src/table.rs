//! Tables that read well in a terminal and in Markdown.

use comfy_table::{CellAlignment, Table, presets};

/// A table whose first column holds words and the others numbers.
pub struct Sheet {
    table: Table,
}

impl Sheet {
    /// A table with this first line.
    pub fn new<const N: usize>(header: [&str; N]) -> Self {
        let mut table = Table::new();
        table.load_style(presets::ASCII_MARKDOWN).set_header(header);
        for column in table.column_iter_mut().skip(1) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        Self { table }
    }

    /// Adds a line.
    pub fn row<const N: usize>(&mut self, cells: [String; N]) {
        self.table.add_row(cells);
    }

    /// The table as text.
    pub fn show(&self) -> String {
        // Alignment is a colon in the line under the header.
        let mut lines: Vec<String> = self.table.lines().collect();
        if let Some(rule) = lines.get_mut(1) {
            let columns: Vec<String> = rule.split('|').map(str::to_owned).collect();
            let right = |column: &String| column.strip_suffix('-').map_or(column.clone(), |rest| format!("{rest}:"));
            let marked =
                columns.iter().enumerate().map(|(at, column)| if at > 1 { right(column) } else { column.clone() });
            *rule = marked.collect::<Vec<_>>().join("|");
        }
        lines.join("\n")
    }
}

/// A number with as many digits as it deserves; a dash where nothing was measured.
pub fn number(value: f64) -> String {
    match value {
        value if !value.is_finite() => "–".into(),
        value if value.abs() >= 1_000.0 => thousands(value),
        value if value.abs() >= 100.0 => format!("{value:.0}"),
        value if value.abs() >= 10.0 => format!("{value:.1}"),
        value => format!("{value:.2}"),
    }
}

fn thousands(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) && digit.is_ascii_digit() {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}
