//! Panics in code of the prover's users: none hangs a session or spoils it for others.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use twinlock::groth16::prover::Opener;
use twinlock::scheduler::events::{EventKind, EventSink, Life, TimedEvent};
use twinlock::{Job, Prover, ProverOptions};
use twinlock_api::Error as DeviceError;
use twinlock_sim::Fault;

use crate::support::{
    Source, card, device_error, inputs, opener, prove_one, prover, rng, shape, without_hanging,
};

/// The error of a partition whose parameter source panicked says so, and the next one is proved.
#[test]
fn a_panicking_source_is_named() {
    let mut rng = rng();
    let source = Source::new(5, &mut rng);
    let card = card(1 << 30);
    let prover = prover(&card, |_| ());
    let key = prover.key(&source).unwrap();
    source.panics.store(true, Ordering::SeqCst);
    let error = prove_one(&prover, &key, 5, &mut rng).unwrap_err();
    assert!(error.to_string().contains("panicked"), "{error}");
    source.panics.store(false, Ordering::SeqCst);
    prove_one(&prover, &key, 5, &mut rng).unwrap();
}

/// A card whose opener panics stays lost; partitions end with that error.
#[test]
fn a_panicking_opener_does_not_hang() {
    without_hanging(|| {
        let mut rng = rng();
        let source = Source::new(5, &mut rng);
        let card = card(1 << 30);
        let (open, times) = (opener(&card), AtomicUsize::new(0));
        let open: Opener = Arc::new(move || {
            assert_eq!(times.fetch_add(1, Ordering::SeqCst), 0, "the opener panics, for a test");
            open()
        });
        let mut options = ProverOptions::default();
        options.device = "sim:0".into();
        let prover = Prover::with_openers(vec![open], options).unwrap();
        let key = prover.key(&source).unwrap();
        card.inject(Fault::LostAtOp { op: card.counts().ops + 10 });
        let partitions = inputs(shape(5), 3, &mut rng);
        let outcomes = prover.serve(|session| {
            session.submit(Job { key: &key, priority: 0, partitions }).unwrap().wait()
        });
        assert_eq!(outcomes.len(), 3);
        for outcome in outcomes {
            let error = device_error(outcome);
            assert!(matches!(error, DeviceError::DeviceLost { .. }), "{error}");
        }
    });
}

/// Panics at the first start of a partition.
struct Panics(AtomicBool);

impl EventSink for Panics {
    fn take(&self, event: &TimedEvent) {
        let starts = matches!(event.kind, EventKind::Partition(_, Life::Started));
        assert!(!starts || self.0.swap(true, Ordering::SeqCst), "a sink panics, for a test");
    }
}

/// A panic of who watches is not the partition's.
#[test]
fn a_panicking_sink_costs_no_proof() {
    without_hanging(|| {
        let mut rng = rng();
        let source = Source::new(5, &mut rng);
        let card = card(1 << 30);
        let prover = prover(&card, |_| ());
        let key = prover.key(&source).unwrap();
        let sink = Arc::new(Panics(AtomicBool::new(false)));
        prover.observe(sink.clone());
        let partitions = inputs(shape(5), 2, &mut rng);
        let outcomes = prover.serve(|session| {
            session.submit(Job { key: &key, priority: 0, partitions }).unwrap().wait()
        });
        assert!(sink.0.load(Ordering::SeqCst));
        assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
    });
}
