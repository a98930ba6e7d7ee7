//! A parameter file, read in pieces.

use std::path::Path;

use blstrs::G1Affine;
use rayon::prelude::*;

use super::key::{BLOCK_POINTS, byte_range};
use super::layout::{Inspection, Section, VK_BYTES, ic_section, read_table};
use super::point::{CurvePoint, PointFault, decode_checked};
use super::read_at::{DiskFile, ReadAt, read_section};
use super::{ParameterSource, PointEncoding, Query, VerifyingKey};
use crate::{Error, Result};

/// A parameter file of which only the verifying key is in memory; queries are read as asked for,
/// with positioned reads from any thread. The file must not change while it is open: each read
/// compares its length and time of change.
///
/// ```no_run
/// use twinlock::groth16::params::{ParameterFile, ParameterSource, Query};
///
/// # fn main() -> twinlock::Result<()> {
/// let key = ParameterFile::open("my.params")?;
/// let mut points = vec![0; 1000 * Query::L.point_bytes()];
/// key.read_points(Query::L, 0, &mut points)?;
/// # Ok(())
/// # }
/// ```
pub struct ParameterFile {
    source: Box<dyn ReadAt>,
    table: Inspection,
    vk: VerifyingKey,
}

impl ParameterFile {
    /// Opens a file: reads the section table, holds it against the file's length, and reads the
    /// verifying key, whose every point is checked.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::Parameters`] for a section that does not fit in the file, counts
    /// that do not fit each other, or a bad point of the verifying key; [`Error::Key`] for an
    /// identity in it.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        Self::from_source(path.display().to_string(), DiskFile::open(path)?)
    }

    /// The same for anything that can be read at a position, such as bytes in memory; `name` is
    /// for messages.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn from_source(name: impl Into<String>, source: impl ReadAt + 'static) -> Result<Self> {
        let table = read_table(&name.into(), &source)?;
        table.require_consistent()?;
        let vk = read_verifying_key(&table.file, &source)?;
        Ok(Self { source: Box::new(source), table, vk })
    }

    /// The section table.
    pub fn inspection(&self) -> &Inspection {
        &self.table
    }
}

impl std::fmt::Debug for ParameterFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ParameterFile").field("table", &self.table).finish_non_exhaustive()
    }
}

impl ParameterSource for ParameterFile {
    fn name(&self) -> &str {
        &self.table.file
    }

    fn verifying_key(&self) -> &VerifyingKey {
        &self.vk
    }

    fn query_len(&self, query: Query) -> usize {
        // A u32 in the file.
        self.table.query(query).count as usize
    }

    fn encoding(&self) -> PointEncoding {
        PointEncoding::Uncompressed
    }

    fn point_offset(&self, query: Query, index: usize) -> u64 {
        self.table.query(query).offset + index as u64 * query.point_bytes() as u64
    }

    fn read_points(&self, query: Query, first: usize, out: &mut [u8]) -> Result<()> {
        byte_range(self.name(), query, self.query_len(query), first, out.len())?;
        let offset = self.point_offset(query, first);
        read_section(self.source.as_ref(), self.name(), query.name(), offset, out)
    }
}

/// Reads and checks the verifying key at the start of `source`.
pub(super) fn read_verifying_key(file: &str, source: &dyn ReadAt) -> Result<VerifyingKey> {
    let ic = ic_section(file, source)?;
    if ic.count == 0 {
        return Err(Error::Parameters {
            file: file.to_owned(),
            section: ic.name,
            offset: ic.count_offset(),
            problem: "no point, where the constant ONE needs one".to_owned(),
        });
    }
    let mut head = [0; VK_BYTES as usize];
    read_section(source, file, "vk", 0, &mut head)?;
    let mut head = HeadReader { file, bytes: &head, offset: 0 };
    Ok(VerifyingKey {
        alpha_g1: head.next("alpha_g1")?,
        beta_g1: head.next("beta_g1")?,
        beta_g2: head.next("beta_g2")?,
        gamma_g2: head.next("gamma_g2")?,
        delta_g1: head.next("delta_g1")?,
        delta_g2: head.next("delta_g2")?,
        ic: read_ic(file, source, ic)?,
    })
}

/// Takes the verifying key's elements off its encoding, one by one.
struct HeadReader<'a> {
    file: &'a str,
    bytes: &'a [u8],
    offset: usize,
}

impl HeadReader<'_> {
    fn next<P: CurvePoint>(&mut self, name: &str) -> Result<P> {
        let offset = self.offset;
        self.offset += P::SIZE_BYTES;
        let bytes = self.bytes.get(offset..self.offset).unwrap_or_default();
        decode_checked(bytes, false)
            .map_err(|fault| vk_fault(self.file, "vk", offset as u64, name, fault))
    }
}

fn read_ic(file: &str, source: &dyn ReadAt, section: Section) -> Result<Vec<G1Affine>> {
    let size = G1Affine::SIZE_BYTES;
    let count = section.count as usize;
    let mut points = Vec::new();
    // Block by block, so that a bad point ends it before memory for a large count is taken.
    for first in (0..count).step_by(BLOCK_POINTS) {
        let mut bytes = vec![0; BLOCK_POINTS.min(count - first) * size];
        let start = section.offset + (first * size) as u64;
        read_section(source, file, section.name, start, &mut bytes)?;
        let block: Result<Vec<G1Affine>> = bytes
            .par_chunks_exact(size)
            .enumerate()
            .map(|(i, encoding)| {
                decode_checked(encoding, false).map_err(|fault| {
                    let element = format!("point {}", first + i);
                    vk_fault(file, section.name, start + (i * size) as u64, &element, fault)
                })
            })
            .collect();
        points.append(&mut block?);
    }
    Ok(points)
}

/// A key with an identity is well-formed but must not be used; anything else is a broken file.
fn vk_fault(
    file: &str,
    section: &'static str,
    offset: u64,
    element: &str,
    fault: PointFault,
) -> Error {
    match fault {
        PointFault::Identity => Error::Key(format!(
            "{file}: section {section}, byte {offset}: {element} is the identity"
        )),
        fault => Error::Parameters {
            file: file.to_owned(),
            section,
            offset,
            problem: format!("{element}: {fault}"),
        },
    }
}
