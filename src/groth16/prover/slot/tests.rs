//! A driver that has less than it said, a minute later: without the minute.
#![allow(clippy::print_stdout, reason = "the seed of a failed run")]

use blstrs::Scalar;
use ff::Field;
use rand::{RngCore, SeedableRng};
use rand_chacha::ChaCha20Rng;
use twinlock_sim::{Arithmetic, Clock, Fault, SimCard, SimConfig};

use super::*;
use crate::circuits::mix::{Mix, MixShape, Profile};
use crate::groth16::generator::generate_parameters;
use crate::scheduler::locks::noticed_under_mem;
use crate::{Prover, ProvingKey};

const ROOM_BYTES: u64 = 6 << 20;
const RETURN: Duration = Duration::from_secs(1 << 20);

/// A card of which another process has taken `bytes` since the prover asked it for its size.
fn short_of(bytes: u64) -> (Arc<SimCard>, Prover) {
    let mut config = SimConfig::new("sim:0", 0);
    config.memory_bytes = config.context_bytes + ROOM_BYTES;
    let cpu = registry::open("cpu", &OpenOptions { threads: Some(1) }).unwrap();
    config.arithmetic = Arithmetic::Of(cpu);
    let card = SimCard::new(config, Clock::new());
    let options = ProverOptions { device: "sim:0".into(), workers: 2, ..ProverOptions::default() };
    let prover = Prover::with_devices(vec![card.open().unwrap()], options).unwrap();
    card.inject(Fault::OtherProcess { from: Duration::ZERO, until: RETURN, bytes });
    (card, prover)
}

fn prove(prover: &Prover, key: &ProvingKey<'_>, shape: MixShape, rng: &mut ChaCha20Rng) {
    let assignment = Mix::random(shape, rng).assignment().unwrap();
    prover.prove(key, &assignment, Scalar::random(&mut *rng), Scalar::random(rng)).unwrap();
}

/// Memories that serve stay, with the queries in them, until the driver has again what it had not;
/// then they grow.
#[test]
fn memories_that_serve_stay_while_the_driver_is_short() {
    let seed = rand::rngs::OsRng.next_u64();
    println!("seed {seed}");
    let mut rng = ChaCha20Rng::seed_from_u64(seed);
    let shape = MixShape::new(8, Profile::Even).unwrap();
    let params = generate_parameters(Mix::blank(shape), &mut rng, &|_, _| ()).unwrap();
    let mut refused = 0;
    for taken in (0..10).map(|step| ROOM_BYTES / 2 + step * ROOM_BYTES / 32) {
        let (card, prover) = short_of(taken);
        let Ok(key) = prover.load(&params) else { continue };
        prove(&prover, &key, shape, &mut rng);
        let open = prover.slots[0].current().unwrap();
        let a_minute_passes = || {
            if let Some(refusal) = lock(&open.refused).as_mut() {
                refusal.at -= REFUSAL_HOLDS;
            }
        };
        if lock(&open.refused).is_none() {
            continue;
        }
        refused += 1;
        let (sizes, allocations) = (open.sizes(), card.counts().allocations);
        for _ in 0..2 {
            a_minute_passes();
            prove(&prover, &key, shape, &mut rng);
            assert_eq!((open.sizes(), card.counts().allocations), (sizes, allocations), "{taken}");
        }

        card.clock().advance(RETURN);
        prove(&prover, &key, shape, &mut rng);
        assert_eq!(open.sizes(), sizes, "{taken}: asked again too soon");
        a_minute_passes();
        prove(&prover, &key, shape, &mut rng);
        let grown = open.sizes().iter().sum::<u64>() > sizes.iter().sum();
        assert!(grown && lock(&open.refused).is_none(), "{taken}");
    }
    assert!(refused > 0, "the driver was never short");
}

#[test]
fn a_device_opened_or_asked_under_mem_is_found_out() {
    let options = ProverOptions::default();
    let open = || registry::open("cpu", &OpenOptions { threads: Some(1) });
    let (free, noticed) = noticed_under_mem(|| free_bytes(&*open().unwrap()));
    assert!(free.unwrap() > 0);
    let asked = "asking a device for its memory";
    assert_eq!(noticed, [asked]);
    let (slot, noticed) =
        noticed_under_mem(|| DeviceSlot::new(open().unwrap(), Some(Arc::new(open)), &options));
    assert!(noticed.contains(&asked.into()), "{noticed:?}");

    let slot = slot.unwrap();
    let device = slot.current().unwrap();
    let refused = |at| {
        *lock(&device.refused) = Some(Refusal { asked_bytes: 1 << 40, less_bytes: 1 << 40, at });
    };
    refused(Instant::now() - REFUSAL_HOLDS);
    assert_eq!(noticed_under_mem(|| device.budget_bytes(false)).1, [asked]);
    let (_, noticed) = noticed_under_mem(|| device.note_refusal(1 << 20).unwrap());
    assert!(noticed.contains(&asked.into()), "{noticed:?}");
    drop(device);
    let (reopened, noticed) = noticed_under_mem(|| slot.reopen(&options));
    reopened.unwrap();
    assert_eq!(noticed[0], "opening a device again");
}
