//! Shapes of circuits that are too large to synthesise for a plan.

use crate::circuits::mix::{MixShape, Profile};
use crate::groth16::params::{ParameterSource, Query};
use crate::groth16::prover::shape::ProofShape;
use crate::{Error, Result};

/// A shape and where its numbers come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedShape {
    /// Its name.
    pub name: String,
    /// The numbers.
    pub shape: ProofShape,
    /// What of them is not known, and what was assumed in its stead.
    pub assumed: Vec<&'static str>,
}

/// The names of shapes; LG is the logarithm of mix's domain.
pub const SHAPES: &str =
    "porep-32gib, snap-32gib, wpost-32gib, wnpost-32gib, mix:LG, mix:LG:even, mix:LG:bits";

/// A PoRep partition of a 32 GiB sector, as counted in Filecoin's circuit.
const POREP: ProofShape = ProofShape {
    lg_domain: 27,
    inputs: POREP_INPUTS,
    witness: POREP_WITNESS,
    a: POREP_INPUTS + POREP_A,
    b: 1 + POREP_B,
};
const POREP_CONSTRAINTS: usize = 130_278_869;
const POREP_INPUTS: usize = 328;
const POREP_WITNESS: usize = 130_169_893;
const POREP_A: usize = 129_753_292;
const POREP_B: usize = 33_112_281;

/// The shape called `name`, one of [`SHAPES`].
///
/// # Errors
/// `Unknown`, or `Invalid` for a size that mix does not have.
pub fn named_shape(name: &str) -> Result<NamedShape> {
    const INPUTS: &str = "the count of inputs is taken to include ONE";
    const LIKE_POREP: &str = "only rows and domain are known; variables and densities are in \
                              porep-32gib's proportion to the constraints";
    const LARGEST: &str = "2^22 constraints: the largest of 2^19 to 2^22, less the input rows";
    let (shape, assumed) = match name {
        "porep-32gib" => (POREP, vec![INPUTS]),
        "snap-32gib" => (like_porep(81_000_000, 27), vec![LIKE_POREP]),
        "wpost-32gib" => (like_porep(125_000_000, 27), vec![LIKE_POREP]),
        "wnpost-32gib" => (like_porep((1 << 22) - POREP_INPUTS, 22), vec![LARGEST, LIKE_POREP]),
        _ => match name.strip_prefix("mix:") {
            Some(size) => (mix(size)?, Vec::new()),
            None => return Err(unknown(name)),
        },
    };
    Ok(NamedShape { name: name.into(), shape, assumed })
}

fn unknown(name: &str) -> Error {
    Error::Unknown { kind: "shape", name: name.into(), known: SHAPES.into() }
}

/// PoRep's counts in proportion to the constraints.
fn like_porep(constraints: usize, lg_domain: u32) -> ProofShape {
    let scaled =
        |count: usize| (count as u128 * constraints as u128 / POREP_CONSTRAINTS as u128) as usize;
    ProofShape {
        lg_domain,
        inputs: POREP_INPUTS,
        witness: scaled(POREP_WITNESS),
        a: POREP_INPUTS + scaled(POREP_A),
        b: 1 + scaled(POREP_B),
    }
}

fn mix(size: &str) -> Result<ProofShape> {
    let (lg, profile) = match size.split_once(':') {
        Some((lg, profile)) => (lg, profile.parse()?),
        None => (size, Profile::Even),
    };
    let lg = lg.parse().map_err(|_| unknown(&format!("mix:{size}")))?;
    let counts = MixShape::new(lg, profile)?.size();
    // Each group has one packing and one product; the last product is in C only, and besides the
    // witness only ONE is in B.
    let (group, in_b) = match profile {
        Profile::Even => (8, 6 + 1),
        Profile::Bits => (64, 14 + 1),
    };
    Ok(ProofShape {
        lg_domain: lg,
        inputs: counts.inputs,
        witness: counts.witness,
        a: counts.inputs + counts.witness - 1,
        b: 1 + counts.witness / group * in_b,
    })
}

/// The shape that a key's lengths tell. A key with one point for h fits the domains 1 and 2; it is
/// taken for the larger.
///
/// # Errors
/// `Key` when the queries over B differ in length.
pub fn parameters_shape(source: &dyn ParameterSource) -> Result<NamedShape> {
    let len = |query| source.query_len(query);
    let (h, b) = (len(Query::H), len(Query::BG1));
    if b != len(Query::BG2) {
        let g2 = len(Query::BG2);
        return Err(Error::Key(format!("{}: {b} points in b_g1, {g2} in b_g2", source.name())));
    }
    let inputs = source.verifying_key().ic.len();
    // h has domain - 1 points, or domain.
    let domain = if h == 1 { 2 } else { h.next_power_of_two() };
    let shape = ProofShape {
        lg_domain: domain.trailing_zeros(),
        inputs,
        witness: len(Query::L),
        a: len(Query::A),
        b,
    };
    Ok(NamedShape { name: source.name().into(), shape, assumed: Vec::new() })
}

#[cfg(test)]
mod tests {
    use rand::rngs::OsRng;

    use super::*;
    use crate::circuits::mix::Mix;
    use crate::groth16::generator::generate_parameters;

    #[test]
    fn mix_has_the_counts_that_its_synthesis_and_its_key_have() {
        for (profile, lg) in [(Profile::Even, 4), (Profile::Even, 9), (Profile::Bits, 9)] {
            let shape = MixShape::new(lg, profile).unwrap();
            let named = named_shape(&format!("mix:{lg}:{profile}")).unwrap();
            let assignment = Mix::random(shape, &mut OsRng).assignment().unwrap();
            assert_eq!(named.shape, ProofShape::of(&assignment).unwrap(), "{}", named.name);
            let key = generate_parameters(Mix::blank(shape), &mut OsRng, &|_, _| ()).unwrap();
            assert_eq!(named.shape, parameters_shape(&key).unwrap().shape, "{}", named.name);
        }
    }

    #[test]
    fn unknown_shapes_are_refused_with_the_names() {
        for bad in ["", "porep", "mix", "mix:", "mix:x", "mix:9:", "mix:9:odd", "mix:99"] {
            assert!(named_shape(bad).is_err(), "{bad}");
        }
        assert!(named_shape("porep").unwrap_err().to_string().contains("wnpost-32gib"));
    }

    #[test]
    fn domains_hold_their_constraints() {
        for (name, constraints) in [
            ("porep-32gib", POREP_CONSTRAINTS),
            ("snap-32gib", 81_000_000),
            ("wpost-32gib", 125_000_000),
        ] {
            let shape = named_shape(name).unwrap().shape;
            let rows = constraints + shape.inputs;
            assert_eq!(rows.next_power_of_two(), shape.domain(), "{name}");
        }
    }
}
