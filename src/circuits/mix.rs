//! `mix`: a synthetic circuit of any size, for benchmarks, tests and demonstrations.
//!
//! It is made of groups, each of booleans, one packing of them with the last group's product, and
//! one square of the packing, the product. The first group's "last product" is the public input.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use bellpepper_core::{Circuit, ConstraintSystem, LinearCombination, SynthesisError, Variable};
use blstrs::Scalar;
use ff::Field;
use rand::{RngCore, SeedableRng};
use rand_chacha::ChaCha20Rng;
use twinlock_api::Device;

use super::{CircuitEntry, CircuitInfo, CircuitOptions, KeyMaker, KeySource};
use crate::groth16::assignment::{self, Assignment, SizeHint};
use crate::groth16::generator;
use crate::groth16::params::{Parameters, VerifyingKey};
use crate::host_memory;
use crate::{Error, Result};

const SCALAR_BYTES: u64 = 32;
const G1_BYTES: u64 = 96;
const G2_BYTES: u64 = 192;

/// So that all variables can be told apart in the rows that a key is made from. The field would
/// allow one more.
const MAX_LG: u32 = 31;

/// What the groups of [`Mix`] are made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// Groups of 8 constraints: 6 booleans, `(1 - b) * b = 0`, a packing and a product. Three
    /// quarters of the witness are bits, and nearly all of it is in both A and B.
    Even,
    /// Groups of 64: 48 bits in A only, `b * 1 = b`, 14 booleans, a packing of all 62 and a
    /// product. About the statistics of a Filecoin PoRep partition.
    Bits,
}

impl Profile {
    const ALL: [Self; 2] = [Self::Even, Self::Bits];

    /// The profile's name in options.
    pub fn name(self) -> &'static str {
        match self {
            Self::Even => "even",
            Self::Bits => "bits",
        }
    }

    /// The logarithm of the constraints (and of the witness variables) of a group.
    const fn lg_group(self) -> u32 {
        match self {
            Self::Even => 3,
            Self::Bits => 6,
        }
    }

    /// Bits in A only, and booleans.
    const fn bits(self) -> (usize, usize) {
        match self {
            Self::Even => (0, 6),
            Self::Bits => (48, 14),
        }
    }

    /// The smallest `lg` with at least one group.
    pub const fn min_lg(self) -> u32 {
        self.lg_group() + 1
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Profile {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|profile| profile.name() == name).ok_or_else(|| Error::Unknown {
            kind: "profile",
            name: name.into(),
            known: Self::ALL.map(Self::name).join(", "),
        })
    }
}

/// The size and profile of a [`Mix`]: all that its key depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MixShape {
    lg: u32,
    profile: Profile,
}

impl MixShape {
    /// The shape whose evaluation domain has 2^`lg` points.
    ///
    /// # Errors
    /// [`Error::Invalid`] below the profile's smallest `lg` (4 for `even`, 7 for `bits`) and above
    /// 31, for a constraint's terms have indices of 31 bits.
    pub fn new(lg: u32, profile: Profile) -> Result<Self> {
        let (min, max) = (profile.min_lg(), MAX_LG);
        if !(min..=max).contains(&lg) {
            return Err(Error::Invalid {
                what: format!("lg {lg}"),
                problem: format!("mix of profile {profile} needs one from {min} to {max}"),
            });
        }
        Ok(Self { lg, profile })
    }

    /// The logarithm of the evaluation domain.
    pub fn lg(self) -> u32 {
        self.lg
    }

    /// What the groups are made of.
    pub fn profile(self) -> Profile {
        self.profile
    }

    /// One group fewer than would fill the domain, which leaves room for the input rows.
    fn groups(self) -> usize {
        (1 << (self.lg - self.profile.lg_group())) - 1
    }

    /// Bytes of an assignment: the witness, and A, B and C of each row.
    fn assignment_bytes(self) -> u64 {
        (self.variables() + 3 * self.domain()) * SCALAR_BYTES
    }

    /// Bytes that making a key takes at its peak: all points, and the scalars they come from.
    fn key_bytes(self) -> u64 {
        let (_, booleans) = self.profile.bits();
        // Of each group the booleans and the packing are in B.
        let in_b = (self.groups() * (booleans + 1)) as u64;
        // H, L and A, and B in G1 and in G2.
        let of_g1 = self.domain() + 2 * self.variables();
        of_g1 * (G1_BYTES + SCALAR_BYTES) + in_b * (G1_BYTES + G2_BYTES + 2 * SCALAR_BYTES)
    }

    /// Bytes of a synthesis for the verifying key: where rows end, and the basis.
    fn verifying_key_bytes(self) -> u64 {
        self.domain() * (3 * size_of::<usize>() as u64 + SCALAR_BYTES)
    }

    fn domain(self) -> u64 {
        1 << self.lg
    }

    fn variables(self) -> u64 {
        self.size().witness as u64
    }

    /// Refuses a size whose key the host has no room to make.
    ///
    /// # Errors
    /// [`Error::Limit`] with the bytes needed and available.
    pub(crate) fn require_key_room(self) -> Result<()> {
        host_memory::require(self.bytes_of("a key"), self.key_bytes())
    }

    fn bytes_of(self, what: &str) -> String {
        format!("host bytes for {what} of {}", self.label())
    }

    /// The counts of the circuit: 2^lg - 8 (`even`) or 2^lg - 64 (`bits`) own constraints, as
    /// many witness variables, and two inputs, ONE included.
    pub fn size(self) -> SizeHint {
        let variables = self.groups() << self.profile.lg_group();
        SizeHint { constraints: variables, inputs: 2, witness: variables }
    }
}

/// The circuit, with or without a witness.
#[derive(Clone)]
pub struct Mix {
    shape: MixShape,
    witness: Option<Witness>,
}

/// The public input, and the bits of each group.
#[derive(Clone)]
struct Witness {
    input: Scalar,
    bits: Arc<[u64]>,
}

impl Mix {
    /// The circuit without values, which is enough for its key.
    pub fn blank(shape: MixShape) -> Self {
        Self { shape, witness: None }
    }

    /// The circuit on a random public input and random bits.
    pub fn random(shape: MixShape, rng: &mut dyn RngCore) -> Self {
        // All at once: the operating system's generator costs a call each time.
        let mut bytes = vec![0; shape.groups() * size_of::<u64>()];
        rng.fill_bytes(&mut bytes);
        let bits = bytes.as_chunks().0.iter().map(|bytes| u64::from_le_bytes(*bytes)).collect();
        Self { shape, witness: Some(Witness { input: Scalar::random(rng), bits }) }
    }

    /// Synthesises the circuit, with room made beforehand.
    ///
    /// # Errors
    /// [`Error::Synthesis`] when there is no witness.
    pub fn assignment(self) -> Result<Assignment> {
        let size = self.shape.size();
        assignment::synthesize_sized(self, size)
    }
}

impl fmt::Debug for Mix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mix").field("shape", &self.shape).finish_non_exhaustive()
    }
}

type Lc = LinearCombination<Scalar>;

impl Circuit<Scalar> for Mix {
    // Combinations are started from their first variable, not from the empty one handed in: that
    // spares allocations, which are most of the work here.
    fn synthesize<CS: ConstraintSystem<Scalar>>(self, cs: &mut CS) -> Result<(), SynthesisError> {
        let (free, booleans) = self.shape.profile.bits();
        let powers: Vec<Scalar> =
            std::iter::successors(Some(Scalar::ONE), |power| Some(power.double()))
                .take(free + booleans)
                .collect();
        let mask = (1u64 << (free + booleans)) - 1;
        let mut last = self.witness.as_ref().map(|witness| witness.input);
        let mut last_variable =
            cs.alloc_input(|| "input", || last.ok_or(SynthesisError::AssignmentMissing))?;
        let mut variables = Vec::with_capacity(free + booleans);
        for group in 0..self.shape.groups() {
            let bits = (self.witness.as_ref())
                .and_then(|witness| witness.bits.get(group))
                .map(|bits| bits & mask);
            variables.clear();
            for at in 0..free + booleans {
                let bit =
                    bits.map(|bits| if bits >> at & 1 == 1 { Scalar::ONE } else { Scalar::ZERO });
                let bit = cs.alloc(|| "bit", || bit.ok_or(SynthesisError::AssignmentMissing))?;
                if at < free {
                    let lc = |_: Lc| Lc::from_variable(bit);
                    cs.enforce(|| "bit in A", lc, |_| Lc::from_variable(CS::one()), lc);
                } else {
                    boolean(cs, bit);
                }
                variables.push(bit);
            }
            let packed = bits.zip(last).map(|(bits, last)| Scalar::from(bits) + last);
            let packed_variable =
                cs.alloc(|| "packed", || packed.ok_or(SynthesisError::AssignmentMissing))?;
            cs.enforce(
                || "packing",
                |_| {
                    (variables.iter().zip(&powers))
                        .fold(Lc::from_variable(last_variable), |lc, (bit, power)| {
                            lc + (*power, *bit)
                        })
                },
                |_| Lc::from_variable(CS::one()),
                |_| Lc::from_variable(packed_variable),
            );
            let product = packed.map(|packed| packed.square());
            let product_variable =
                cs.alloc(|| "product", || product.ok_or(SynthesisError::AssignmentMissing))?;
            let lc = |_: Lc| Lc::from_variable(packed_variable);
            cs.enforce(|| "product", lc, lc, |_| Lc::from_variable(product_variable));
            (last, last_variable) = (product, product_variable);
        }
        Ok(())
    }
}

fn boolean<CS: ConstraintSystem<Scalar>>(cs: &mut CS, bit: Variable) {
    cs.enforce(
        || "boolean",
        |_| Lc::from_variable(CS::one()) - bit,
        |_| Lc::from_variable(bit),
        |lc| lc,
    );
}

impl MixShape {
    /// The shape that `options` ask for; 2^16 and [`Profile::Even`] where they are silent.
    ///
    /// # Errors
    /// As [`new`](Self::new), and [`Error::Unknown`] for a profile that does not exist.
    pub fn from_options(options: &CircuitOptions) -> Result<Self> {
        let profile = options.profile.as_deref().map_or(Ok(Profile::Even), str::parse)?;
        Self::new(options.lg.unwrap_or(16), profile)
    }
}

impl CircuitEntry for MixShape {
    fn info(&self) -> CircuitInfo {
        super::MIX
    }

    fn label(&self) -> String {
        format!("mix --lg {} --profile {}", self.lg, self.profile)
    }

    fn require_room(&self) -> Result<()> {
        host_memory::require(self.bytes_of("an assignment"), self.assignment_bytes())
    }

    fn synthesize(&self, rng: &mut dyn RngCore) -> Result<Assignment> {
        self.require_room()?;
        Mix::random(*self, rng).assignment()
    }

    fn parameters(&self) -> Result<KeySource<'_>> {
        Ok(KeySource::Generated(self))
    }
}

impl KeyMaker for MixShape {
    fn generate(
        &self,
        device: Option<&Arc<dyn Device>>,
        rng: &mut dyn RngCore,
        progress: &(dyn Fn(u64, u64) + Sync),
    ) -> Result<Parameters> {
        self.require_key_room()?;
        generator::generate_parameters_on(device, Mix::blank(*self), rng, progress)
    }

    fn generate_verifying_key(&self, rng: &mut dyn RngCore) -> Result<VerifyingKey> {
        host_memory::require(self.bytes_of("a verifying key"), self.verifying_key_bytes())?;
        generator::generate_verifying_key(Mix::blank(*self), rng)
    }

    fn demonstration_rng(&self) -> ChaCha20Rng {
        let mut seed = [0; 32];
        for (byte, label) in seed.iter_mut().zip(self.label().bytes()) {
            *byte = label;
        }
        ChaCha20Rng::from_seed(seed)
    }
}
