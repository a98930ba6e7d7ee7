use blstrs::Scalar;
use twinlock::circuits::mix::{Mix, MixShape, Profile};
use twinlock::groth16::assignment::synthesize;

use crate::fresh_rng;
use crate::oracle::Oracle;

#[test]
fn sizes_and_densities_are_as_described() {
    let mut rng = fresh_rng();
    for (profile, spare, group, a_only) in [(Profile::Even, 8, 8, 0), (Profile::Bits, 64, 64, 48)] {
        for lg in profile.min_lg()..=14 {
            let shape = MixShape::new(lg, profile).unwrap();
            let circuit = Mix::random(shape, &mut rng);
            let assignment = circuit.clone().assignment().unwrap();
            let own = (1 << lg) - spare;
            let groups = own / group;
            assert_eq!(assignment.own_constraints(), own);
            assert_eq!(assignment.num_constraints(), own + 2);
            assert_eq!(assignment.lg_domain(), lg);
            assert_eq!(assignment.instance.len(), 2);
            assert_eq!(assignment.witness.len(), own);
            // All but the last product are in A; booleans and packings in B, and ONE.
            assert_eq!(assignment.a_witness_density.count(), own - 1);
            assert_eq!(assignment.b_witness_density.count(), (group - 1 - a_only) * groups);
            assert_eq!(assignment.b_input_density.iter().collect::<Vec<_>>(), [0]);
            assert_eq!(assignment.first_unsatisfied(), None);
            let size = shape.size();
            assert_eq!((size.constraints, size.inputs, size.witness), (own, 2, own));
            if lg <= 10 {
                Oracle::synthesize(circuit.clone()).assert_equals(&assignment);
            }
            assert!(synthesize(circuit).unwrap() == assignment, "a size hint changes nothing");
        }
    }
}

#[test]
fn witnesses_are_fresh_and_mostly_bits() {
    let mut rng = fresh_rng();
    let shape = MixShape::new(12, Profile::Bits).unwrap();
    let one = Mix::random(shape, &mut rng).assignment().unwrap();
    let other = Mix::random(shape, &mut rng).assignment().unwrap();
    assert_ne!(one.public_inputs(), other.public_inputs());
    for bit in [0, 1] {
        let count = one.witness.iter().filter(|value| **value == Scalar::from(bit)).count();
        assert!(count * 10 > one.witness.len() * 4, "{count} of {}", one.witness.len());
    }
    assert_ne!(one.witness, other.witness);
}

#[test]
fn a_changed_bit_is_unsatisfied() {
    let mut rng = fresh_rng();
    let shape = MixShape::new(7, Profile::Even).unwrap();
    let mut assignment = Mix::random(shape, &mut rng).assignment().unwrap();
    let row = 8 * 3 + 6;
    assignment.a[row] += Scalar::from(1);
    assert_eq!(assignment.first_unsatisfied(), Some(row));
}

#[test]
fn a_blank_circuit_has_no_witness() {
    let blank = Mix::blank(MixShape::new(7, Profile::Bits).unwrap());
    let error = blank.assignment().unwrap_err().to_string();
    assert_eq!(error, "synthesis: an assignment for a variable could not be computed");
}

#[test]
fn impossible_sizes_name_the_limit() {
    for (lg, profile, text) in [
        (3, Profile::Even, "lg 3: mix of profile even needs one from 4 to 31"),
        (6, Profile::Bits, "lg 6: mix of profile bits needs one from 7 to 31"),
        (0, Profile::Bits, "lg 0: mix of profile bits needs one from 7 to 31"),
        (32, Profile::Even, "lg 32: mix of profile even needs one from 4 to 31"),
    ] {
        assert_eq!(MixShape::new(lg, profile).unwrap_err().to_string(), text);
    }
    let error = "odd".parse::<Profile>().unwrap_err().to_string();
    assert_eq!(error, "no profile named `odd`; there are: even, bits");
    assert_eq!("bits".parse::<Profile>().unwrap(), Profile::Bits);
}
