//! The dispatcher under seeded random workers: no threads, no devices.

use std::collections::VecDeque;

use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha20Rng;

use super::*;
use crate::scheduler::admission::{BufferNeed, PoolId, PoolSpec};

const CAPACITY_BYTES: u64 = 12;

fn profile(rng: &mut ChaCha20Rng) -> SharedProfile {
    let mut need = |name, first, last| BufferNeed {
        name,
        pool: PoolId(0),
        size_bytes: rng.gen_range(1..=6),
        first,
        last,
    };
    Arc::new(Profile::new(vec![need("x", 0, 1), need("y", 0, 0)], Vec::new()).unwrap())
}

/// Plays workers that do what they are told until nothing is left to do.
fn play(seed: u64) {
    let mut rng = ChaCha20Rng::seed_from_u64(seed);
    let mut core = Core::new([2, 1], rng.gen_range(1..40));
    let mut pending = Vec::new();
    let count = rng.gen_range(1..9);
    for index in 0..count {
        let ticket = Order { priority: rng.gen_range(0..3), job: 0, index }.ticket();
        let only = rng.gen_bool(0.2).then(|| DeviceId(rng.gen_range(0..2)));
        pending.push(Event::Submit { ticket, host_bytes: rng.gen_range(0..20), only });
        if rng.gen_bool(0.2) {
            pending.push(Event::Cancel { ticket });
        }
    }
    pending.shuffle(&mut rng);
    // A cancel that comes before its partition is nonsense, and ignored.
    let mut ended = BTreeMap::new();
    let mut made = [false; 2];
    while !pending.is_empty() {
        let event = pending.swap_remove(rng.gen_range(0..pending.len()));
        let mut actions = VecDeque::from(core.step(event));
        while let Some(action) = actions.pop_front() {
            match action {
                Action::Dispatch { ticket, device } if !made[device.0] => {
                    pending.push(Event::WantMemories { ticket });
                }
                Action::Dispatch { ticket, .. } => {
                    pending.push(Event::Planned { ticket, profile: profile(&mut rng) });
                }
                Action::LookAgain { ticket } => {
                    pending.push(Event::Planned { ticket, profile: profile(&mut rng) });
                }
                Action::MakeMemories { ticket, device } => {
                    made[device.0] = true;
                    let pool = PoolSpec { capacity_bytes: CAPACITY_BYTES, align_bytes: 1 };
                    // In this order: the memories are there before the partition.
                    actions.extend(core.step(Event::MemoriesMade { ticket, pools: vec![pool] }));
                    pending.push(Event::Planned { ticket, profile: profile(&mut rng) });
                }
                Action::On { action: admission::Action::Admitted { ticket }, .. } => {
                    pending.push(Event::WantCompute { ticket });
                }
                Action::On { action: admission::Action::GrantCompute { ticket, .. }, .. } => {
                    pending.push(match rng.gen_range(0..10) {
                        0 => Event::Failed { ticket, fault: Fault::Wrong },
                        1 => Event::Failed { ticket, fault: Fault::Final },
                        _ => Event::Finished { ticket },
                    });
                }
                Action::Stop { ticket } | Action::Abandon { ticket } => {
                    pending.push(Event::Stopped { ticket });
                }
                Action::Ended { ticket, end } => {
                    assert!(ended.insert(ticket, end).is_none(), "seed {seed}: {ticket} twice");
                }
                _ => {}
            }
        }
    }
    assert_eq!(ended.len(), count as usize, "seed {seed}: {core:?}");
    assert!(core.is_empty());
    for device in [0, 1].map(DeviceId) {
        assert_eq!(core.held_bytes(device), 0, "seed {seed}");
    }
}

#[test]
fn every_partition_ends_once_and_holds_nothing_after() {
    let first = rand::random::<u32>().into();
    for seed in first..first + 2000 {
        play(seed);
    }
}

#[test]
fn priority_then_age_then_index() {
    let order = |priority, job, index| Order { priority, job, index }.ticket();
    let sorted = [order(2, 9, 9), order(1, 0, 1), order(1, 1, 0), order(0, 0, 0), order(0, 0, 1)];
    assert!(sorted.is_sorted());
    let whole = Order { priority: 3, job: u32::MAX - 1, index: 0xff_fffe };
    assert_eq!(Order::from(whole.ticket()), whole);
}

fn ticket(index: u32) -> Ticket {
    Order { priority: 0, job: 0, index }.ticket()
}

fn submitted(core: &mut Core, index: u32, host_bytes: u64) -> Vec<Action> {
    core.step(Event::Submit { ticket: ticket(index), host_bytes, only: None })
}

fn is_dispatched(actions: &[Action], index: u32) -> bool {
    let is = |action: &Action| matches!(action, Action::Dispatch { ticket: of, .. } if *of == ticket(index));
    actions.iter().any(is)
}

/// Others overtake it while its device is busy; without its device it ends.
#[test]
fn what_one_device_alone_may_take_waits_for_it() {
    let mut core = Core::new([1, 1], 0);
    let only = |index, device| Event::Submit {
        ticket: ticket(index),
        host_bytes: 0,
        only: Some(DeviceId(device)),
    };
    let goes_to = |actions: &[Action], index, device| {
        actions.contains(&Action::Dispatch { ticket: ticket(index), device: DeviceId(device) })
    };
    assert!(goes_to(&core.step(only(0, 1)), 0, 1));
    assert!(!is_dispatched(&core.step(only(1, 1)), 1));
    assert!(goes_to(&submitted(&mut core, 2, 0), 2, 0));
    assert!(goes_to(&core.step(Event::Finished { ticket: ticket(0) }), 1, 1));
    assert_eq!(end(&core.step(only(3, 2))), Some(End::Failed(Fault::Lost)));
}

fn end(actions: &[Action]) -> Option<End> {
    actions.iter().find_map(|action| match action {
        Action::Ended { end, .. } => Some(*end),
        _ => None,
    })
}

/// The one retry of a wrong proof is not used up by a card that is too small or was lost.
#[test]
fn a_wrong_proof_is_retried_after_other_faults() {
    for first in [Fault::NoRoom, Fault::Lost] {
        let mut core = Core::new([1, 1, 1], u64::MAX);
        submitted(&mut core, 0, 0);
        for fault in [first, Fault::Wrong] {
            let actions = core.step(Event::Failed { ticket: ticket(0), fault });
            assert_eq!(end(&actions), None, "{first:?}, {fault:?}");
            assert!(is_dispatched(&actions, 0), "{first:?}, {fault:?}");
        }
        let actions = core.step(Event::Failed { ticket: ticket(0), fault: Fault::Wrong });
        assert_eq!(end(&actions), Some(End::Failed(Fault::Wrong)), "{first:?}");
    }
}

/// Of many cards the last alone may be large enough.
#[test]
fn each_card_is_tried_for_room() {
    let mut core = Core::new([1; 12], u64::MAX);
    submitted(&mut core, 0, 0);
    for tried in 1..12 {
        let actions = core.step(Event::Failed { ticket: ticket(0), fault: Fault::NoRoom });
        assert!(is_dispatched(&actions, 0), "after {tried} cards");
    }
    let actions = core.step(Event::Failed { ticket: ticket(0), fault: Fault::NoRoom });
    assert_eq!(end(&actions), Some(End::Failed(Fault::NoRoom)));
}

/// Sizes that a user gave wrongly do not wrap around the budget.
#[test]
fn huge_host_bytes_fill_the_budget() {
    let mut core = Core::new([3], 10);
    assert!(is_dispatched(&submitted(&mut core, 0, u64::MAX), 0));
    assert!(!is_dispatched(&submitted(&mut core, 1, 1), 1));
    assert!(is_dispatched(&core.step(Event::Finished { ticket: ticket(0) }), 1));
    assert!(!is_dispatched(&submitted(&mut core, 2, u64::MAX), 2));
}

/// A partition that can go to a busy card only does not keep the idle one from the younger.
#[test]
fn an_excluded_head_lets_the_younger_pass() {
    let mut core = Core::new([1, 1], 10);
    submitted(&mut core, 0, 4);
    submitted(&mut core, 1, 4);
    core.step(Event::Failed { ticket: ticket(0), fault: Fault::NoRoom });
    assert!(is_dispatched(&submitted(&mut core, 2, 4), 2));
    assert!(is_dispatched(&core.step(Event::Finished { ticket: ticket(1) }), 0));
}

/// Who made the memories arrives in them before they are made anew for somebody else.
#[test]
fn memories_are_not_taken_from_who_made_them() {
    let mut core = Core::new([2], u64::MAX);
    let remakes = |actions: &[Action]| {
        let is = |action: &Action| matches!(action, Action::MakeMemories { ticket: of, .. } if *of == ticket(1));
        actions.iter().any(is)
    };
    for index in 0..2 {
        submitted(&mut core, index, 0);
        core.step(Event::WantMemories { ticket: ticket(index) });
    }
    let pools = vec![PoolSpec { capacity_bytes: CAPACITY_BYTES, align_bytes: 1 }];
    let made = core.step(Event::MemoriesMade { ticket: ticket(0), pools });
    assert!(!remakes(&made), "{made:?}");
    // They do not suit it.
    assert!(made.contains(&Action::LookAgain { ticket: ticket(1) }), "{made:?}");
    core.step(Event::WantMemories { ticket: ticket(1) });
    let profile = profile(&mut ChaCha20Rng::seed_from_u64(0));
    let arrived = core.step(Event::Planned { ticket: ticket(0), profile });
    let is_admitted = |action: &Action| matches!(action, Action::On { action: admission::Action::Admitted { ticket: of }, .. } if *of == ticket(0));
    assert!(arrived.iter().any(is_admitted) && !remakes(&arrived), "{arrived:?}");
    assert!(remakes(&core.step(Event::Finished { ticket: ticket(0) })));
}
