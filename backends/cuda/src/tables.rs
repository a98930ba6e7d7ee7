//! Constant tables in device memory, made once at `open` and never changed.

use std::collections::HashMap;

use twinlock_api::layout::ARENA_ALIGN_BYTES;
use twinlock_api::{Error, Result};

use crate::launcher::Launcher;

/// A table that a family of operations asks for.
pub(crate) struct Table {
    /// Unique over all families, prefixed by the family.
    pub(crate) name: &'static str,
    /// Its size.
    pub(crate) size_bytes: u64,
    /// Launches that write it. Earlier tables of the list are filled by then.
    pub(crate) fill: fn(&mut Launcher<'_>) -> Result<()>,
}

/// Where the tables lie: byte offsets in one allocation, each aligned as an arena would.
pub(crate) struct TablePlaces {
    offsets: HashMap<&'static str, u64>,
    pub(crate) size_bytes: u64,
}

impl TablePlaces {
    pub(crate) fn new(tables: &[Table]) -> Self {
        let mut size_bytes = 0u64;
        let offsets = tables
            .iter()
            .map(|table| {
                let offset = size_bytes;
                size_bytes = (offset + table.size_bytes).next_multiple_of(ARENA_ALIGN_BYTES);
                (table.name, offset)
            })
            .collect();
        Self { offsets, size_bytes }
    }

    /// The offset of a table.
    pub(crate) fn offset_bytes(&self, name: &'static str) -> Result<u64> {
        self.offsets.get(name).copied().ok_or_else(|| Error::KernelFailed {
            name,
            reason: "no such table was made at open".to_owned(),
        })
    }
}
