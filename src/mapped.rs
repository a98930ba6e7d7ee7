//! The one place that maps files into memory. A map serves `inspect` and `check`; proving uses
//! positioned reads, for a mapped file that is cut under us is a crash and not an error.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;

/// A read-only view of a whole file.
pub struct MappedFile(memmap2::Mmap);

impl MappedFile {
    /// Maps all of `file`, which must not be empty.
    pub fn new(file: &File) -> io::Result<Self> {
        // SAFETY: the map is read-only and private to this value. Bytes that another process
        // changes under us may read as anything, and every reader of the view treats them as
        // untrusted; a file that is cut raises SIGBUS, which the commands that map accept.
        let map = unsafe { memmap2::Mmap::map(file)? };
        // A hint only: the check reads every page once, in several streams.
        #[cfg(unix)]
        let _ = map.advise(memmap2::Advice::WillNeed);
        Ok(Self(map))
    }
}

impl AsRef<[u8]> for MappedFile {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}
