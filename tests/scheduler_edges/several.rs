//! Several cards, of unequal memory.

use std::collections::BTreeMap;

use twinlock::{Prover, ProverOptions};

use crate::support::{Source, card, card_named, opener, prove, prover, rng};

/// Each device has a limit of its own, and all of them prove.
#[test]
fn unequal_cards_share_the_partitions_within_their_limits() {
    let mut rng = rng();
    let source = Source::new(9, &mut rng);
    // What two workers take of a card that has plenty.
    let free = prover(&card(1 << 30), |options| options.workers = 2);
    let key = free.key(&source).unwrap();
    assert!(prove(&free, &key, (9, 4), &mut rng).iter().all(Result::is_ok));
    let wanted = free.memory_usage().iter().map(|usage| usage.reserved_bytes).sum::<u64>();

    let cards = ["sim:0", "sim:1", "other:0"].map(|name| card_named(name, 1 << 30));
    let limits = [2 * wanted, wanted / 4 * 3, wanted / 5 * 4];
    let mut options = ProverOptions::default();
    options.msm_chunk = Some(1 << 9);
    options.workers = 2;
    options.memory_bytes = Some(limits[2]);
    options.device_memory_bytes = vec![("sim:0".into(), limits[0]), ("sim".into(), limits[1])];
    let prover = Prover::with_openers(cards.iter().map(opener).collect(), options).unwrap();
    let key = prover.key(&source).unwrap();
    let mut shares = BTreeMap::new();
    // Whoever is free takes the next: which one gets how many is chance, but none gets nothing for
    // long.
    for _ in 0..20 {
        for outcome in prove(&prover, &key, (9, 12), &mut rng) {
            *shares.entry(outcome.unwrap().device).or_insert(0) += 1;
        }
        if shares.len() == cards.len() {
            break;
        }
    }
    assert_eq!(shares.len(), cards.len(), "{shares:?}");
    let usage = prover.memory_usage();
    for ((usage, limit), name) in usage.iter().zip(limits).zip(prover.device_names()) {
        let reserved = usage.reserved_bytes;
        assert!(reserved > 0 && reserved <= limit, "{name}: {reserved} bytes of {limit}");
    }
    // The first was not held to the others' limits.
    assert!(usage[0].reserved_bytes > limits[1], "{usage:?}");
    for card in &cards {
        assert_eq!(card.races(), []);
    }
}

/// A partition that one card cannot hold is another's.
#[test]
fn what_a_small_card_cannot_hold_goes_to_the_large_one() {
    let mut rng = rng();
    let source = Source::new(10, &mut rng);
    let cards = [card_named("sim:0", 1 << 30), card_named("sim:1", 1 << 30)];
    let mut options = ProverOptions::default();
    options.device_memory_bytes = vec![("sim:0".into(), 1 << 16), ("sim:1".into(), 256 << 20)];
    let prover = Prover::with_openers(cards.iter().map(opener).collect(), options).unwrap();
    let key = prover.key(&source).unwrap();
    for outcome in prove(&prover, &key, (10, 4), &mut rng) {
        assert_eq!(outcome.unwrap().device, "sim:1");
    }
}

/// A loaded key lies on each card that has room, before anything is proved.
#[test]
fn a_key_is_loaded_onto_every_card_that_takes_it() {
    let mut rng = rng();
    let source = Source::new(9, &mut rng);
    let cards = ["sim:0", "sim:1", "sim:2"].map(|name| card_named(name, 1 << 30));
    let openers = || cards.iter().map(opener).collect();
    let resident = |prover: &Prover| {
        prover.memory_usage().into_iter().map(|usage| usage.resident_bytes).collect::<Vec<_>>()
    };
    let prover = Prover::with_openers(openers(), ProverOptions::default()).unwrap();
    let key = prover.load(&source).unwrap();
    let bytes = resident(&prover);
    assert!(bytes[0] > 0 && bytes.iter().all(|each| *each == bytes[0]), "{bytes:?}");
    assert!(prove(&prover, &key, (9, 6), &mut rng).iter().all(Result::is_ok));
    assert_eq!(resident(&prover), bytes);
    drop(prover);

    let limits = |names: &[&str]| {
        let mut options = ProverOptions::default();
        options.device_memory_bytes = names.iter().map(|name| ((*name).into(), 1 << 14)).collect();
        options
    };
    let prover = Prover::with_openers(openers(), limits(&["sim:0", "sim:2"])).unwrap();
    prover.load(&source).unwrap();
    assert_eq!(resident(&prover), [0, bytes[1], 0]);
    drop(prover);

    let prover = Prover::with_openers(openers(), limits(&["sim"])).unwrap();
    let refused = prover.load(&source).map(drop);
    assert!(matches!(refused, Err(twinlock::Error::Device { .. })), "{refused:?}");
}

#[test]
fn a_limit_of_no_device_is_refused() {
    let mut options = ProverOptions::default();
    options.device_memory_bytes = vec![("sim:7".into(), 1 << 30)];
    let cards = [card_named("sim:0", 1 << 30), card_named("sim:1", 1 << 30)];
    let error = Prover::with_openers(cards.iter().map(opener).collect(), options).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("sim:7") && text.contains("sim:0, sim:1"), "{text}");
}
