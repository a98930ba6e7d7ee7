//! Positioned reads, from a file or from bytes in memory.

use std::fs::{self, File, Metadata};
use std::io;
use std::path::Path;
use std::time::SystemTime;

use crate::{Error, Result};

/// Bytes that can be read at any position, from any thread.
pub trait ReadAt: Send + Sync {
    /// The length in bytes when this was opened.
    fn size_bytes(&self) -> u64;

    /// Fills `out` with the bytes from `offset` on.
    ///
    /// # Errors
    /// `UnexpectedEof` if the range passes the end; whatever the operating system reports.
    fn read_exact_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()>;

    /// What has changed since this was opened, if anything.
    ///
    /// # Errors
    /// Whatever the operating system reports.
    fn change(&self) -> io::Result<Option<String>> {
        Ok(None)
    }
}

impl<T: AsRef<[u8]> + Send + Sync> ReadAt for T {
    fn size_bytes(&self) -> u64 {
        self.as_ref().len() as u64
    }

    fn read_exact_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let bytes = usize::try_from(offset)
            .ok()
            .and_then(|start| self.as_ref().get(start..start.checked_add(out.len())?))
            .ok_or(io::ErrorKind::UnexpectedEof)?;
        out.copy_from_slice(bytes);
        Ok(())
    }
}

/// A file that is expected to keep its length and time while it is open.
pub(super) struct DiskFile {
    file: File,
    size_bytes: u64,
    modified: Option<SystemTime>,
}

impl DiskFile {
    pub(super) fn open(path: &Path) -> Result<Self> {
        let open = || {
            // Asked before too: to open a pipe is to wait for its writer.
            require_regular(&fs::metadata(path)?)?;
            let file = File::open(path)?;
            let metadata = file.metadata()?;
            require_regular(&metadata)?;
            Ok((file, metadata))
        };
        let (file, metadata) = open().map_err(|e| Error::io(path, e))?;
        Ok(Self { file, size_bytes: metadata.len(), modified: metadata.modified().ok() })
    }

    pub(super) fn file(&self) -> &File {
        &self.file
    }
}

fn require_regular(metadata: &Metadata) -> io::Result<()> {
    if metadata.is_file() { Ok(()) } else { Err(io::Error::other("not a regular file")) }
}

impl ReadAt for DiskFile {
    fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    #[cfg(unix)]
    fn read_exact_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        std::os::unix::fs::FileExt::read_exact_at(&self.file, out, offset)
    }

    #[cfg(windows)]
    fn read_exact_at(&self, mut offset: u64, mut out: &mut [u8]) -> io::Result<()> {
        while !out.is_empty() {
            match std::os::windows::fs::FileExt::seek_read(&self.file, out, offset) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(read) => {
                    out = &mut out[read..];
                    offset += read as u64;
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    fn change(&self) -> io::Result<Option<String>> {
        let metadata = self.file.metadata()?;
        if metadata.len() != self.size_bytes {
            return Ok(Some(format!(
                "the file had {} bytes when it was opened and has {} now",
                self.size_bytes,
                metadata.len()
            )));
        }
        if metadata.modified().ok() != self.modified {
            return Ok(Some("the file was written to after it was opened".to_owned()));
        }
        Ok(None)
    }
}

/// Reads, and tells a file that changed from one that cannot be read.
pub(super) fn read_section(
    source: &dyn ReadAt,
    file: &str,
    section: &'static str,
    offset: u64,
    out: &mut [u8],
) -> Result<()> {
    let read = source.read_exact_at(offset, out);
    // Asked after the read, so that a change during it is seen too.
    if let Some(problem) = source.change().map_err(|e| Error::io(file, e))? {
        return Err(Error::Parameters { file: file.to_owned(), section, offset, problem });
    }
    read.map_err(|e| Error::io(file, e))
}
