//! Files that are remembered from one run to the next.

use std::io::{Result, Write};
use std::path::Path;

/// Puts `bytes` at `path` in one step, whatever other threads and processes write there: a reader
/// finds all of one's bytes.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder)?;
    let mut new = tempfile::NamedTempFile::new_in(folder)?;
    new.write_all(bytes)?;
    new.as_file().sync_data()?;
    new.persist(path)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_finds_all_of_one_writers_bytes() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("cache").join("file");
        replace(&path, &[0; 1 << 16]).expect("writes");
        std::thread::scope(|scope| {
            for writer in 1..=4u8 {
                let path = &path;
                scope.spawn(move || {
                    for _ in 0..20 {
                        replace(path, &[writer; 1 << 16]).expect("writes");
                        let found = std::fs::read(path).expect("reads");
                        assert_eq!(found.len(), 1 << 16);
                        assert!(found.iter().all(|byte| *byte == found[0]));
                    }
                });
            }
        });
        assert_eq!(
            std::fs::read_dir(path.parent().expect("its folder")).expect("lists").count(),
            1
        );
    }
}
