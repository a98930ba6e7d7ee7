use bellpepper_core::Index;
use blstrs::Scalar;
use twinlock::Error;
use twinlock::groth16::assignment::{synthesize, synthesize_batch};

use crate::fresh_rng;
use crate::odd::{Empty, Marked, Parts, Random, Squares, Stray, Unconstrained};
use crate::oracle::Oracle;

#[test]
fn random_circuits_equal_the_oracle() {
    let mut rng = fresh_rng();
    for round in 0..200 {
        let circuit = Random::new(&mut rng, round % 5, round % 70, round % 40);
        let assignment = synthesize(circuit.clone()).unwrap();
        Oracle::synthesize(circuit).assert_equals(&assignment);
        assert_eq!(assignment.first_unsatisfied(), None);
    }
}

#[test]
fn a_circuit_of_nothing_is_one_row_for_one() {
    let assignment = synthesize(Empty).unwrap();
    Oracle::synthesize(Empty).assert_equals(&assignment);
    assert_eq!((assignment.num_constraints(), assignment.own_constraints()), (1, 0));
    assert_eq!((assignment.domain(), assignment.lg_domain()), (1, 0));
    assert!(assignment.public_inputs().is_empty());
    assert!(assignment.is_satisfied());
}

#[test]
fn domains_round_up() {
    for (rows, domain) in [(0, 1), (1, 2), (3, 4), (4, 8), (7, 8), (8, 16)] {
        let assignment = synthesize(Squares { rows, wrong: None }).unwrap();
        assert_eq!((assignment.num_constraints(), assignment.domain()), (rows + 1, domain));
        assert_eq!(1 << assignment.lg_domain(), domain);
    }
}

#[test]
fn the_first_unsatisfied_row_is_found() {
    for wrong in [0, 1, 999] {
        let assignment = synthesize(Squares { rows: 1000, wrong: Some(wrong) }).unwrap();
        assert_eq!(assignment.first_unsatisfied(), Some(wrong));
        assert!(!assignment.is_satisfied());
    }
}

#[test]
fn unallocated_variables_are_an_error_that_names_them() {
    for (index, text) in [
        (Index::Input(7), "circuit: a constraint names input 7, but there are 1"),
        (Index::Aux(usize::MAX), &format!("witness variable {}, but there are 1", usize::MAX)),
    ] {
        let error = synthesize(Stray(index)).unwrap_err().to_string();
        assert!(error.contains(text), "{error}");
    }
}

#[test]
fn unconstrained_variables_are_in_no_density() {
    let assignment = synthesize(Unconstrained).unwrap();
    Oracle::synthesize(Unconstrained).assert_equals(&assignment);
    assert!(!assignment.a_witness_density.contains(0));
    assert!(!assignment.b_witness_density.contains(0));
    assert_eq!(assignment.a_witness_density.count(), 1);
}

#[test]
fn parts_synthesised_apart_equal_the_whole() {
    for parts in 0..70 {
        let whole = synthesize(Parts { parts, apart: false }).unwrap();
        let apart = synthesize(Parts { parts, apart: true }).unwrap();
        assert!(whole == apart, "{parts} parts: {whole:?}, {apart:?}");
        Oracle::synthesize(Parts { parts, apart: false }).assert_equals(&apart);
    }
}

#[test]
fn a_batch_keeps_its_order() {
    let mut rng = fresh_rng();
    let circuit = Random::new(&mut rng, 2, 9, 30);
    let circuits: Vec<_> = (0..9).map(|_| circuit.clone()).collect();
    let single = synthesize(circuit).unwrap();
    let batch = synthesize_batch(circuits).unwrap();
    assert_eq!(batch.len(), 9);
    assert!(batch.iter().all(|assignment| *assignment == single));

    let batch = synthesize_batch([3, 1, 2].map(Marked).to_vec()).unwrap();
    let values: Vec<_> = batch.iter().map(|assignment| assignment.instance[1]).collect();
    assert_eq!(values, [3, 1, 2].map(Scalar::from));
}

#[test]
fn a_batch_of_none_is_empty_and_unequal_shapes_name_both_numbers() {
    assert!(synthesize_batch(Vec::<Empty>::new()).unwrap().is_empty());
    let batch = [8, 8, 9].map(|rows| Squares { rows, wrong: None }).to_vec();
    match synthesize_batch(batch).unwrap_err() {
        Error::Shape { what, expected: 9, found: 10 } => {
            assert_eq!(what, "constraints of circuit 2")
        }
        other => panic!("{other}"),
    }
}

#[test]
fn debug_prints_no_value() {
    let assignment = synthesize(Squares { rows: 4, wrong: None }).unwrap();
    assert_eq!(
        format!("{assignment:?}"),
        "Assignment { constraints: 5, inputs: 1, witness: 2, a_witness_density: 1, \
         b_input_density: 0, b_witness_density: 1, .. }"
    );
}
