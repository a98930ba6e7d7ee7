//! Writing keys in bellperson's format, byte for byte.

use std::io::{self, Write};
use std::path::Path;

use rayon::prelude::*;

use super::key::BLOCK_POINTS;
use super::point::CurvePoint;
use super::{Parameters, VerifyingKey};
use crate::Result;
use crate::pending_file::PendingFile;

impl VerifyingKey {
    /// Writes the key as bellperson does. `writer` gets large pieces and needs no buffer.
    ///
    /// # Errors
    /// The writer's; `InvalidInput` for more than 2^32 - 1 inputs.
    pub fn write<W: Write>(&self, mut writer: W) -> io::Result<()> {
        write_points(&mut writer, &[self.alpha_g1, self.beta_g1])?;
        write_points(&mut writer, &[self.beta_g2, self.gamma_g2])?;
        write_points(&mut writer, &[self.delta_g1])?;
        write_points(&mut writer, &[self.delta_g2])?;
        write_list(&mut writer, "ic", &self.ic)
    }
}

impl Parameters {
    /// Writes the key as bellperson does. `writer` gets large pieces and needs no buffer.
    ///
    /// # Errors
    /// The writer's; `InvalidInput` for more than 2^32 - 1 points in a list.
    pub fn write<W: Write>(&self, mut writer: W) -> io::Result<()> {
        self.vk.write(&mut writer)?;
        write_list(&mut writer, "h", &self.h)?;
        write_list(&mut writer, "l", &self.l)?;
        write_list(&mut writer, "a", &self.a)?;
        write_list(&mut writer, "b_g1", &self.b_g1)?;
        write_list(&mut writer, "b_g2", &self.b_g2)
    }

    /// Writes the key to a file beside `path` that takes the place of `path` when it is whole, so
    /// that nobody reads a part of it. A device or a pipe is written to as it is.
    ///
    /// # Errors
    /// [`Error::Io`](crate::Error::Io), also for a read-only file; the unfinished file is removed.
    pub fn write_file(&self, path: impl AsRef<Path>) -> Result<()> {
        PendingFile::create(path.as_ref())?.finish(|file| self.write(file))
    }
}

fn write_list<P: CurvePoint>(writer: &mut impl Write, name: &str, points: &[P]) -> io::Result<()> {
    let count = u32::try_from(points.len()).map_err(|_| {
        let problem = format!("{name}: {} points, and the count has 32 bits", points.len());
        io::Error::new(io::ErrorKind::InvalidInput, problem)
    })?;
    writer.write_all(&count.to_be_bytes())?;
    write_points(writer, points)
}

fn write_points<P: CurvePoint>(writer: &mut impl Write, points: &[P]) -> io::Result<()> {
    let block_points = BLOCK_POINTS * rayon::current_num_threads();
    let mut bytes = vec![0; points.len().min(block_points) * P::SIZE_BYTES];
    for points in points.chunks(block_points) {
        let bytes = &mut bytes[..points.len() * P::SIZE_BYTES];
        bytes
            .par_chunks_exact_mut(P::SIZE_BYTES)
            .zip(points)
            .for_each(|(bytes, point)| point.encode(bytes));
        writer.write_all(bytes)?;
    }
    Ok(())
}
