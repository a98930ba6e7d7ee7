//! Sapling's circuits: their statistics, and the ways to synthesise them.

use blstrs::Scalar;
use twinlock::circuits::sapling::Sapling;
use twinlock::circuits::{CircuitEntry, KeySource};
use twinlock::groth16::assignment::{Assignment, synthesize};
use twinlock::groth16::params::Query;

use crate::fresh_rng;
use crate::oracle::Oracle;

struct Expected {
    circuit: Sapling,
    own_constraints: usize,
    inputs: usize,
    witness: usize,
    lg_domain: u32,
    /// h, l, a, b_g1, b_g2
    queries: [usize; 5],
    /// Witness values equal to 0, equal to 1, and of more than 64 bits, in per cent.
    values: [f64; 3],
}

const EXPECTED: [Expected; 2] = [
    Expected {
        circuit: Sapling::Spend,
        own_constraints: 98_777,
        inputs: 8,
        witness: 98_638,
        lg_domain: 17,
        queries: [131_071, 98_638, 85_390, 61_300, 61_300],
        values: [37.7, 33.2, 29.1],
    },
    Expected {
        circuit: Sapling::Output,
        own_constraints: 7_827,
        inputs: 6,
        witness: 7_821,
        lg_domain: 13,
        queries: [8_191, 7_821, 6_298, 4_850, 4_850],
        values: [23.7, 13.4, 62.9],
    },
];

#[test]
fn statistics_are_the_production_circuits() {
    let mut rng = fresh_rng();
    for expected in EXPECTED {
        let assignment = expected.circuit.synthesize(&mut rng).unwrap();
        assert_eq!(assignment.own_constraints(), expected.own_constraints);
        assert_eq!(assignment.num_constraints(), expected.own_constraints + expected.inputs);
        assert_eq!(assignment.instance.len(), expected.inputs);
        assert_eq!(assignment.witness.len(), expected.witness);
        assert_eq!(assignment.lg_domain(), expected.lg_domain);
        let KeySource::Production(key) = expected.circuit.parameters().unwrap() else {
            panic!("{:?} has a production key", expected.circuit);
        };
        assert_eq!(Query::ALL.map(|query| key.query_len(query)), expected.queries);
        assert_eq!(key.verifying_key().ic.len(), expected.inputs);
        let a = expected.inputs + assignment.a_witness_density.count();
        let b = assignment.b_input_density.count() + assignment.b_witness_density.count();
        assert_eq!([assignment.domain() - 1, assignment.witness.len(), a, b, b], expected.queries);
    }
}

/// The share of a random witness varies a little from one to the next.
#[test]
fn witnesses_have_the_described_values() {
    let mut rng = fresh_rng();
    for expected in EXPECTED {
        let assignment = expected.circuit.synthesize(&mut rng).unwrap();
        let share = |wanted: &dyn Fn(&Scalar) -> bool| {
            let count = assignment.witness.iter().filter(|value| wanted(value)).count();
            100.0 * count as f64 / assignment.witness.len() as f64
        };
        let found = [
            share(&|value| *value == Scalar::from(0)),
            share(&|value| *value == Scalar::from(1)),
            share(&|value| value.to_bytes_le()[8..].iter().any(|byte| *byte != 0)),
        ];
        for (found, expected) in found.iter().zip(expected.values) {
            assert!((found - expected).abs() < 2.0, "{found}% instead of {expected}%");
        }
    }
}

#[test]
fn random_witnesses_are_valid_and_differ() {
    let mut rng = fresh_rng();
    for expected in EXPECTED {
        let assignments: Vec<Assignment> =
            (0..3).map(|_| expected.circuit.synthesize(&mut rng).unwrap()).collect();
        for assignment in &assignments {
            assert_eq!(assignment.first_unsatisfied(), None);
        }
        assert_ne!(assignments[0].public_inputs(), assignments[1].public_inputs());
        assert_ne!(assignments[1].public_inputs(), assignments[2].public_inputs());
    }
}

/// The rows recorded from one witness serve the next.
#[test]
fn evaluation_equals_replay_and_the_oracle() {
    let mut rng = fresh_rng();
    for expected in EXPECTED {
        for _ in 0..2 {
            let recorded = expected.circuit.random(&mut rng).unwrap();
            let evaluated = recorded.assignment().unwrap();
            Oracle::synthesize(recorded.clone()).assert_equals(&evaluated);
            assert!(synthesize(recorded).unwrap() == evaluated);
        }
    }
}

#[test]
fn a_changed_witness_is_unsatisfied() {
    let mut assignment = Sapling::Output.synthesize(&mut fresh_rng()).unwrap();
    assignment.a[4_000] += Scalar::from(1);
    assignment.b[4_000] += Scalar::from(1);
    assert_eq!(assignment.first_unsatisfied(), Some(4_000));
}

#[test]
fn debug_prints_counts() {
    let recorded = Sapling::Output.random(&mut fresh_rng()).unwrap();
    assert_eq!(
        format!("{recorded:?}"),
        "Recorded { own_constraints: 7827, inputs: 6, witness: 7821, .. }"
    );
}
