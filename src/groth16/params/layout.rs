//! Where the sections of a parameter file lie: read from its counts, held against its length.

use std::path::Path;

use blstrs::G1Affine;
use serde::Serialize;

use super::Query;
use super::point::CurvePoint;
use super::read_at::{DiskFile, ReadAt, read_section};
use crate::{Error, Result};

/// The elements of a verifying key before `ic`: name and whether it is in G2, in file order.
pub(super) const VK_ELEMENTS: [(&str, bool); 6] = [
    ("alpha_g1", false),
    ("beta_g1", false),
    ("beta_g2", true),
    ("gamma_g2", true),
    ("delta_g1", false),
    ("delta_g2", true),
];
/// Bytes of the verifying key before the count of `ic`: three points of G1 and three of G2.
pub(super) const VK_BYTES: u64 = 3 * 96 + 3 * 192;
const COUNT_BYTES: u64 = 4;
const NAMES: [&str; 7] = ["vk", "ic", "h", "l", "a", "b_g1", "b_g2"];

/// One list of points in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Section {
    /// `vk`, `ic`, `h`, `l`, `a`, `b_g1` or `b_g2`.
    pub name: &'static str,
    /// The number of points.
    pub count: u64,
    /// Offset in bytes of the first point, from the file's start.
    pub offset: u64,
    /// Bytes of all points together, their count not included.
    pub size_bytes: u64,
}

impl Section {
    /// Offset in bytes of what is first in the file: the count, or of `vk` the first point.
    pub(super) fn count_offset(&self) -> u64 {
        if self.name == NAMES[0] { self.offset } else { self.offset - COUNT_BYTES }
    }

    fn end(&self) -> u64 {
        self.offset + self.size_bytes
    }
}

/// The section table of a parameter file. Every section lies within the file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Inspection {
    /// The file's path, or the name given to bytes in memory.
    pub file: String,
    /// The file's length in bytes.
    pub size_bytes: u64,
    /// `vk`, `ic`, `h`, `l`, `a`, `b_g1` and `b_g2`, which follow each other from byte 0 on.
    pub sections: [Section; 7],
    /// Bytes after the last section.
    pub trailing_bytes: u64,
    /// Counts that no circuit's key can have together. Such a file can be inspected only.
    pub problems: Vec<String>,
}

impl Inspection {
    /// The section of `query`.
    pub fn query(&self, query: Query) -> Section {
        self.sections[match query {
            Query::H => 2,
            Query::L => 3,
            Query::A => 4,
            Query::BG1 => 5,
            Query::BG2 => 6,
        }]
    }

    /// The section of the verifying key's input points.
    pub fn ic(&self) -> Section {
        self.sections[1]
    }

    /// The number of points in all sections.
    pub fn total_points(&self) -> u64 {
        self.sections.iter().map(|section| section.count).sum()
    }

    /// What strict reading asks for.
    ///
    /// # Errors
    /// [`Error::Parameters`] if there are bytes after the last section.
    pub fn require_no_trailing_bytes(&self) -> Result<()> {
        if self.trailing_bytes == 0 {
            return Ok(());
        }
        let end = self.sections[6].end();
        let problem = format!("{} bytes after the last section", self.trailing_bytes);
        Err(Error::Parameters {
            file: self.file.clone(),
            section: "trailing",
            offset: end,
            problem,
        })
    }

    /// Refuses a table with [`problems`](Self::problems).
    pub(super) fn require_consistent(&self) -> Result<()> {
        match self.inconsistencies().into_iter().next() {
            None => Ok(()),
            Some((section, problem)) => Err(Error::Parameters {
                file: self.file.clone(),
                section: section.name,
                offset: section.count_offset(),
                problem,
            }),
        }
    }

    fn inconsistencies(&self) -> Vec<(Section, String)> {
        let [_, ic, h, l, a, b_g1, b_g2] = self.sections;
        let variables = ic.count + l.count;
        let mut found = Vec::new();
        if ic.count == 0 {
            found.push((ic, "no point, where the constant ONE needs one".to_owned()));
        }
        if !h.count.is_power_of_two() && !(h.count + 1).is_power_of_two() {
            let problem = format!("{} points: neither a power of two nor one less", h.count);
            found.push((h, problem));
        }
        if a.count < ic.count || a.count > variables {
            let problem = format!(
                "{} points, for a circuit of {} inputs and {} witness variables",
                a.count, ic.count, l.count
            );
            found.push((a, problem));
        }
        if b_g1.count > variables {
            let problem = format!(
                "{} points, for a circuit of {} inputs and {} witness variables",
                b_g1.count, ic.count, l.count
            );
            found.push((b_g1, problem));
        }
        if b_g1.count != b_g2.count {
            found.push((b_g2, format!("{} points, and {} in b_g1", b_g2.count, b_g1.count)));
        }
        found
    }
}

/// Reads the section table of the file at `path`, and nothing else of it: the points may be bad.
///
/// # Errors
/// [`Error::Io`], or [`Error::Parameters`] if a section does not fit in the file.
pub fn inspect(path: impl AsRef<Path>) -> Result<Inspection> {
    let path = path.as_ref();
    read_table(&path.display().to_string(), &DiskFile::open(path)?)
}

/// [`inspect`] for bytes in memory.
///
/// # Errors
/// [`Error::Parameters`] if a section does not fit in the bytes.
pub fn inspect_bytes(name: &str, bytes: &[u8]) -> Result<Inspection> {
    read_table(name, &bytes)
}

/// Reads the counts, a few bytes for each section.
pub(super) fn read_table(file: &str, source: &dyn ReadAt) -> Result<Inspection> {
    let size_bytes = source.size_bytes();
    let vk = vk_section(file, source)?;
    let mut sections = [vk; 7];
    let mut next = vk.end();
    for (section, name) in sections.iter_mut().zip(NAMES).skip(1) {
        *section = list_section(file, source, name, next)?;
        next = section.end();
    }
    let mut inspection = Inspection {
        file: file.to_owned(),
        size_bytes,
        sections,
        trailing_bytes: size_bytes - next,
        problems: Vec::new(),
    };
    inspection.problems = inspection
        .inconsistencies()
        .into_iter()
        .map(|(section, problem)| format!("section {}: {problem}", section.name))
        .collect();
    Ok(inspection)
}

/// The fixed part of the verifying key.
pub(super) fn vk_section(file: &str, source: &dyn ReadAt) -> Result<Section> {
    let size_bytes = source.size_bytes();
    if size_bytes < VK_BYTES {
        let problem = match size_bytes {
            0 => "the file is empty".to_owned(),
            _ => format!("the file ends at byte {size_bytes}; the key takes {VK_BYTES} bytes"),
        };
        return Err(Error::Parameters { file: file.to_owned(), section: "vk", offset: 0, problem });
    }
    let count = VK_ELEMENTS.len() as u64;
    Ok(Section { name: NAMES[0], count, offset: 0, size_bytes: VK_BYTES })
}

/// The section `ic`, which ends a verifying key.
pub(super) fn ic_section(file: &str, source: &dyn ReadAt) -> Result<Section> {
    let vk = vk_section(file, source)?;
    list_section(file, source, NAMES[1], vk.end())
}

/// A counted list that starts at `offset`. Compares the count with what is left of the file
/// before anything is made of it.
fn list_section(
    file: &str,
    source: &dyn ReadAt,
    name: &'static str,
    offset: u64,
) -> Result<Section> {
    let error =
        |problem| Error::Parameters { file: file.to_owned(), section: name, offset, problem };
    let left = source.size_bytes().saturating_sub(offset);
    if left < COUNT_BYTES {
        return Err(error(format!("the file ends {left} bytes after here; a count takes 4")));
    }
    let mut count = [0; COUNT_BYTES as usize];
    read_section(source, file, name, offset, &mut count)?;
    let count = u64::from(u32::from_be_bytes(count));
    let point_bytes =
        if name == Query::BG2.name() { Query::BG2.point_bytes() } else { G1Affine::SIZE_BYTES };
    let size_bytes = count * point_bytes as u64;
    let left = left - COUNT_BYTES;
    if size_bytes > left {
        return Err(error(format!(
            "a count of {count} points takes {size_bytes} bytes; the file has {left} after it"
        )));
    }
    Ok(Section { name, count, offset: offset + COUNT_BYTES, size_bytes })
}
