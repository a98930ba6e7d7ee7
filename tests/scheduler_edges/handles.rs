//! Jobs that nobody waits for any more.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use twinlock::groth16::prover::PartitionInput;
use twinlock::{Error, Job, Prover, Result};

use crate::support::{
    Gate, Source, card, done, gate, inputs, partition, prover, recorder, rng, shape,
};

fn with_one_worker() -> Prover {
    prover(&card(1 << 30), |options| options.workers = 1)
}

/// Inputs of which the first that is synthesised waits at the gate, so that whoever drops the job
/// does so before any of them is proved.
fn gated(count: usize, rng: &mut rand_chacha::ChaCha20Rng) -> (Gate, Vec<PartitionInput<'static>>) {
    let (gate, wait) = gate();
    let waiting = partition(move || {
        wait();
        Err(Error::Cancelled)
    });
    let mut partitions = vec![waiting];
    partitions.extend(inputs(shape(5), count, rng));
    (gate, partitions)
}

/// Whoever stops at the first error, as with `collect`, gets it before the rest is proved, and the
/// rest is not proved.
#[test]
fn an_error_that_ends_a_collect_cancels_the_rest() {
    let mut rng = rng();
    let source = Source::new(5, &mut rng);
    let prover = with_one_worker();
    let recorder = recorder(&prover);
    let key = prover.key(&source).unwrap();
    let (gate, mut partitions) = gated(8, &mut rng);
    partitions.insert(0, partition(|| panic!("a circuit panics, for a test")));
    let error = prover.serve(|session| {
        let job = session.submit(Job { key: &key, priority: 0, partitions }).unwrap();
        let error = job.collect::<Result<Vec<_>>>().unwrap_err();
        drop(gate);
        error
    });
    assert!(error.to_string().contains("panicked"), "{error}");
    assert_eq!(done(&recorder), 0, "proved for nobody");
}

/// A session whose user panics ends without proving what is still queued.
#[test]
fn a_panicking_user_cancels_what_is_queued() {
    let mut rng = rng();
    let source = Source::new(5, &mut rng);
    let prover = with_one_worker();
    let recorder = recorder(&prover);
    let key = prover.key(&source).unwrap();
    let (gate, partitions) = gated(8, &mut rng);
    let served = catch_unwind(AssertUnwindSafe(|| {
        prover.serve(|session| {
            // Dropped after the job.
            let _gate = gate;
            let _job = session.submit(Job { key: &key, priority: 0, partitions }).unwrap();
            panic!("the user panics, for a test");
        })
    }));
    assert!(served.is_err());
    assert_eq!(done(&recorder), 0, "proved for nobody");
}

/// Partitions of dropped handles, and the secrets that their circuits hold, do not outlive them in
/// a session that goes on.
#[test]
fn dropped_handles_do_not_pile_up() {
    let mut rng = rng();
    let source = Source::new(5, &mut rng);
    let prover = with_one_worker();
    let key = prover.key(&source).unwrap();
    let secret = Arc::new(());
    let left = prover.serve(|session| {
        let submit =
            |partitions| session.submit(Job { key: &key, priority: 0, partitions }).unwrap();
        for _ in 0..50 {
            let held = secret.clone();
            drop(submit(vec![partition(move || {
                let _held = &held;
                Err(Error::Cancelled)
            })]));
        }
        // One after the other: before the second the worker has looked back at all others.
        for _ in 0..2 {
            submit(inputs(shape(5), 1, &mut rng)).wait().pop().unwrap().unwrap();
        }
        Arc::strong_count(&secret) - 1
    });
    assert_eq!(left, 0);
}
