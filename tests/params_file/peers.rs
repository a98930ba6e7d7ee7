//! Files that others wrote, and our files read by others.

use bellpepper_core::{Circuit, ConstraintSystem, SynthesisError};
use bellperson::groth16;
use blstrs::Bls12;
use twinlock::groth16::params::Query;

use super::*;

/// `x^(2^n) = y`, with x in the witness.
struct Squares(usize);

impl Circuit<Scalar> for Squares {
    fn synthesize<CS: ConstraintSystem<Scalar>>(self, cs: &mut CS) -> Result<(), SynthesisError> {
        let mut value = Scalar::from(3);
        let mut x = cs.alloc(|| "x", || Ok(value))?;
        for i in 0..self.0 {
            value = value.square();
            let square = if i + 1 == self.0 {
                cs.alloc_input(|| "y", || Ok(value))?
            } else {
                cs.alloc(|| format!("square {i}"), || Ok(value))?
            };
            cs.enforce(|| format!("step {i}"), |lc| lc + x, |lc| lc + x, |lc| lc + square);
            x = square;
        }
        Ok(())
    }
}

fn from_bellperson(key: &groth16::Parameters<Bls12>) -> Parameters {
    let vk = &key.vk;
    Parameters {
        vk: VerifyingKey {
            alpha_g1: vk.alpha_g1,
            beta_g1: vk.beta_g1,
            beta_g2: vk.beta_g2,
            gamma_g2: vk.gamma_g2,
            delta_g1: vk.delta_g1,
            delta_g2: vk.delta_g2,
            ic: vk.ic.clone(),
        },
        h: key.h.to_vec(),
        l: key.l.to_vec(),
        a: key.a.to_vec(),
        b_g1: key.b_g1.to_vec(),
        b_g2: key.b_g2.to_vec(),
    }
}

#[test]
fn files_are_those_that_bellperson_writes_and_reads() -> TestResult {
    for squares in [1, 2, 5, 30] {
        let theirs =
            groth16::generate_random_parameters::<Bls12, _, _>(Squares(squares), &mut seeded())?;
        let mut bytes = Vec::new();
        theirs.write(&mut bytes)?;
        let ours = Parameters::load(&open_bytes(&bytes)?, true)?;
        assert!(ours == from_bellperson(&theirs), "{squares} squares");
        assert!(encoded(&ours) == bytes, "{squares} squares");
        let report = check_bytes("test.params", &bytes, true, &|_, _| {})?;
        assert!(report.is_ok() && report.identities == 0, "{report:?}");
        assert!(groth16::Parameters::<Bls12>::read(&encoded(&ours)[..], true)? == theirs);

        let mut vk = Vec::new();
        theirs.vk.write(&mut vk)?;
        let mut our_vk = Vec::new();
        ours.vk.write(&mut our_vk)?;
        assert_eq!(vk, our_vk);
        assert_eq!(VerifyingKey::read("test.vk", &vk)?, ours.vk);
    }
    Ok(())
}

#[test]
fn file_of_more_than_a_block_is_that_of_bellperson() -> TestResult {
    // Blocks are of thousands of points; multiples of a few points make a large key quickly.
    let mut rng = seeded();
    let mut ours = small_key(&mut rng);
    let some = g1s(&mut rng, 251);
    let some_g2 = [g2(&mut rng), g2(&mut rng), -g2(&mut rng)];
    ours.h = some.iter().copied().cycle().take(16_383).collect();
    ours.l = some.iter().rev().copied().cycle().take(12_289).collect();
    ours.a = some.iter().skip(7).copied().cycle().take(12_290).collect();
    ours.b_g1 = some.iter().skip(9).copied().cycle().take(8192).collect();
    ours.b_g2 = some_g2.iter().copied().cycle().take(8192).collect();
    ours.vk.ic = some.iter().copied().cycle().take(5000).collect();
    let bytes = encoded(&ours);
    let theirs = groth16::Parameters::<Bls12>::read(&bytes[..], false)?;
    assert!(from_bellperson(&theirs) == ours);
    assert!(Parameters::load(&open_bytes(&bytes)?, false)? == ours);
    Ok(())
}

#[cfg(feature = "bellperson")]
#[test]
fn bellperson_parameters_are_a_source() -> TestResult {
    use std::sync::Arc;
    use twinlock::groth16::params::{BellpersonParameters, ParameterSource};
    let theirs = groth16::generate_random_parameters::<Bls12, _, _>(Squares(9), &mut seeded())?;
    let source = BellpersonParameters::new(Arc::new(theirs.clone()));
    assert!(Parameters::load(&source, true)? == from_bellperson(&theirs));
    let mut two = vec![0; 192];
    assert!(source.read_points(Query::L, theirs.l.len() - 1, &mut two).is_err());
    Ok(())
}

#[cfg(feature = "sapling")]
#[test]
fn sapling_production_files_are_read_with_their_trailing_bytes() -> TestResult {
    use twinlock::groth16::params::ParameterSource;
    let (spend, output) = wagyu_zcash_parameters::load_sapling_parameters();
    assert_eq!((spend.len(), output.len()), (47_958_396, 3_592_860));
    let counts = [
        ("spend", &spend, 8, [131_071, 98_638, 85_390, 61_300, 61_300]),
        ("output", &output, 6, [8191, 7821, 6298, 4850, 4850]),
    ];
    for (name, bytes, inputs, counts) in counts {
        let file = ParameterFile::from_source("test.params", bytes.clone())?;
        let table = file.inspection();
        assert_eq!(table.trailing_bytes, 52_836, "{name}");
        assert_eq!(table.problems, [""; 0], "{name}");
        let error = table.require_no_trailing_bytes().expect_err("strict");
        assert_eq!(place(&error), ("trailing", bytes.len() as u64 - 52_836));
        assert_eq!(file.verifying_key().ic.len(), inputs, "{name}");
        assert_eq!(Query::ALL.map(|query| file.query_len(query)), counts, "{name}");

        let key = Parameters::load(&file, false)?;
        assert!(encoded(&key) == bytes[..bytes.len() - 52_836], "{name}");
        assert!(from_bellperson(&groth16::Parameters::read(&bytes[..], false)?) == key, "{name}");
    }
    let report = check_quietly(&output)?;
    assert!(report.is_ok(), "{report:?}");
    assert_eq!((report.points, report.identities), (6 + 6 + 8191 + 7821 + 6298 + 2 * 4850, 0));

    let mut bad = output;
    bad[2_000_000] ^= 4;
    let report = check_quietly(&bad)?;
    assert_eq!(report.problem_count, 1);
    let problem = report.problems.first().ok_or("none listed")?;
    assert!(problem.offset <= 2_000_000 && 2_000_000 < problem.offset + 192, "{problem:?}");
    Ok(())
}
