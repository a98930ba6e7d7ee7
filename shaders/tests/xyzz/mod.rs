//! XYZZ points in the memory of kernels, and what they are on blstrs.

use blstrs::{G1Projective, G2Projective};
use ff::Field;
use group::{Curve as _, Group};
use rand::{Rng, SeedableRng, rngs::OsRng};
use rand_chacha::ChaCha8Rng;
use twinlock_cpu::field::{Affine, Coordinate, Fp, Fp2};
use twinlock_fields::FP;
use twinlock_shaders::kernels::msm;
use twinlock_shaders::{Arithmetic, Kernel};

use crate::gpu::{self, Gpu};

/// What no kernel may read as anything, or change unasked.
pub const UNUSED: u32 = 0x5555_5555;

/// A group and its kernels.
pub trait Points {
    type Point: Group;
    type Field: Coordinate;
    const ACCUMULATE: Kernel;
    const FOLD: Kernel;
    const SEGMENTS: Kernel;
    const SUM: Kernel;
    const FINISH: Kernel;
    fn affine(point: &Self::Point) -> Affine<Self::Field>;
}

pub struct G1;
pub struct G2;

/// From the encoding that both libraries have.
fn decoded<F: Coordinate>(encoded: &[u8]) -> Affine<F> {
    let (x, y) = encoded.split_at(encoded.len() / 2);
    let coordinate = |bytes| F::from_be_bytes(bytes).expect("a coordinate");
    Affine { x: coordinate(x), y: coordinate(y) }
}

impl Points for G1 {
    type Point = G1Projective;
    type Field = Fp;
    const ACCUMULATE: Kernel = msm::ACCUMULATE_G1;
    const FOLD: Kernel = msm::FOLD_G1;
    const SEGMENTS: Kernel = msm::SEGMENTS_G1;
    const SUM: Kernel = msm::SUM_G1;
    const FINISH: Kernel = msm::FINISH_G1;

    fn affine(point: &G1Projective) -> Affine<Fp> {
        if bool::from(point.is_identity()) {
            return Affine::IDENTITY;
        }
        decoded(&point.to_affine().to_uncompressed())
    }
}

impl Points for G2 {
    type Point = G2Projective;
    type Field = Fp2;
    const ACCUMULATE: Kernel = msm::ACCUMULATE_G2;
    const FOLD: Kernel = msm::FOLD_G2;
    const SEGMENTS: Kernel = msm::SEGMENTS_G2;
    const SUM: Kernel = msm::SUM_G2;
    const FINISH: Kernel = msm::FINISH_G2;

    fn affine(point: &G2Projective) -> Affine<Fp2> {
        if bool::from(point.is_identity()) {
            return Affine::IDENTITY;
        }
        decoded(&point.to_affine().to_uncompressed())
    }
}

/// A point between kernels: X, Y, ZZ, ZZZ in the kernels' own form.
type Xyzz<F> = [F; 4];

/// Words of an XYZZ point.
pub const fn xyzz_words<P: Points>() -> usize {
    size_of::<Xyzz<P::Field>>() / 4
}

/// A kernel's buffer, its view behind some words that are not the kernel's.
pub struct Bound {
    buffer: wgpu::Buffer,
    /// In units of the binding.
    offset: u32,
    unit_words: u32,
}

/// A device, an arithmetic and inputs.
pub struct Case {
    gpu: Gpu,
    pub arithmetic: Arithmetic,
    pub rng: ChaCha8Rng,
}

impl Case {
    fn bound(&self, offset: u32, unit_words: u32, words: &[u32]) -> Bound {
        let before = vec![UNUSED; (offset * unit_words) as usize];
        let buffer = self.gpu.buffer(&[&before, words].concat());
        Bound { buffer, offset, unit_words }
    }

    /// A binding of field elements.
    pub fn elements(&self, words: &[u32]) -> Bound {
        self.bound(5, 4, words)
    }

    /// A binding of words.
    pub fn words(&self, words: &[u32]) -> Bound {
        self.bound(3, 1, words)
    }

    pub fn read(&self, bound: &Bound) -> Vec<u32> {
        let mut words = self.gpu.read(&bound.buffer);
        let before = words.drain(..(bound.offset * bound.unit_words) as usize);
        assert!(before.into_iter().all(|word| word == UNUSED), "words before the view");
        words
    }

    /// Runs a kernel of `params[0]` threads, `total`.
    pub fn dispatch(&self, pipeline: &wgpu::ComputePipeline, bound: &[&Bound], params: &[u32]) {
        let offsets: Vec<u32> = bound.iter().map(|bound| bound.offset).collect();
        let buffers: Vec<_> = bound.iter().map(|bound| &bound.buffer).collect();
        let groups = [params[0].div_ceil(msm::THREADS), 1];
        self.gpu.dispatch(pipeline, &buffers, &[&offsets, params].concat(), groups);
    }

    pub fn pipeline(&self, kernel: Kernel) -> wgpu::ComputePipeline {
        self.gpu.pipeline(&kernel.build(self.arithmetic))
    }

    /// The in-kernel radix over that of memory.
    fn radix_excess(&self) -> Fp {
        let bits = match self.arithmetic {
            Arithmetic::Wide => 0,
            Arithmetic::Sparse => 8,
            Arithmetic::Narrow => 6,
        };
        (0..bits).fold(Fp::ONE, |power, _| power.add(&power))
    }

    /// An element in the kernels' form: loose, where it is not wide.
    fn kernel_form(&mut self, value: Fp) -> Fp {
        let mut limbs = value.mul(&self.radix_excess()).0;
        if self.arithmetic != Arithmetic::Wide && self.rng.r#gen() {
            let mut carry = 0;
            for (limb, add) in limbs.iter_mut().zip(modulus()) {
                let sum = u128::from(*limb) + u128::from(add) + carry;
                (*limb, carry) = (sum as u64, sum >> 64);
            }
        }
        Fp(limbs)
    }

    fn memory_form(&self, value: Fp) -> Fp {
        let modulus = modulus();
        let mut limbs = value.0;
        if limbs.iter().rev().ge(modulus.iter().rev()) {
            assert!(self.arithmetic != Arithmetic::Wide, "not reduced");
            let mut borrow = false;
            for (limb, sub) in limbs.iter_mut().zip(modulus) {
                let (difference, under) = limb.overflowing_sub(sub);
                let (difference, under_again) = difference.overflowing_sub(borrow.into());
                (*limb, borrow) = (difference, under || under_again);
            }
        }
        assert!(limbs.iter().rev().lt(modulus.iter().rev()), "not below twice the modulus");
        Fp(limbs).mul(&self.radix_excess().invert())
    }

    fn element<F: Coordinate>(&mut self) -> F {
        let mut element = [F::ZERO];
        for coefficient in bytemuck::cast_slice_mut::<F, Fp>(&mut element) {
            let mut limbs: [u64; 6] = self.rng.r#gen();
            limbs[5] >>= 4;
            *coefficient = Fp(limbs);
        }
        element[0]
    }

    /// Points in memory, in any of their representations.
    pub fn xyzz<P: Points>(&mut self, points: &[P::Point]) -> Vec<u32> {
        let mut words = Vec::new();
        for point in points {
            let (Affine { x, y }, z) = (P::affine(point), self.element::<P::Field>());
            let mut xyzz = if bool::from(point.is_identity()) {
                [self.element(), self.element(), P::Field::ZERO, self.element()]
            } else {
                let (zz, zzz) = (z.square(), z.square().mul(&z));
                [x.mul(&zz), y.mul(&zzz), zz, zzz]
            };
            for value in bytemuck::cast_slice_mut::<P::Field, Fp>(&mut xyzz) {
                *value = self.kernel_form(*value);
            }
            words.extend_from_slice(bytemuck::cast_slice(&xyzz));
        }
        words
    }

    /// The point that an XYZZ one is.
    fn affine<P: Points>(&self, words: &[u32]) -> Affine<P::Field> {
        let mut xyzz: Xyzz<P::Field> = [P::Field::ZERO; 4];
        bytemuck::cast_slice_mut(&mut xyzz).copy_from_slice(words);
        for value in bytemuck::cast_slice_mut::<P::Field, Fp>(&mut xyzz) {
            *value = self.memory_form(*value);
        }
        let [x, y, zz, zzz] = xyzz;
        if zz.is_zero() {
            return Affine::IDENTITY;
        }
        assert!(zz.square().mul(&zz) == zzz.square(), "ZZ^3 = ZZZ^2");
        Affine { x: x.mul(&zz.invert()), y: y.mul(&zzz.invert()) }
    }

    /// That memory holds `expected` now, and what it held before where that is `None`.
    pub fn compare<P: Points>(
        &self,
        what: &str,
        [before, after]: [&[u32]; 2],
        expected: &[Option<P::Point>],
    ) {
        let what = format!("{what}, {:?}, {}", self.arithmetic, P::SUM.name);
        assert_eq!(after.len(), expected.len() * xyzz_words::<P>(), "{what}: length");
        let [before, after] = [before, after].map(|words| words.chunks(xyzz_words::<P>()));
        for (i, ((before, after), expected)) in before.zip(after).zip(expected).enumerate() {
            match expected {
                None => assert!(before == after, "{what}: point {i} has changed"),
                Some(point) => {
                    assert!(self.affine::<P>(after) == P::affine(point), "{what}: point {i}");
                }
            }
        }
    }

    /// The identity, and others of which many are equal or opposite.
    pub fn points<P: Points>(&mut self, len: usize) -> Vec<P::Point> {
        let (p, q) = (P::Point::random(&mut self.rng), P::Point::random(&mut self.rng));
        let few = [P::Point::identity(), p, -p, p.double(), -p.double(), q, p + q];
        let mut point = || match self.rng.gen_range(0..3) {
            0 => P::Point::generator() * <P::Point as Group>::Scalar::random(&mut self.rng),
            _ => few[self.rng.gen_range(0..few.len())],
        };
        (0..len).map(|_| point()).collect()
    }
}

/// The modulus of Fp.
pub fn modulus() -> [u64; 6] {
    let limbs = FP.modulus_limbs(32, 12);
    std::array::from_fn(|i| u64::from(limbs[2 * i]) | u64::from(limbs[2 * i + 1]) << 32)
}

/// Runs `check` with a device for `arithmetic`, if there is one.
pub fn with(arithmetic: Arithmetic, check: impl FnOnce(&mut Case)) {
    let Some(gpu) = gpu::open(arithmetic) else { return };
    let seed = OsRng.r#gen();
    eprintln!("{arithmetic:?}, seed {seed}");
    check(&mut Case { gpu, arithmetic, rng: ChaCha8Rng::seed_from_u64(seed) });
}
