//! Sums of runs of affine points with one inversion for many additions.
//!
//! An affine addition costs an inversion and 2M + 1S; by Montgomery's trick a batch shares one
//! inversion at 3M an addition, so 5M + 1S in all, where a mixed addition into a Jacobian or
//! extended Jacobian sum costs 8M + 2S or more. A denominator of zero would spoil the whole batch,
//! so the cases that have one (the identity, opposite points, equal points) are told apart first.

use crate::error::KernelError;
use crate::field::{Affine, Coordinate};
use crate::workspace::{carve, carved_bytes};

/// How a sum of two points comes about.
enum Sum<F> {
    /// Known without a division.
    Known(Affine<F>),
    /// Of different abscissas: the denominator of the slope.
    Chord(F),
    /// Of equal points: the denominator of the slope.
    Tangent(F),
}

#[inline(always)]
fn classify<F: Coordinate>(p: &Affine<F>, q: &Affine<F>) -> Sum<F> {
    if p.x.is_zero() && p.is_identity() {
        return Sum::Known(*q);
    }
    if q.x.is_zero() && q.is_identity() {
        return Sum::Known(*p);
    }
    let difference = q.x.sub(&p.x);
    if !difference.is_zero() {
        return Sum::Chord(difference);
    }
    // A point with y = 0 is its own opposite; no such point lies on either curve, but the bases
    // need not have been checked.
    if p.y == q.y && !p.y.is_zero() {
        return Sum::Tangent(p.y.add(&p.y));
    }
    Sum::Known(Affine::IDENTITY)
}

/// The sum of `p` and `q`, given the inverse of the slope's denominator.
#[inline(always)]
fn finish<F: Coordinate>(p: &Affine<F>, q: &Affine<F>, inverse: &F, tangent: bool) -> Affine<F> {
    let numerator = if tangent {
        let square = p.x.square();
        square.add(&square).add(&square)
    } else {
        q.y.sub(&p.y)
    };
    let slope = numerator.mul(inverse);
    let x = slope.square().sub(&p.x).sub(&q.x);
    let y = slope.mul(&p.x.sub(&x)).sub(&p.y);
    Affine { x, y }
}

/// Sums of points, found by key.
pub(crate) trait Sums<F> {
    /// The sum of `key`, one of the keys that were pushed.
    fn sum(&mut self, key: u32) -> &mut Affine<F>;
}

impl<F> Sums<F> for [Affine<F>] {
    #[inline(always)]
    fn sum(&mut self, key: u32) -> &mut Affine<F> {
        &mut self[key as usize]
    }
}

/// Step of a round: which points make an output, in the low bits how, above them where.
const MOVE: u32 = 0;
const CHORD: u32 = 1;
const TANGENT: u32 = 2;
const KIND_BITS: u32 = 2;
const KIND_MASK: u32 = (1 << KIND_BITS) - 1;

/// Gathers points that come in runs of equal keys, and adds up each run.
///
/// Points are pushed in the order of their keys. Whenever the block is full, neighbours of one key
/// are added in pairs, all pairs of the block in one batch, until a point a key is left; these are
/// then added to the sums outside, again in one batch. A run as long as the block is as good as
/// many short ones.
pub(crate) struct RunSums<'a, F> {
    points: &'a mut [Affine<F>],
    keys: &'a mut [u32],
    steps: &'a mut [u32],
    denominators: &'a mut [F],
    /// `products[i]`: product of the denominators after `i`.
    products: &'a mut [F],
    len: usize,
}

impl<'a, F: Coordinate> RunSums<'a, F> {
    /// Bytes of scratch that `new` takes.
    pub(crate) const fn scratch_bytes() -> usize {
        carved_bytes::<Affine<F>>(F::BATCH_LEN)
            + 2 * carved_bytes::<u32>(F::BATCH_LEN)
            + 2 * carved_bytes::<F>(F::BATCH_LEN)
    }

    /// A block in `scratch`, empty.
    pub(crate) fn new(mut scratch: &'a mut [u8]) -> Result<Self, KernelError> {
        let what = "workspace bytes";
        Ok(Self {
            points: carve(what, &mut scratch, F::BATCH_LEN)?,
            keys: carve(what, &mut scratch, F::BATCH_LEN)?,
            steps: carve(what, &mut scratch, F::BATCH_LEN)?,
            denominators: carve(what, &mut scratch, F::BATCH_LEN)?,
            products: carve(what, &mut scratch, F::BATCH_LEN)?,
            len: 0,
        })
    }

    /// Whether there is no room for another point.
    #[inline(always)]
    pub(crate) fn is_full(&self) -> bool {
        self.len == F::BATCH_LEN
    }

    /// Appends a point, its key not below the one before. The caller flushes a full block first;
    /// a point pushed onto a full block would be lost, so that is refused by a bounds check.
    #[inline(always)]
    pub(crate) fn push(&mut self, key: u32, point: &Affine<F>, negative: bool) {
        let at = self.len;
        self.points[at].x = point.x;
        self.points[at].y = if negative { point.y.negate() } else { point.y };
        self.keys[at] = key;
        self.len += 1;
    }

    /// Adds each run's sum to the sum of its key and empties the block.
    pub(crate) fn flush(&mut self, sums: &mut (impl Sums<F> + ?Sized)) {
        while self.halve() {}
        self.add_to(sums);
        self.len = 0;
    }

    /// Adds neighbours of one key in pairs; false if there were none.
    fn halve(&mut self) -> bool {
        // Which points pair up: outputs go to the front, keys with them.
        let (mut from, mut out, mut any) = (0, 0, false);
        while from < self.len {
            let key = self.keys[from];
            let paired = from + 1 < self.len && self.keys[from + 1] == key;
            self.keys[out] = key;
            self.steps[out] = ((from as u32) << KIND_BITS) | if paired { CHORD } else { MOVE };
            any |= paired;
            from += 1 + usize::from(paired);
            out += 1;
        }
        if !any {
            return false;
        }
        // Backward, so that the second pass can go forward and write over what it has read.
        let mut product = F::ONE;
        for i in (0..out).rev() {
            let step = self.steps[i];
            if step & KIND_MASK == MOVE {
                continue;
            }
            let at = (step >> KIND_BITS) as usize;
            let denominator = match classify(&self.points[at], &self.points[at + 1]) {
                Sum::Chord(denominator) => denominator,
                Sum::Tangent(denominator) => {
                    self.steps[i] = (step & !KIND_MASK) | TANGENT;
                    denominator
                }
                Sum::Known(sum) => {
                    self.points[at] = sum;
                    self.steps[i] = (step & !KIND_MASK) | MOVE;
                    continue;
                }
            };
            self.products[i] = product;
            self.denominators[i] = denominator;
            product = product.mul(&denominator);
        }
        let mut inverse = product.invert();
        for i in 0..out {
            let step = self.steps[i];
            let at = (step >> KIND_BITS) as usize;
            let kind = step & KIND_MASK;
            if kind == MOVE {
                self.points[i] = self.points[at];
                continue;
            }
            let own = inverse.mul(&self.products[i]);
            inverse = inverse.mul(&self.denominators[i]);
            self.points[i] = finish(&self.points[at], &self.points[at + 1], &own, kind == TANGENT);
        }
        self.len = out;
        true
    }

    /// Adds the points, of which no two share a key, to the sums outside.
    fn add_to(&mut self, sums: &mut (impl Sums<F> + ?Sized)) {
        let (mut product, mut any) = (F::ONE, false);
        for i in (0..self.len).rev() {
            let sum = sums.sum(self.keys[i]);
            let denominator = match classify(sum, &self.points[i]) {
                Sum::Chord(denominator) => {
                    self.steps[i] = CHORD;
                    denominator
                }
                Sum::Tangent(denominator) => {
                    self.steps[i] = TANGENT;
                    denominator
                }
                Sum::Known(known) => {
                    *sum = known;
                    self.steps[i] = MOVE;
                    continue;
                }
            };
            any = true;
            self.products[i] = product;
            self.denominators[i] = denominator;
            product = product.mul(&denominator);
        }
        if !any {
            return;
        }
        let mut inverse = product.invert();
        for i in 0..self.len {
            let kind = self.steps[i];
            if kind == MOVE {
                continue;
            }
            let own = inverse.mul(&self.products[i]);
            inverse = inverse.mul(&self.denominators[i]);
            let sum = sums.sum(self.keys[i]);
            *sum = finish(sum, &self.points[i], &own, kind == TANGENT);
        }
    }
}
