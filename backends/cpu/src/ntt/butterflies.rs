//! The stages of a transform of one line that lies in cache.

use super::Direction;
use crate::field::Fr;

/// A line's transform.
#[derive(Clone, Copy)]
pub(super) struct Kernel {
    direction: Direction,
    by_block: bool,
    /// A factor for all outputs, of inverse transforms only.
    scale: Option<Fr>,
}

impl Kernel {
    pub(super) fn new(direction: Direction, by_block: bool, scale: Option<Fr>) -> Self {
        Self { direction, by_block, scale }
    }

    /// Transforms `line`, whose length is a power of two, with the twiddles of `table`.
    pub(super) fn run(&self, line: &mut [Fr], table: &[Fr]) {
        match (self.direction, self.by_block) {
            (Direction::Forward, true) => block_cooley_tukey(line, table),
            (Direction::Forward, false) => position_cooley_tukey(line, table),
            (Direction::Inverse, true) => block_gentleman_sande(line, table, self.scale),
            (Direction::Inverse, false) => position_gentleman_sande(line, table, self.scale),
        }
    }
}

/// `(u + v, u - v)`
#[inline(always)]
fn plain(u: &mut Fr, v: &mut Fr) {
    (*u, *v) = (u.add(v), u.sub(v));
}

/// `(u + w v, u - w v)`
#[inline(always)]
fn cooley_tukey(u: &mut Fr, v: &mut Fr, w: &Fr) {
    let product = v.mul(w);
    (*u, *v) = (u.add(&product), u.sub(&product));
}

/// `(u + v, (u - v) w)`
#[inline(always)]
fn gentleman_sande(u: &mut Fr, v: &mut Fr, w: &Fr) {
    let difference = u.sub(v);
    (*u, *v) = (u.add(v), difference.mul(w));
}

/// `((u + v) k, (u - v) wk)`
#[inline(always)]
fn gentleman_sande_scaled(u: &mut Fr, v: &mut Fr, k: &Fr, wk: &Fr) {
    let difference = u.sub(v);
    (*u, *v) = (u.add(v).mul(k), difference.mul(wk));
}

/// One butterfly for each pair of a block's halves, all of one twiddle.
#[inline(always)]
fn block(halves: &mut [Fr], w: &Fr, butterfly: impl Fn(&mut Fr, &mut Fr, &Fr)) {
    let (low, high) = halves.split_at_mut(halves.len() / 2);
    if *w == Fr::ONE {
        low.iter_mut().zip(high).for_each(|(u, v)| plain(u, v));
    } else {
        low.iter_mut().zip(high).for_each(|(u, v)| butterfly(u, v, w));
    }
}

/// One butterfly for each pair of a block's halves, each with a twiddle of its own.
#[inline(always)]
fn positions(halves: &mut [Fr], twiddles: &[Fr], butterfly: impl Fn(&mut Fr, &mut Fr, &Fr)) {
    let (low, high) = halves.split_at_mut(halves.len() / 2);
    let mut triples = low.iter_mut().zip(high).zip(twiddles);
    // The first twiddle is 1, unless the line has a factor.
    if twiddles.first() == Some(&Fr::ONE)
        && let Some(((u, v), _)) = triples.next()
    {
        plain(u, v);
    }
    triples.for_each(|((u, v), w)| butterfly(u, v, w));
}

fn block_cooley_tukey(line: &mut [Fr], table: &[Fr]) {
    for s in 0..line.len().trailing_zeros() {
        let len = line.len() >> s;
        for (halves, w) in line.chunks_exact_mut(len).zip(&table[1 << s..]) {
            block(halves, w, cooley_tukey);
        }
    }
}

fn block_gentleman_sande(line: &mut [Fr], table: &[Fr], scale: Option<Fr>) {
    for s in (0..line.len().trailing_zeros()).rev() {
        if let (0, Some(k)) = (s, scale) {
            let (low, high) = line.split_at_mut(line.len() / 2);
            let wk = table[1].mul(&k);
            low.iter_mut().zip(high).for_each(|(u, v)| gentleman_sande_scaled(u, v, &k, &wk));
            return;
        }
        let len = line.len() >> s;
        for (halves, w) in line.chunks_exact_mut(len).zip(&table[1 << s..]) {
            block(halves, w, gentleman_sande);
        }
    }
}

fn position_cooley_tukey(line: &mut [Fr], table: &[Fr]) {
    for s in 0..line.len().trailing_zeros() {
        let half = 1 << s;
        for halves in line.chunks_exact_mut(2 * half) {
            positions(halves, &table[half..2 * half], cooley_tukey);
        }
    }
}

fn position_gentleman_sande(line: &mut [Fr], table: &[Fr], scale: Option<Fr>) {
    for s in (0..line.len().trailing_zeros()).rev() {
        if let (0, Some(k)) = (s, scale) {
            let wk = table[1].mul(&k);
            for [u, v] in line.as_chunks_mut::<2>().0 {
                gentleman_sande_scaled(u, v, &k, &wk);
            }
            return;
        }
        let half = 1 << s;
        for halves in line.chunks_exact_mut(2 * half) {
            positions(halves, &table[half..2 * half], gentleman_sande);
        }
    }
}
