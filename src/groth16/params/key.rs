//! Keys in memory.

use std::io;
use std::path::Path;

use blstrs::{G1Affine, G2Affine};
use group::prime::PrimeCurveAffine;
use rayon::prelude::*;

use super::file::{ParameterFile, read_verifying_key};
use super::point::CurvePoint;
use super::read_at::{DiskFile, ReadAt};
use super::{ParameterSource, PointEncoding, Query};
use crate::views::{as_bytes, as_bytes_mut};
use crate::{Error, Result};

/// Points that one task reads and checks at a time.
pub(super) const BLOCK_POINTS: usize = 4096;

/// A Groth16 verifying key (<https://eprint.iacr.org/2016/260>).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifyingKey {
    /// alpha in G1.
    pub alpha_g1: G1Affine,
    /// beta in G1; used in proving only.
    pub beta_g1: G1Affine,
    /// beta in G2.
    pub beta_g2: G2Affine,
    /// gamma in G2.
    pub gamma_g2: G2Affine,
    /// delta in G1; used in proving only.
    pub delta_g1: G1Affine,
    /// delta in G2.
    pub delta_g2: G2Affine,
    /// `(beta * u_i + alpha * v_i + w_i) / gamma` for each input, that of the constant ONE first.
    pub ic: Vec<G1Affine>,
}

impl VerifyingKey {
    /// The number of public inputs of a proof, the constant ONE not counted.
    pub fn num_public_inputs(&self) -> usize {
        self.ic.len().saturating_sub(1)
    }

    /// Checks that every point is on its curve, in its subgroup and not the identity, and that
    /// there is one for the constant ONE.
    ///
    /// # Errors
    /// [`Error::Key`] naming the element.
    pub fn validate(&self) -> Result<()> {
        let named = |name: &str, fault| Error::Key(format!("{name} is {fault}"));
        for (name, point) in
            [("alpha_g1", &self.alpha_g1), ("beta_g1", &self.beta_g1), ("delta_g1", &self.delta_g1)]
        {
            point.validate(false).map_err(|fault| named(name, fault))?;
        }
        for (name, point) in
            [("beta_g2", &self.beta_g2), ("gamma_g2", &self.gamma_g2), ("delta_g2", &self.delta_g2)]
        {
            point.validate(false).map_err(|fault| named(name, fault))?;
        }
        if self.ic.is_empty() {
            return Err(Error::Key("ic has no point for the constant ONE".to_owned()));
        }
        self.ic.par_iter().enumerate().try_for_each(|(i, point)| {
            point.validate(false).map_err(|fault| named(&format!("ic[{i}]"), fault))
        })
    }

    /// Reads the verifying key at the start of a file: a file of its own or a parameter file.
    /// Every point is checked; what follows the key is not looked at.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Parameters`] for a cut file or a bad point, [`Error::Key`] for an
    /// identity.
    pub fn read_file(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        Self::read(&path.display().to_string(), &DiskFile::open(path)?)
    }

    /// [`read_file`](Self::read_file) from anything that can be read; `name` is for messages.
    ///
    /// # Errors
    /// As [`read_file`](Self::read_file).
    pub fn read(name: &str, source: &dyn ReadAt) -> Result<Self> {
        read_verifying_key(name, source)
    }
}

/// A whole key in memory, for tests, demonstrations and small circuits. The fields are in
/// bellperson's order and may be filled from anywhere; nothing is checked until it is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// The verifying key.
    pub vk: VerifyingKey,
    /// [`Query::H`].
    pub h: Vec<G1Affine>,
    /// [`Query::L`].
    pub l: Vec<G1Affine>,
    /// [`Query::A`].
    pub a: Vec<G1Affine>,
    /// [`Query::BG1`].
    pub b_g1: Vec<G1Affine>,
    /// [`Query::BG2`].
    pub b_g2: Vec<G2Affine>,
}

impl Parameters {
    /// Reads a whole parameter file into memory. With `checked` every point is held to what
    /// [`check`](super::check) asks; without, that it is well-formed and on its curve.
    ///
    /// # Errors
    /// [`Error::Io`], or [`Error::Parameters`] naming section and offset.
    pub fn read_file(path: impl AsRef<Path>, checked: bool) -> Result<Self> {
        Self::load(&ParameterFile::open(path)?, checked)
    }

    /// Reads all of `source` into memory; `checked` as in [`read_file`](Self::read_file).
    ///
    /// # Errors
    /// [`Error::Parameters`] naming the section, and the offset in it if `source` is not a file.
    pub fn load(source: &dyn ParameterSource, checked: bool) -> Result<Self> {
        let vk = source.verifying_key().clone();
        if checked {
            vk.validate()?;
        }
        Ok(Self {
            vk,
            h: load_query(source, Query::H, checked)?,
            l: load_query(source, Query::L, checked)?,
            a: load_query(source, Query::A, checked)?,
            b_g1: load_query(source, Query::BG1, checked)?,
            b_g2: load_query(source, Query::BG2, checked)?,
        })
    }

    /// The bytes of a query in canonical layout.
    fn query_bytes(&self, query: Query) -> &[u8] {
        match query {
            Query::H => as_bytes(&self.h),
            Query::L => as_bytes(&self.l),
            Query::A => as_bytes(&self.a),
            Query::BG1 => as_bytes(&self.b_g1),
            Query::BG2 => as_bytes(&self.b_g2),
        }
    }
}

/// Whether a query may hold identities. One in h means that tau is a root of the domain, and
/// such a key is broken; elsewhere it means a variable whose polynomial is zero.
pub(super) fn identity_allowed(query: Query) -> bool {
    query != Query::H
}

fn load_query<P: CurvePoint + Default>(
    source: &dyn ParameterSource,
    query: Query,
    checked: bool,
) -> Result<Vec<P>> {
    let mut points = Vec::new();
    points
        .try_reserve_exact(source.query_len(query))
        .map_err(|_| Error::io(source.name(), io::ErrorKind::OutOfMemory.into()))?;
    points.resize(source.query_len(query), P::default());
    points.par_chunks_mut(BLOCK_POINTS).enumerate().try_for_each(|(block, points)| {
        let first = block * BLOCK_POINTS;
        let bad = |i: usize, fault| Error::Parameters {
            file: source.name().to_owned(),
            section: query.name(),
            offset: source.point_offset(query, first + i),
            problem: format!("point {}: {fault}", first + i),
        };
        match source.encoding() {
            PointEncoding::Canonical => {
                source.read_points(query, first, as_bytes_mut(points))?;
            }
            PointEncoding::Uncompressed => {
                let mut bytes = vec![0; points.len() * P::SIZE_BYTES];
                source.read_points(query, first, &mut bytes)?;
                let encodings = bytes.chunks_exact(P::SIZE_BYTES);
                for (i, (point, bytes)) in points.iter_mut().zip(encodings).enumerate() {
                    *point = P::decode(bytes).map_err(|fault| bad(i, fault))?;
                }
            }
        }
        if checked {
            for (i, point) in points.iter().enumerate() {
                point.validate(identity_allowed(query)).map_err(|fault| bad(i, fault))?;
            }
        }
        Ok::<(), Error>(())
    })?;
    Ok(points)
}

/// Copies whole points out of a query's bytes in memory.
pub(super) fn copy_points(
    name: &str,
    query: Query,
    all: &[u8],
    first: usize,
    out: &mut [u8],
) -> Result<()> {
    let start = byte_range(name, query, all.len() / query.point_bytes(), first, out.len())?;
    // In range, for `byte_range` has checked first and length.
    if let Some(bytes) = all.get(start..start + out.len()) {
        out.copy_from_slice(bytes);
    }
    Ok(())
}

/// Checks a request for `out_bytes` bytes of a query of `count` points and returns the offset in
/// the query of its first byte.
pub(super) fn byte_range(
    name: &str,
    query: Query,
    count: usize,
    first: usize,
    out_bytes: usize,
) -> Result<usize> {
    let point_bytes = query.point_bytes();
    let error = |problem| Error::Parameters {
        file: name.to_owned(),
        section: query.name(),
        offset: (first as u64).saturating_mul(point_bytes as u64),
        problem,
    };
    if !out_bytes.is_multiple_of(point_bytes) {
        return Err(error(format!("{out_bytes} bytes are no multiple of {point_bytes}")));
    }
    let points = out_bytes / point_bytes;
    if count.checked_sub(first).is_none_or(|left| left < points) {
        return Err(error(format!("{points} points from {first} on, of {count}")));
    }
    Ok(first * point_bytes)
}

impl ParameterSource for Parameters {
    fn name(&self) -> &str {
        "parameters in memory"
    }

    fn verifying_key(&self) -> &VerifyingKey {
        &self.vk
    }

    fn query_len(&self, query: Query) -> usize {
        self.query_bytes(query).len() / query.point_bytes()
    }

    fn encoding(&self) -> PointEncoding {
        PointEncoding::Canonical
    }

    fn read_points(&self, query: Query, first: usize, out: &mut [u8]) -> Result<()> {
        copy_points(self.name(), query, self.query_bytes(query), first, out)
    }
}

impl Default for VerifyingKey {
    /// A key of identities and no inputs, to be filled; [`validate`](Self::validate) refuses it.
    fn default() -> Self {
        Self {
            alpha_g1: G1Affine::identity(),
            beta_g1: G1Affine::identity(),
            beta_g2: G2Affine::identity(),
            gamma_g2: G2Affine::identity(),
            delta_g1: G1Affine::identity(),
            delta_g2: G2Affine::identity(),
            ic: Vec::new(),
        }
    }
}
