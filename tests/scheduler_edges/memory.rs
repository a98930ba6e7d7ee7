//! Queries that stay, drivers with less memory than they said, and devices that are opened again.

use twinlock::Error;
use twinlock::groth16::params::{ParameterSource, Query};
use twinlock_api::Error as DeviceError;
use twinlock_sim::Fault;

use crate::support::rng;
use crate::support::{Source, card, device_error, prove, prove_one, prover, take};

#[test]
fn with_room_a_key_is_read_once() {
    let mut rng = rng();
    let source = Source::new(8, &mut rng);
    let card = card(1 << 30);
    let prover = prover(&card, |options| options.workers = 3);
    let key = prover.load(&source).unwrap();
    assert_eq!(source.times_read(), [1; 5]);
    for count in [1, 5, 2] {
        for outcome in prove(&prover, &key, (8, count), &mut rng) {
            assert_eq!(outcome.unwrap().device, "sim:0");
        }
    }
    assert_eq!(source.times_read(), [0; 5]);
    assert_eq!(card.races(), []);

    let usage = prover.memory_usage().pop().unwrap();
    assert_eq!((usage.held_bytes, usage.by_name.len()), (0, 0));
    assert!(usage.peak_bytes > usage.resident_bytes && usage.peak_bytes <= usage.reserved_bytes);
    let keys_bytes = usage.resident_bytes.next_multiple_of(1 << 8);
    assert!(
        keys_bytes
            >= Query::ALL.map(|q| source.query_len(q) * q.point_bytes()).iter().sum::<usize>()
                as u64
    );
    // All that the card gave, its context and a word for decoding apart, is what is reserved.
    let taken = card.held_bytes() - card.config().context_bytes;
    assert_eq!(taken, usage.reserved_bytes + 256);
}

/// Partitions that start together need the same queries; one of them brings each.
#[test]
fn a_key_that_was_put_out_is_brought_back_by_one() {
    let mut rng = rng();
    let (source, other) = (Source::new(8, &mut rng), Source::new(8, &mut rng));
    let card = card(1 << 30);
    // Room for one key and its partitions, found by trying; not for two.
    let budget = (1..400)
        .map(|step| step << 16)
        .find(|budget| {
            let prover = prover(&card, |options| options.memory_bytes = Some(*budget));
            let Ok(key) = prover.load(&source) else { return false };
            let all = source.times_read() == [1; 5];
            all && prove(&prover, &key, (8, 2), &mut rng).iter().all(Result::is_ok)
        })
        .unwrap();
    source.times_read();
    let prover = prover(&card, |options| {
        options.memory_bytes = Some(budget);
        options.workers = 3;
    });
    let keys = [prover.load(&source).unwrap(), prover.load(&other).unwrap()];
    for round in 0..3 {
        for (key, source) in keys.iter().zip([&source, &other]) {
            source.times_read();
            for outcome in prove(&prover, key, (8, 4), &mut rng) {
                outcome.unwrap();
            }
            let read = source.times_read();
            assert!(read.iter().all(|times| *times <= 1), "round {round}: {read:?}");
            let put_out = read.contains(&1);
            let is_last_loaded = round == 0 && std::ptr::eq(source, &other);
            assert!(put_out || is_last_loaded || round == 0, "round {round}: both keys fit");
        }
    }
    assert_eq!(card.races(), []);
}

/// From all five queries resident down to none: every budget proves, or is refused with the numbers.
#[test]
fn what_does_not_fit_is_streamed_and_the_rest_stays() {
    let mut rng = rng();
    let source = Source::new(8, &mut rng);
    let card = card(1 << 30);
    let mut kept = Vec::new();
    for budget in (1..64).map(|step| step << 15) {
        let prover = prover(&card, |options| {
            options.memory_bytes = Some(budget);
            options.workers = 1;
        });
        let key = match prover.load(&source) {
            Ok(key) => key,
            Err(Error::Device { source: DeviceError::ExceedsLimit { limit, .. }, .. }) => {
                assert!(limit <= budget && kept.is_empty());
                continue;
            }
            Err(error) => panic!("{budget}: {error}"),
        };
        source.times_read();
        for outcome in prove(&prover, &key, (8, 2), &mut rng) {
            outcome.unwrap();
        }
        let read = source.times_read();
        kept.push(read.iter().filter(|times| **times == 0).count());
        assert!(card.held_bytes() <= budget + card.config().context_bytes, "{budget}");
    }
    println!("queries that stayed, by budget: {kept:?}");
    assert_eq!((kept.first(), kept.last()), (Some(&0), Some(&5)));
    assert!(kept.iter().any(|count| (1..5).contains(count)), "{kept:?}");
    assert_eq!(card.races(), []);
}

/// Another process takes memory after the budget was set: plans get smaller, and nothing fails for
/// which there is a plan.
#[test]
fn a_driver_with_less_than_it_said_gets_a_smaller_plan() {
    let mut rng = rng();
    let source = Source::new(9, &mut rng);
    let room = 8 << 20;
    let mut proves = |taken: u64, is_known: bool| {
        let card = card(card(1 << 30).config().context_bytes + room);
        if is_known {
            take(&card, taken);
        }
        let prover = prover(&card, |options| options.msm_chunk = None);
        if !is_known {
            take(&card, taken);
        }
        let key = prover.load(&source)?;
        let outcomes = prove(&prover, &key, (9, 3), &mut rng);
        assert_eq!(card.races(), []);
        outcomes.into_iter().try_for_each(|outcome| outcome.map(drop))
    };
    let mut fewer = 0;
    for taken in (0..room).step_by(512 << 10) {
        let known = proves(taken, true);
        source.times_read();
        let found_out = proves(taken, false);
        fewer += usize::from(source.times_read().iter().any(|times| *times > 1));
        println!("{taken} bytes taken: {}, known before: {}", found_out.is_ok(), known.is_ok());
        if known.is_ok() {
            found_out.unwrap();
        }
    }
    assert!(fewer > 0, "the room was never short");
}

#[test]
fn without_any_memory_the_error_is_the_drivers() {
    let mut rng = rng();
    let source = Source::new(9, &mut rng);
    let card = card(1 << 30);
    let prover = prover(&card, |_| ());
    take(&card, 1 << 30);
    let key = prover.key(&source).unwrap();
    let error = device_error(prove_one(&prover, &key, 9, &mut rng));
    assert!(matches!(error, DeviceError::OutOfMemory { .. }), "{error}");
}

#[test]
fn a_lost_card_is_opened_again_and_goes_on() {
    let mut rng = rng();
    let source = Source::new(8, &mut rng);
    for at in [0, 3, 20, 60, 90] {
        let card = card(1 << 30);
        let prover = prover(&card, |options| options.workers = 3);
        let key = prover.load(&source).unwrap();
        card.inject(Fault::LostAtOp { op: card.counts().ops + at });
        for outcome in prove(&prover, &key, (8, 5), &mut rng) {
            assert_eq!(outcome.unwrap().device, "sim:0");
        }
        assert_eq!(card.losses(), 1, "{at}");
        // Its queries came to the new device by themselves.
        assert!(prove(&prover, &key, (8, 1), &mut rng).iter().all(Result::is_ok));
        assert_eq!(card.races(), []);
    }
}

#[test]
fn a_card_that_stays_lost_ends_every_partition_with_an_error() {
    let mut rng = rng();
    let source = Source::new(8, &mut rng);
    let card = card(1 << 30);
    let prover = prover(&card, |options| options.workers = 2);
    let key = prover.load(&source).unwrap();
    card.inject(Fault::LostAtOp { op: card.counts().ops + 30 });
    card.inject(Fault::OpenFails { count: 1 });
    let outcomes = prove(&prover, &key, (8, 6), &mut rng);
    let failed = outcomes.iter().filter(|outcome| outcome.is_err()).count();
    assert!(failed >= 5, "{failed}");
    for error in outcomes.into_iter().filter_map(Result::err) {
        assert!(error.to_string().contains("lost"), "{error}");
    }
}
