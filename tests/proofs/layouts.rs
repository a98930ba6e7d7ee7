//! Ways to lay a proof out in device memory, of which none changes it.

use bellpepper_core::Circuit;
use blstrs::Scalar;
use rand::RngCore;
use rand_chacha::ChaCha20Rng;
use twinlock::circuits::mix::{Mix, MixShape, Profile};
use twinlock::groth16::params::Query;
use twinlock::groth16::prover::shape::ProofShape;
use twinlock::groth16::prover::variant::{
    AssignmentUpload, NttBuffers, QuerySet, Variant, Windows,
};
use twinlock::scheduler::plan::{self, Limits, Residents};

use crate::odd::Odd;
use crate::{Known, known, prover, rng};

/// Two or three NTT buffers, early or late uploads, any query resident, pieces of any size.
#[test]
fn every_layout_gives_the_same_proof() {
    let mut rng = rng();
    let mix = Mix::random(MixShape::new(7, Profile::Bits).unwrap(), &mut rng);
    every_layout_gives_bellpersons_proof(mix, &mut rng);
    // Some inputs are in A only, and the query of A is as long as the variables.
    every_layout_gives_bellpersons_proof(Odd::Rows(40), &mut rng);
    every_layout_gives_bellpersons_proof(Odd::OneSided, &mut rng);
}

fn every_layout_gives_bellpersons_proof<C>(circuit: C, rng: &mut ChaCha20Rng)
where
    C: Circuit<Scalar> + Clone + Send,
{
    let Known { file, assignment, factors: (r, s), expected } = known(circuit, rng);
    let mut tried = 0;
    for ntt_buffers in [NttBuffers::Two, NttBuffers::Three] {
        for upload in [AssignmentUpload::Prestage, AssignmentUpload::Late] {
            for (chunk, bases_chunk) in [(1000, 1000), (1000, 31), (50, 50), (50, 7), (33, 1)] {
                for windows in [Windows::Fixed(5), Windows::OfChunk, Windows::OfQuery] {
                    // Each query resident in half of the cases, whatever the rest of them is.
                    let bits = rng.next_u32();
                    let chosen = Query::ALL.into_iter().filter(|q| bits >> *q as u32 & 1 == 1);
                    let resident = chosen.collect();
                    for ahead in [false, true] {
                        let variant = Variant {
                            chunk,
                            bases_chunk,
                            windows,
                            resident,
                            tables: 1,
                            ntt_buffers,
                            assignment: upload,
                            ahead,
                        };
                        let prover = prover(|options| options.variant = Some(variant));
                        let key = prover.load(&file).unwrap();
                        let proof = prover.prove(&key, &assignment, r, s).unwrap().proof;
                        assert_eq!(proof.to_bytes()[..], expected, "{variant:?}");
                        tried += 1;
                    }
                }
            }
        }
    }
    println!("{tried} layouts");
}

/// Budgets from just enough up: each gives the same proof, or the numbers.
#[test]
fn small_budgets_give_the_same_proof_by_a_smaller_plan() {
    let mut rng = rng();
    let circuit = Mix::random(MixShape::new(10, Profile::Bits).unwrap(), &mut rng);
    let Known { file, assignment, factors: (r, s), expected } = known(circuit, &mut rng);
    let shape = ProofShape::of(&assignment).unwrap();
    let open = twinlock_api::OpenOptions { threads: Some(2) };
    let device = twinlock::registry::open("cpu", &open).unwrap();
    let limits = Limits { residents: Residents::Loaded(QuerySet::NONE), ..Limits::new(0) };
    let least = plan::smallest(&*device, shape, &limits).unwrap();
    let of_budget = |budget| {
        prover(|options| {
            options.threads = Some(2);
            options.memory_bytes = Some(budget);
        })
    };
    let mut layouts = Vec::new();
    for percent in [100, 105, 120, 150, 200, 400] {
        let budget = least.peak_bytes() * percent / 100;
        let limits = Limits { residents: Residents::Loaded(QuerySet::NONE), ..Limits::new(budget) };
        let found = plan::best(&*device, shape, &limits).unwrap();
        assert!(found.peak_bytes() <= budget, "{percent}%");
        layouts.push(found.variant);
        let prover = of_budget(budget);
        let key = prover.key(&file).unwrap();
        let proof = prover.prove(&key, &assignment, r, s).unwrap().proof;
        assert_eq!(proof.to_bytes()[..], expected, "{percent}%");
    }
    assert_ne!(layouts.first(), layouts.last());

    let prover = of_budget(least.peak_bytes() - 256);
    let key = prover.key(&file).unwrap();
    let error = prover.prove(&key, &assignment, r, s).unwrap_err().to_string();
    for word in ["256 short", "stage h holds", "exceeds the device's limit"] {
        assert!(error.contains(word), "no {word:?} in {error}");
    }
}
