//! Several cards, of unequal memory.

use std::collections::BTreeMap;

use twinlock::{Prover, ProverOptions};

use crate::support::{Source, card_named, opener, prove, rng};

/// Each device has a limit of its own, and all of them prove.
#[test]
fn unequal_cards_share_the_partitions_within_their_limits() {
    let mut rng = rng();
    let source = Source::new(9, &mut rng);
    let cards = ["sim:0", "sim:1", "other:0"].map(|name| card_named(name, 1 << 30));
    let limits = [("sim:0", 24 << 20), ("sim", 12 << 20)];
    let mut options = ProverOptions::default();
    options.msm_chunk = Some(1 << 9);
    options.workers = 2;
    options.memory_bytes = Some(16 << 20);
    options.device_memory_bytes = limits.map(|(name, bytes)| (name.to_owned(), bytes)).into();
    let prover = Prover::with_openers(cards.iter().map(opener).collect(), options).unwrap();
    let key = prover.load(&source).unwrap();
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
    let reserved: Vec<u64> =
        prover.memory_usage().iter().map(|usage| usage.reserved_bytes).collect();
    for ((reserved, limit), name) in
        reserved.iter().zip([24 << 20, 12 << 20, 16 << 20]).zip(prover.device_names())
    {
        assert!(*reserved > 0 && *reserved <= limit, "{name}: {reserved} bytes of {limit}");
    }
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

#[test]
fn a_limit_of_no_device_is_refused() {
    let mut options = ProverOptions::default();
    options.device_memory_bytes = vec![("sim:7".into(), 1 << 30)];
    let cards = [card_named("sim:0", 1 << 30), card_named("sim:1", 1 << 30)];
    let error = Prover::with_openers(cards.iter().map(opener).collect(), options).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("sim:7") && text.contains("sim:0, sim:1"), "{text}");
}
