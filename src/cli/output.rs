//! Results: standard output, tables.

use std::io::{self, Write};

use serde::Serialize;
use twinlock::{Error, Result};

/// Writes a result to standard output. A reader that has left is no error.
pub fn print(text: &str) -> Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Error::io("standard output", error))
        }
        _ => Ok(()),
    }
}

/// Writes a result to standard output as JSON.
pub fn print_json(value: &impl Serialize) -> Result<()> {
    print(&to_json(value)?)
}

/// Indented JSON that ends its last line.
pub fn to_json(value: &impl Serialize) -> Result<String> {
    let mut text = serde_json::to_string_pretty(value)
        .map_err(|e| Error::Malformed { what: "result", problem: e.to_string() })?;
    text.push('\n');
    Ok(text)
}

/// Lines of `rows` in columns as wide as their widest cell; the first row is the heading. Columns
/// past the first `left` are aligned to the right, as numbers are.
pub fn table(rows: &[Vec<String>], left: usize) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns)
        .map(|at| rows.iter().filter_map(|row| row.get(at)).map(|c| c.chars().count()).max())
        .map(|width| width.unwrap_or(0))
        .collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (at, (cell, &width)) in row.iter().zip(&widths).enumerate() {
            let gap = if at == 0 { "" } else { "  " };
            line += gap;
            line += &if at < left { format!("{cell:<width$}") } else { format!("{cell:>width$}") };
        }
        text += line.trim_end();
        text.push('\n');
    }
    text
}

/// `1.5 GiB` and the like, for people.
pub fn size_text(size_bytes: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = size_bytes as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    let unit_name = UNITS.get(unit).copied().unwrap_or_default();
    if unit == 0 { format!("{size_bytes} B") } else { format!("{value:.1} {unit_name}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let rows = [vec!["name".into(), "n".into()], vec!["x".into(), "1234".into()]];
        assert_eq!(table(&rows, 1), "name     n\nx     1234\n");
    }

    #[test]
    fn sizes_have_units() {
        assert_eq!(size_text(1023), "1023 B");
        assert_eq!(size_text(1536), "1.5 KiB");
        assert_eq!(size_text(139 << 30), "139.0 GiB");
    }
}
