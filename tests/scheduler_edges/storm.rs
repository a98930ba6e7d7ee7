//! Random faults, cancels, budgets and sessions, all at once.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rand::{Rng, RngCore, SeedableRng};
use rand_chacha::ChaCha20Rng;
use twinlock::groth16::prover::ProvingKey;
use twinlock::scheduler::events::{Counters, EventKind, Life, TimedEvent};
use twinlock::scheduler::locks::breaches;
use twinlock::{Job, Prover, ProverOptions};
use twinlock_sim::{Fault, SimCard};

use crate::support::{
    Source, card, inputs, opener, partition, recorder, rng, shape, without_hanging,
};

const LGS: [u32; 2] = [5, 7];

/// Nothing hangs, nothing reads what another still writes, and each partition ends once, whatever
/// goes wrong.
#[test]
fn every_partition_ends_once_whatever_goes_wrong() {
    let mut seeds = rng();
    let totals = Arc::new(Counters::default());
    for _ in 0..25 {
        let (seed, totals) = (seeds.next_u64(), totals.clone());
        without_hanging(move || play(totals, &mut ChaCha20Rng::seed_from_u64(seed)));
    }
    for count in [&totals.done, &totals.failed, &totals.cancelled, &totals.retried] {
        assert!(count.load(Ordering::Relaxed) > 0, "too little happened: {totals:?}");
    }
}

fn play(totals: Arc<Counters>, rng: &mut ChaCha20Rng) {
    let sources = LGS.map(|lg| Source::new(lg, rng));
    let cards: Vec<_> = (0..rng.gen_range(1..3)).map(|_| card(1 << 30)).collect();
    let prover = random_prover(&cards, rng);
    let recorder = recorder(&prover);
    prover.observe(totals);
    // Some budgets are too small to load into.
    let keys = [&sources[0], &sources[1]].map(|source| {
        let key = if rng.r#gen() { prover.load(source) } else { prover.key(source) };
        key.ok()
    });
    for card in &cards {
        inject(card, rng);
    }
    let mut submitted = 0;
    std::thread::scope(|scope| {
        let users: Vec<_> = (0..rng.gen_range(1..3))
            .map(|_| {
                let mut rng = ChaCha20Rng::seed_from_u64(rng.next_u64());
                let (prover, keys) = (&prover, &keys);
                scope.spawn(move || use_session(prover, keys, &mut rng))
            })
            .collect();
        submitted = users.into_iter().map(|user| user.join().unwrap()).sum();
    });
    for card in &cards {
        assert_eq!(card.races(), []);
        assert_eq!(card.violations(), []);
    }
    assert_whole_lives(&recorder.events(), submitted);
    for usage in prover.memory_usage() {
        assert_eq!(usage.held_bytes, 0);
    }
}

fn random_prover(cards: &[Arc<SimCard>], rng: &mut ChaCha20Rng) -> Prover {
    let mut options = ProverOptions::default();
    options.device = if rng.r#gen() { "auto" } else { "sim:0" }.into();
    options.workers = rng.gen_range(1..4);
    options.staging_slots = rng.gen_range(1..5);
    options.msm_chunk = Some(1 << rng.gen_range(4..9));
    options.memory_bytes = Some(rng.gen_range(4u64..40) << 17);
    options.host_memory_bytes = Some(rng.gen_range(0..3));
    Prover::with_openers(cards.iter().map(opener).collect(), options).unwrap()
}

fn inject(card: &SimCard, rng: &mut ChaCha20Rng) {
    let ops = card.counts().ops;
    for _ in 0..rng.gen_range(0..4) {
        let op = ops + rng.gen_range(0..300);
        card.inject(match rng.gen_range(0..5) {
            0 => Fault::LostAtOp { op },
            1 => Fault::KernelFailed { op },
            2 => Fault::BitFlip { op, bit: rng.r#gen() },
            3 => Fault::OutOfMemory { allocation: rng.gen_range(0..12) },
            _ => Fault::OpenFails { count: rng.gen_range(0..2) },
        });
    }
}

/// Submits jobs, cancels some, drops some and waits for the others; how many partitions there were.
fn use_session(prover: &Prover, keys: &[Option<ProvingKey<'_>>], rng: &mut ChaCha20Rng) -> usize {
    prover.serve(|session| {
        let (mut jobs, mut submitted) = (Vec::new(), 0);
        for _ in 0..rng.gen_range(1..5) {
            let at = rng.gen_range(0..LGS.len());
            let Some(key) = &keys[at] else { continue };
            let mut partitions = inputs(shape(LGS[at]), rng.gen_range(0..4), rng);
            if rng.gen_range(0..4) == 0 {
                partitions.push(partition(|| panic!("a circuit panics, for a test")));
            }
            submitted += partitions.len();
            let priority = rng.gen_range(0..3);
            let job = session.submit(Job { key, priority, partitions }).unwrap();
            if rng.gen_range(0..3) == 0 {
                std::thread::sleep(Duration::from_millis(rng.gen_range(0..20)));
                job.cancel();
            }
            if rng.gen_range(0..8) > 0 {
                jobs.push(job);
            }
        }
        for error in jobs.into_iter().flatten().filter_map(Result::err) {
            // A mistake of the scheduler's own.
            assert!(!error.to_string().contains("invalid argument"), "{error}");
        }
        submitted
    })
}

fn assert_whole_lives(events: &[TimedEvent], count: usize) {
    let mut lives: BTreeMap<_, (usize, usize)> = BTreeMap::new();
    for event in events {
        if let EventKind::Partition(ticket, life) = &event.kind {
            let (queued, ended) = lives.entry(*ticket).or_default();
            *queued += usize::from(*life == Life::Queued);
            *ended += usize::from(life.is_end());
        }
    }
    let proved: Vec<_> = lives.values().filter(|(queued, _)| *queued > 0).collect();
    assert_eq!(proved.len(), count);
    assert_eq!(breaches(), 0, "waits and driver calls under `mem`");
    assert!(lives.values().all(|(queued, ended)| *queued <= 1 && *ended == 1), "{lives:?}");
}
