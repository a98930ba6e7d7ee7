//! Memory that is short, comes back, or is asked for in one layout only.

use std::time::Duration;

use blstrs::Scalar;
use ff::Field;
use twinlock::circuits::mix::{Mix, MixShape, Profile};
use twinlock::groth16::prover::variant::{
    AssignmentUpload, NttBuffers, QuerySet, Variant, Windows,
};
use twinlock::scheduler::events::{EventKind, Life};
use twinlock::{Job, Prover};
use twinlock_api::Error as DeviceError;
use twinlock_sim::Fault;

use crate::support::{
    Source, card, device_error, inputs, prove, prove_one, prover, recorder, rng, take,
    without_hanging,
};

/// What the driver had not a moment ago is asked for again where there is no plan without it.
#[test]
fn memory_that_comes_back_is_used_by_the_next_proof() {
    let mut rng = rng();
    let source = Source::new(7, &mut rng);
    let card = card(1 << 30);
    let prover = prover(&card, |_| ());
    let now = card.clock().now();
    let until = now + Duration::from_secs(1000);
    card.inject(Fault::OtherProcess { from: now, until, bytes: 1 << 30 });
    let key = prover.key(&source).unwrap();
    let error = device_error(prove_one(&prover, &key, 7, &mut rng));
    assert!(matches!(error, DeviceError::OutOfMemory { .. }), "{error}");
    card.clock().advance(Duration::from_secs(2000));
    assert_eq!(prove_one(&prover, &key, 7, &mut rng).unwrap().device, "sim:0");
}

/// The first proof that finds no memory is made by the CPU, and so is each that follows.
#[test]
fn auto_without_memory_falls_back_every_time() {
    let mut rng = rng();
    let source = Source::new(7, &mut rng);
    let card = card(1 << 30);
    let prover = prover(&card, |options| options.device = "auto".into());
    take(&card, 1 << 30);
    let key = prover.key(&source).unwrap();
    for _ in 0..3 {
        assert_eq!(prove_one(&prover, &key, 7, &mut rng).unwrap().device, "cpu");
    }
}

/// A budget that a plan fits in is enough, to the last unit of the device's alignment, and so is
/// each that is larger.
#[test]
fn a_larger_budget_never_loads_less() {
    let mut rng = rng();
    let source = Source::new(4, &mut rng);
    let card = card(1 << 30);
    let loads = |budget: u64| {
        let prover = prover(&card, |options| {
            options.memory_bytes = Some(budget);
            options.msm_chunk = None;
        });
        prover.load(&source).map(drop)
    };
    let needed = match device_error(loads(1 << 10)) {
        DeviceError::ExceedsLimit { requested, .. } => requested,
        error => panic!("{error}"),
    };
    let least = (0..8).map(|step| needed + step * 256).find(|budget| loads(*budget).is_ok());
    let least = least.unwrap_or_else(|| panic!("{needed} are said to be enough"));
    for budget in (1..25).map(|step| least + step * 256) {
        loads(budget).unwrap_or_else(|error| panic!("{budget}, when {least} is enough: {error}"));
    }
}

fn fixed() -> Variant {
    Variant {
        chunk: 1 << 7,
        bases_chunk: 1 << 7,
        windows: Windows::OfChunk,
        resident: QuerySet::NONE,
        tables: 1,
        ntt_buffers: NttBuffers::Three,
        assignment: AssignmentUpload::Prestage,
        ahead: false,
    }
}

/// A layout that the user fixed is refused with the numbers where the budget is too small for it.
#[test]
fn a_fixed_layout_beyond_the_budget_is_refused() {
    without_hanging(|| {
        let mut rng = rng();
        let source = Source::new(7, &mut rng);
        let card = card(1 << 30);
        let prover = prover(&card, |options| {
            options.variant = Some(fixed());
            options.memory_bytes = Some(1 << 14);
        });
        let key = prover.key(&source).unwrap();
        let error = device_error(prove_one(&prover, &key, 7, &mut rng));
        let is_refused =
            matches!(error, DeviceError::ExceedsLimit { limit, .. } if limit <= 1 << 14);
        assert!(is_refused, "{error}");
    });
}

/// Where the driver has not what a fixed layout takes, there is no smaller plan to try: its answer
/// is the error, at once.
#[test]
fn a_fixed_layout_without_memory_is_refused() {
    without_hanging(|| {
        let mut rng = rng();
        let source = Source::new(7, &mut rng);
        let card = card(1 << 30);
        let prover = prover(&card, |options| options.variant = Some(fixed()));
        take(&card, 1 << 30);
        let key = prover.key(&source).unwrap();
        let error = device_error(prove_one(&prover, &key, 7, &mut rng));
        assert!(matches!(error, DeviceError::OutOfMemory { .. }), "{error}");
    });
}

/// Partitions of two keys, in turn, where the memories have to be made anew for each: all that
/// either key alone has room for is proved.
#[test]
fn two_keys_take_turns_in_memories_for_one() {
    let mut rng = rng();
    let shapes = [(8, Profile::Even), (10, Profile::Bits)]
        .map(|(lg, profile)| MixShape::new(lg, profile).unwrap());
    let sources = shapes.map(|shape| Source::of(shape, &mut rng));
    let card = card(1 << 30);
    let budgeted = |budget: u64, chunk| {
        prover(&card, |options| {
            options.memory_bytes = Some(budget);
            options.workers = 3;
            options.msm_chunk = chunk;
        })
    };
    let (mut made, mut sessions) = (0, 0);
    for (stays, chunk) in [(false, None), (false, Some(1 << 8)), (true, None)] {
        let key = |prover: &Prover, source| {
            if stays { prover.load(source) } else { prover.key(source) }
        };
        let mut fits_alone = |budget: u64| {
            let prover = budgeted(budget, chunk);
            shapes.iter().zip(&sources).all(|(shape, source)| {
                key(&prover, source).is_ok_and(|key| {
                    let assignment = Mix::random(*shape, &mut rng).assignment().unwrap();
                    prover.prove(&key, &assignment, Scalar::ONE, Scalar::ONE).is_ok()
                })
            })
        };
        let least = (1..400).map(|step| step << 15).find(|budget| fits_alone(*budget)).unwrap();
        for budget in (0..3).map(|step| least + (step << 14)) {
            let prover = budgeted(budget, chunk);
            let keys = [0, 1].map(|which| key(&prover, &sources[which]).unwrap());
            let before = card.counts().allocations;
            let outcomes = prover.serve(|session| {
                let submit = |at: usize| {
                    let partitions = inputs(shapes[at % 2], 1, &mut rng);
                    session.submit(Job { key: &keys[at % 2], priority: 0, partitions }).unwrap()
                };
                let jobs: Vec<_> = (0..12).map(submit).collect();
                jobs.into_iter().flatten().collect::<Vec<_>>()
            });
            // Two memories each time.
            made += (card.counts().allocations - before) / 2;
            sessions += 1;
            for outcome in outcomes {
                outcome.unwrap_or_else(|error| panic!("{budget}, least {least}: {error}"));
            }
        }
    }
    assert!(made > 2 * sessions, "made {made} times in {sessions} sessions: no turns");
    assert_eq!(card.races(), []);
}

/// Between the memory of one partition and that of two, all is used: what is left over after the
/// one in `compute` takes the start of the next.
#[test]
fn room_for_an_overlap_is_used() {
    let mut rng = rng();
    let source = Source::new(8, &mut rng);
    let card = card(1 << 30);
    // Bytes that are taken, and prestages that had no room at all.
    let mut outcome_of = |workers: usize, budget: Option<u64>| {
        let prover = prover(&card, |options| {
            options.memory_bytes = budget;
            options.workers = workers;
            options.msm_chunk = Some(1 << 5);
            options.window_bits = Some(4);
        });
        let recorder = recorder(&prover);
        let key = prover.load(&source).unwrap();
        for outcome in prove(&prover, &key, (8, 4), &mut rng) {
            outcome.unwrap();
        }
        let is_deferred =
            |kind: &EventKind| matches!(kind, EventKind::Partition(_, Life::PrestageDeferred(_)));
        let deferred = recorder.events().iter().filter(|event| is_deferred(&event.kind)).count();
        (prover.memory_usage()[0].reserved_bytes, deferred)
    };
    let (one, _) = outcome_of(1, None);
    let (two, deferred) = outcome_of(2, None);
    assert_eq!(deferred, 0);
    for tenths in [2, 5, 9] {
        let budget = one + (two - one) * tenths / 10;
        let (taken, deferred) = outcome_of(2, Some(budget));
        println!("{budget} of {one} to {two}: {taken} taken, {deferred} prestages deferred");
        assert!(taken >= budget / 100 * 98 && taken <= budget, "{taken} of {budget} taken");
    }
}
