//! The CPU in the place of a card, where the choice of the card was the prover's.

use twinlock::{Error, Job};
use twinlock_sim::Fault;

use crate::support::{
    Source, card, done, inputs, prove_one, prover, recorder, rng, shape, until, without_hanging,
};

/// While the CPU repeats a failed partition, the card serves the others, with all its memory.
#[test]
fn a_fallback_holds_nothing_of_the_card() {
    let mut rng = rng();
    let source = Source::new(8, &mut rng);
    let card = card(1 << 30);
    let prover = prover(&card, |options| options.device = "auto".into());
    let key = prover.load(&source).unwrap();
    let recorder = recorder(&prover);
    // What is loaded is not read again, but by the CPU, which streams.
    let gate = source.shut();
    card.inject(Fault::KernelFailed { op: card.counts().ops + 30 });
    let partitions = inputs(shape(8), 4, &mut rng);
    let outcomes = prover.serve(|session| {
        let job = session.submit(Job { key: &key, priority: 0, partitions }).unwrap();
        source.await_stop();
        until(|| done(&recorder) == 3, "the others wait for the fallback");
        assert_eq!(prover.memory_usage()[0].held_bytes, 0);
        drop(gate);
        job.wait()
    });
    let mut devices: Vec<_> = outcomes.into_iter().map(|proved| proved.unwrap().device).collect();
    devices.sort();
    assert_eq!(devices, ["cpu", "sim:0", "sim:0", "sim:0"]);
}

/// A cancelled partition stops within a stage, on the CPU that repeats it as on its card.
#[test]
fn a_fallback_can_be_cancelled() {
    let mut rng = rng();
    let source = Source::new(8, &mut rng);
    let card = card(1 << 30);
    let prover = prover(&card, |options| {
        options.device = "auto".into();
        options.workers = 1;
    });
    let key = prover.load(&source).unwrap();
    let gate = source.shut();
    card.inject(Fault::KernelFailed { op: card.counts().ops + 30 });
    let partitions = inputs(shape(8), 1, &mut rng);
    source.times_read();
    let outcomes = prover.serve(|session| {
        let job = session.submit(Job { key: &key, priority: 0, partitions }).unwrap();
        source.await_stop();
        job.cancel();
        drop(gate);
        job.wait()
    });
    assert!(matches!(outcomes[..], [Err(Error::Cancelled)]), "{outcomes:?}");
    let read = source.times_read();
    assert!(read.contains(&0), "the fallback went on to its end: {read:?}");
}

/// `auto` proves on the CPU what has no room on the card, and after the card has gone for good.
#[test]
fn auto_is_helped_when_the_card_is_too_small_or_gone() {
    without_hanging(|| {
        let mut rng = rng();
        let source = Source::new(8, &mut rng);
        let on = |card: &_, memory_bytes| {
            prover(card, |options| {
                options.device = "auto".into();
                options.memory_bytes = memory_bytes;
            })
        };
        let small = on(&card(1 << 30), Some(1 << 14));
        let key = small.key(&source).unwrap();
        assert_eq!(prove_one(&small, &key, 8, &mut rng).unwrap().device, "cpu");

        let card = card(1 << 30);
        let gone = on(&card, None);
        card.inject(Fault::LostAtOp { op: card.counts().ops + 30 });
        card.inject(Fault::OpenFails { count: 1 });
        let key = gone.key(&source).unwrap();
        for _ in 0..2 {
            assert_eq!(prove_one(&gone, &key, 8, &mut rng).unwrap().device, "cpu");
        }
        assert_eq!(card.losses(), 1);
    });
}
