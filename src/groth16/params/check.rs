//! Checks every point of a parameter file.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use blstrs::{G1Affine, G2Affine, pairing};
use rayon::prelude::*;
use serde::Serialize;

use super::Query;
use super::key::identity_allowed;
use super::layout::{Inspection, Section, VK_ELEMENTS, read_table};
use super::point::{CurvePoint, PointFault, decode_checked};
use super::read_at::{DiskFile, ReadAt};
use crate::mapped::MappedFile;
use crate::{Error, Result};

/// The most problems that a [`Report`] lists; all are counted.
pub const MAX_PROBLEMS: usize = 100;

/// Points that one task checks: tens of milliseconds of work.
const TASK_POINTS: u64 = 1024;

/// A bad point.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// The section's name, as in [`Section`].
    pub section: &'static str,
    /// The point's index in the section.
    pub index: u64,
    /// Offset in bytes of the point, from the file's start.
    pub offset: u64,
    /// What is wrong.
    pub problem: String,
}

/// What [`check`] found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Report {
    /// The section table, with the problems of its counts.
    pub inspection: Inspection,
    /// Points checked: all.
    pub points: u64,
    /// Identities in l, a, b_g1 and b_g2. They do no harm in proving, but bellperson leaves such
    /// points out, and refuses to read a key with one.
    pub identities: u64,
    /// Bad points in all.
    pub problem_count: u64,
    /// The first [`MAX_PROBLEMS`] bad points, in the file's order.
    pub problems: Vec<Problem>,
}

impl Report {
    /// Whether neither a point nor a count is bad.
    pub fn is_ok(&self) -> bool {
        self.problem_count == 0 && self.inspection.problems.is_empty()
    }
}

/// Checks that every point of the file at `path` is well-formed, on its curve and in its
/// subgroup, that none is the identity in the verifying key or in h, and that beta / delta is
/// the same in G1 and G2. On all threads; `progress` gets the
/// points done and all points, from any thread and not always in order. With `strict`, bytes
/// after the last section are an error.
///
/// The file is mapped: one that another process cuts meanwhile may end this process.
///
/// # Errors
/// [`Error::Io`], or [`Error::Parameters`] if a section does not fit in the file or the file
/// changes meanwhile. Bad points are no error but in the report.
pub fn check(
    path: impl AsRef<Path>,
    strict: bool,
    progress: &(dyn Fn(u64, u64) + Sync),
) -> Result<Report> {
    let path = path.as_ref();
    let name = path.display().to_string();
    let file = DiskFile::open(path)?;
    // Refuses an empty file too, which cannot be mapped.
    read_table(&name, &file)?;
    let map = MappedFile::new(file.file()).map_err(|e| Error::io(path, e))?;
    let report = check_bytes(&name, map.as_ref(), strict, progress)?;
    match file.change().map_err(|e| Error::io(path, e))? {
        None => Ok(report),
        Some(problem) => Err(Error::Parameters { file: name, section: "vk", offset: 0, problem }),
    }
}

/// [`check`] for bytes in memory; `name` is for messages.
///
/// # Errors
/// [`Error::Parameters`] if a section does not fit in the bytes.
pub fn check_bytes(
    name: &str,
    bytes: &[u8],
    strict: bool,
    progress: &(dyn Fn(u64, u64) + Sync),
) -> Result<Report> {
    let inspection = read_table(name, &bytes)?;
    if strict {
        inspection.require_no_trailing_bytes()?;
    }
    let total = inspection.total_points();
    let checker = Checker { bytes, ..Checker::default() };
    checker.check_vk(inspection.sections[0]);
    progress(inspection.sections[0].count, total);
    let done = AtomicU64::new(inspection.sections[0].count);
    // One list of tasks over all sections, so that no section's end leaves threads idle.
    let tasks: Vec<(usize, u64)> = inspection
        .sections
        .iter()
        .enumerate()
        .skip(1)
        .flat_map(|(i, section)| {
            (0..section.count).step_by(TASK_POINTS as usize).map(move |first| (i, first))
        })
        .collect();
    tasks.into_par_iter().for_each(|(i, first)| {
        let section = inspection.sections[i];
        let count = TASK_POINTS.min(section.count - first);
        // No query is `ic`, a part of the verifying key, which has no identities.
        let query = Query::ALL.into_iter().find(|query| query.name() == section.name);
        let identity = query.is_some_and(identity_allowed);
        if query.is_some_and(Query::is_g2) {
            checker.check_points::<G2Affine>(i, section, first, count, identity);
        } else {
            checker.check_points::<G1Affine>(i, section, first, count, identity);
        }
        progress(done.fetch_add(count, Ordering::Relaxed) + count, total);
    });
    let problems = checker.problems.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok(Report {
        points: done.into_inner(),
        identities: checker.identities.into_inner(),
        problem_count: checker.problem_count.into_inner(),
        problems: problems.into_values().collect(),
        inspection,
    })
}

#[derive(Default)]
struct Checker<'a> {
    bytes: &'a [u8],
    identities: AtomicU64,
    problem_count: AtomicU64,
    /// The first ones by section and index.
    problems: Mutex<BTreeMap<(usize, u64), Problem>>,
}

impl Checker<'_> {
    fn slice(&self, offset: u64, len: usize) -> &[u8] {
        // The table lies within the bytes; a slice that did not would be reported as no point.
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        self.bytes.get(start..start.saturating_add(len)).unwrap_or_default()
    }

    fn report(&self, order: usize, problem: Problem) {
        self.problem_count.fetch_add(1, Ordering::Relaxed);
        let mut problems = self.problems.lock().unwrap_or_else(PoisonError::into_inner);
        problems.insert((order, problem.index), problem);
        if problems.len() > MAX_PROBLEMS {
            problems.pop_last();
        }
    }

    fn check_points<P: CurvePoint>(
        &self,
        order: usize,
        section: Section,
        first: u64,
        count: u64,
        identity_allowed: bool,
    ) {
        let size = P::SIZE_BYTES as u64;
        for index in first..first + count {
            let offset = section.offset + index * size;
            match decode_checked::<P>(self.slice(offset, P::SIZE_BYTES), identity_allowed) {
                Ok(point) if point.is_the_identity() => {
                    self.identities.fetch_add(1, Ordering::Relaxed);
                }
                Ok(_) => {}
                Err(fault) => {
                    let problem = fault.to_string();
                    self.report(order, Problem { section: section.name, index, offset, problem });
                }
            }
        }
    }

    fn check_vk(&self, section: Section) {
        let mut offset = section.offset;
        let mut g1 = Vec::new();
        let mut g2 = Vec::new();
        for (index, (name, is_g2)) in (0u64..).zip(VK_ELEMENTS) {
            let fault = if is_g2 {
                self.vk_element(offset, &mut g2)
            } else {
                self.vk_element(offset, &mut g1)
            };
            if let Some(fault) = fault {
                let problem = format!("{name}: {fault}");
                self.report(0, Problem { section: section.name, index, offset, problem });
            }
            offset += if is_g2 { G2Affine::SIZE_BYTES } else { G1Affine::SIZE_BYTES } as u64;
        }
        // Elements of which one is bad are not compared: the bad one is reported already. A key may
        // be made over any two generators, so beta and delta can be compared with each other only.
        if let ([_, beta_g1, delta_g1], [beta_g2, _, delta_g2]) = (&g1[..], &g2[..])
            && pairing(beta_g1, delta_g2) != pairing(delta_g1, beta_g2)
        {
            let problem = "beta / delta is not the same in G1 and G2".to_owned();
            let offset = section.offset + section.size_bytes - G2Affine::SIZE_BYTES as u64;
            self.report(0, Problem { section: section.name, index: 5, offset, problem });
        }
    }

    fn vk_element<P: CurvePoint>(&self, offset: u64, good: &mut Vec<P>) -> Option<PointFault> {
        match decode_checked(self.slice(offset, P::SIZE_BYTES), false) {
            Ok(point) => {
                good.push(point);
                None
            }
            Err(fault) => Some(fault),
        }
    }
}
