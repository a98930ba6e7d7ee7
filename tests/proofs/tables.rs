//! Proofs by tables of multiples of a key's points, on the naive device, which has them.

use std::sync::Arc;

use bellpepper_core::Circuit;
use blstrs::Scalar;
use ff::Field;
use rand_chacha::ChaCha20Rng;
use twinlock::circuits::mix::{Mix, MixShape, Profile};
use twinlock::groth16::params::{ParameterFile, Query};
use twinlock::groth16::prover::variant::{
    AssignmentUpload, NttBuffers, QuerySet, Variant, Windows,
};
use twinlock::{Error, Prover, ProverOptions};
use twinlock_api::{Device, MemoryClass};
use twinlock_conformance::reference::Reference;

use crate::odd::Odd;
use crate::{Known, key_of, known, prover, rng};

/// Another process takes memory once the prover is open: what a load brings is what proofs read.
#[test]
fn tables_that_find_less_memory_are_loaded_once() {
    let mut rng = rng();
    let circuit = Mix::random(MixShape::new(7, Profile::Bits).unwrap(), &mut rng);
    let (_, bytes) = key_of(circuit.clone(), &mut rng);
    let file = ParameterFile::from_source("key", bytes).unwrap();
    const MEMORY_BYTES: u64 = 1 << 20;
    let mut kept = Vec::new();
    for taken in (0..48).map(|parts| MEMORY_BYTES / 48 * parts) {
        let device = Arc::new(Reference::new(MEMORY_BYTES));
        let mut options = ProverOptions::default();
        (options.base_tables, options.workers) = (8, 4);
        let prover = Prover::with_devices(vec![device.clone()], options).unwrap();
        if taken > 0 {
            device.allocate("another's", MemoryClass::Work, taken).unwrap();
        }
        // Of too little memory a load says so.
        let Ok(key) = prover.load(&file) else { continue };
        let loaded = prover.memory_usage()[0].resident_bytes;
        let proof = prover.create_proof(circuit.clone(), &key, Scalar::ONE, Scalar::ONE);
        assert!(proof.is_ok(), "{taken} bytes taken: {proof:?}");
        assert_eq!(prover.memory_usage()[0].resident_bytes, loaded, "{taken} bytes taken");
        kept.push(loaded);
    }
    kept.dedup();
    assert!(kept.len() > 2 && kept.is_sorted_by(|more, less| more >= less), "{kept:?}");
}

/// On a device that has tables of bases.
pub fn with_tables(base_tables: u32, memory_bytes: Option<u64>) -> Prover {
    let mut options = ProverOptions::default();
    (options.base_tables, options.memory_bytes) = (base_tables, memory_bytes);
    let device = Arc::new(Reference::new(1 << 30));
    Prover::with_devices(vec![device], options).unwrap()
}

/// Tables of multiples, as many as are asked for or as there is room for; where the device has none,
/// the points alone.
#[test]
fn tables_of_bases_give_the_same_proof() {
    let mut rng = rng();
    let mix = Mix::random(MixShape::new(7, Profile::Bits).unwrap(), &mut rng);
    assert!(tables_give_bellpersons_proof(mix, &mut rng) > LARGE_KEY);
    tables_give_bellpersons_proof(Odd::Rows(40), &mut rng);
    tables_give_bellpersons_proof(Odd::OneSided, &mut rng);
}

/// In a smaller key the fewer windows weigh more than the tables.
const LARGE_KEY: u64 = 1 << 14;

/// Bytes of the key alone.
fn tables_give_bellpersons_proof<C>(circuit: C, rng: &mut ChaCha20Rng) -> u64
where
    C: Circuit<Scalar> + Clone + Send,
{
    let Known { file, assignment, factors: (r, s), expected } = known(circuit, rng);
    let kept = |base_tables, memory_bytes| {
        let prover = with_tables(base_tables, memory_bytes);
        let key = prover.load(&file).unwrap();
        for _ in 0..2 {
            let proved = prover.prove(&key, &assignment, r, s).unwrap();
            assert!(proved.failed_attempts.is_empty());
            assert_eq!(proved.proof.to_bytes()[..], expected, "{base_tables} tables");
        }
        let usage = prover.memory_usage().pop().unwrap();
        (usage.resident_bytes, usage.reserved_bytes)
    };
    let (alone, _) = kept(1, None);
    let bytes: Vec<u64> = [2, 5, 31, 128].map(|tables| kept(tables, None).0).to_vec();
    // Of 32 digits, 31 tables would leave two windows, which 16 have as well.
    let rounded = |tables: u64| (alone * tables).saturating_sub(5 * 256 * tables)..=alone * tables;
    for (bytes, tables) in bytes.iter().zip([2, 5, 16, 32]) {
        assert!(rounded(tables).contains(bytes), "{tables} tables: {bytes} bytes, {alone} alone");
    }
    // With room for some, those.
    if alone > LARGE_KEY {
        let (all, reserved) = kept(8, None);
        let limit = reserved - alone;
        let (some, reserved) = kept(8, Some(limit));
        assert!(alone < some && some < all && reserved <= limit, "{alone} {some} {all}");
    }

    // Two keys, of which one is put out for the other, and a forced layout.
    let both = with_tables(8, Some(kept(8, None).1 * 3 / 2));
    let keys = [both.load(&file).unwrap(), both.load(&file).unwrap()];
    for key in keys.iter().chain(&keys) {
        let proof = both.prove(key, &assignment, r, s).unwrap().proof;
        assert_eq!(proof.to_bytes()[..], expected);
    }
    for (resident, works) in [(QuerySet::ALL, true), (QuerySet::NONE.with(Query::H), false)] {
        let mut options = ProverOptions::default();
        options.variant = Some(Variant {
            chunk: 1 << 10,
            bases_chunk: 1 << 10,
            windows: Windows::Fixed(5),
            resident,
            tables: 7,
            ntt_buffers: NttBuffers::Two,
            assignment: AssignmentUpload::Late,
            ahead: true,
        });
        let device = Arc::new(Reference::new(1 << 30));
        let forced = Prover::with_devices(vec![device], options).unwrap();
        let proof =
            forced.load(&file).and_then(|key| Ok(forced.prove(&key, &assignment, r, s)?.proof));
        match works {
            true => assert_eq!(proof.unwrap().to_bytes()[..], expected),
            false => assert!(matches!(proof, Err(Error::Device { .. })), "{proof:?}"),
        }
    }

    let prover = prover(|options| options.base_tables = 8);
    let key = prover.load(&file).unwrap();
    let proof = prover.prove(&key, &assignment, r, s).unwrap().proof;
    assert_eq!(proof.to_bytes()[..], expected);
    alone
}
