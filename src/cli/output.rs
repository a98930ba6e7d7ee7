//! Results: standard output, files, tables.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

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

/// A result file that is filled beside its place and takes it when it is whole: nobody sees a part
/// of it, and a failure leaves what was there. Made before the work, so that a path that cannot be
/// written to does not cost the work.
pub struct PendingFile {
    path: PathBuf,
    partial: PathBuf,
    file: File,
}

impl PendingFile {
    /// Makes the file beside `path`.
    pub fn create(path: &Path) -> Result<Self> {
        let mut partial = OsString::from(path);
        partial.push(format!(".{}.partial", std::process::id()));
        let partial = PathBuf::from(partial);
        let file = File::create_new(&partial).map_err(|e| Error::io(path, e))?;
        Ok(Self { path: path.to_owned(), partial, file })
    }

    /// Lets `write` fill the file and puts it in its place.
    pub fn finish(mut self, write: impl FnOnce(&mut File) -> io::Result<()>) -> Result<()> {
        write(&mut self.file)
            .and_then(|()| self.file.sync_all())
            .and_then(|()| fs::rename(&self.partial, &self.path))
            .map_err(|e| Error::io(&self.path, e))
    }
}

impl Drop for PendingFile {
    fn drop(&mut self) {
        // Once renamed it is no longer there; a failure's own error says more than one to clean up.
        let _ = fs::remove_file(&self.partial);
    }
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
    fn a_file_is_whole_or_not_there() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("result");
        let names = || fs::read_dir(dir.path()).unwrap().count();
        PendingFile::create(&path).unwrap().finish(|file| file.write_all(b"first")).unwrap();
        assert_eq!((names(), fs::read(&path).unwrap()), (1, b"first".to_vec()));
        let failing = PendingFile::create(&path).unwrap().finish(|file| {
            file.write_all(b"second")?;
            Err(io::Error::other("full"))
        });
        assert!(failing.unwrap_err().to_string().contains("full"));
        drop(PendingFile::create(&path).unwrap());
        assert_eq!((names(), fs::read(&path).unwrap()), (1, b"first".to_vec()));
    }

    #[test]
    fn sizes_have_units() {
        assert_eq!(size_text(1023), "1023 B");
        assert_eq!(size_text(1536), "1.5 KiB");
        assert_eq!(size_text(139 << 30), "139.0 GiB");
    }
}
