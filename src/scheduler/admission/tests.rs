//! Single steps with sizes small enough to follow by hand, and random runs.

use std::sync::Arc;

use proptest::prelude::*;

use super::*;

fn buffer(size_bytes: u64, first: u8, last: u8) -> BufferNeed {
    BufferNeed { name: "buffer", pool: PoolId(0), size_bytes, first, last }
}

fn resident(key: u64, size_bytes: u64) -> ResidentNeed {
    ResidentNeed { key: ResidentKey(key), pool: PoolId(0), size_bytes }
}

fn profile(buffers: &[BufferNeed], residents: &[ResidentNeed]) -> Arc<Profile> {
    Arc::new(Profile::new(buffers.to_vec(), residents.to_vec()).unwrap())
}

/// 8, then 12, then 4.
fn grows_and_shrinks() -> Arc<Profile> {
    profile(&[buffer(4, 0, 2), buffer(4, 0, 1), buffer(4, 1, 1)], &[])
}

fn memory(capacity_bytes: u64) -> Admission {
    Admission::new([PoolSpec { capacity_bytes, align_bytes: 1 }])
}

fn arrive(admission: &mut Admission, number: u64, profile: &Arc<Profile>) -> Ticket {
    let ticket = Ticket(number);
    let actions = admission.step(Event::Arrive { ticket, profile: profile.clone() });
    assert_eq!(actions, [Action::Admitted { ticket }]);
    ticket
}

fn order(admission: &Admission) -> Vec<u64> {
    admission.tickets().map(|ticket| ticket.0).collect()
}

fn offsets(placements: &[Placement]) -> Vec<(usize, u64)> {
    placements.iter().map(|p| (p.buffer, p.offset_bytes)).collect()
}

#[test]
fn a_partition_runs_alone() {
    let mut admission = memory(12);
    let ticket = arrive(&mut admission, 7, &grows_and_shrinks());
    let actions = admission.step(Event::WantPrestage { ticket });
    let [Action::PrestageReady { placements, .. }] = &actions[..] else { panic!("{actions:?}") };
    assert_eq!(offsets(placements), [(0, 0), (1, 4)]);

    let actions = admission.step(Event::WantCompute { ticket });
    let [Action::Reserved { .. }, Action::GrantCompute { placements, residents, .. }] =
        &actions[..]
    else {
        panic!("{actions:?}")
    };
    assert_eq!(offsets(placements), [(0, 0), (1, 4), (2, 8)]);
    assert!(residents.is_empty());
    assert_eq!((admission.computing(), admission.free_bytes(PoolId(0))), (Some(ticket), 0));

    assert_eq!(admission.step(Event::StageEnded { ticket, stage: 0 }), []);
    let released = Action::Released { ticket, pool: PoolId(0), size_bytes: 8 };
    assert_eq!(admission.step(Event::StageEnded { ticket, stage: 1 }), [released]);
    assert_eq!(admission.step(Event::ComputeEnded { ticket }), []);
    assert_eq!((admission.computing(), admission.held_bytes(PoolId(0))), (None, 4));
    let released = Action::Released { ticket, pool: PoolId(0), size_bytes: 4 };
    let ended = Action::Ended { ticket, outcome: Outcome::Finished };
    assert_eq!(admission.step(Event::Finished { ticket }), [released, ended]);
    assert_eq!(admission, memory(12));
}

/// Two of 4 are staged; then 5, 4 and 7 are held. In 15 the next two find their place from the
/// second stage on, behind any number of partitions: each packs to the end it started at.
#[test]
fn partitions_pack_to_an_end_each() {
    let proof = profile(
        &[buffer(4, 0, 2), buffer(4, 0, 1), buffer(1, 2, 2), buffer(4, 3, 4), buffer(3, 4, 4)],
        &[],
    );
    let mut admission = memory(15);
    let mut ticket = arrive(&mut admission, 0, &proof);
    for next in 1..8 {
        admission.step(Event::WantPrestage { ticket });
        let actions = admission.step(Event::WantCompute { ticket });
        assert!(matches!(actions.last(), Some(Action::GrantCompute { .. })), "{actions:?}");
        let next = arrive(&mut admission, next, &proof);
        admission.step(Event::WantPrestage { ticket: next });
        admission.step(Event::StageEnded { ticket, stage: 0 });
        admission.step(Event::StageEnded { ticket, stage: 1 });
        let actions = admission.step(Event::WantPrestage { ticket: next });
        assert!(matches!(actions[..], [Action::PrestageReady { .. }]), "{actions:?}");
        for stage in 2..=4 {
            admission.step(Event::StageEnded { ticket, stage });
        }
        admission.step(Event::ComputeEnded { ticket });
        admission.step(Event::Finished { ticket });
        ticket = next;
    }
}

#[test]
fn buffers_that_never_meet_share_a_place() {
    let mut admission = memory(10);
    let turns = profile(&[buffer(6, 0, 0), buffer(7, 1, 1), buffer(3, 0, 1)], &[]);
    let ticket = arrive(&mut admission, 0, &turns);
    let actions = admission.step(Event::WantCompute { ticket });
    let Some(Action::GrantCompute { placements, .. }) = actions.last() else {
        panic!("{actions:?}")
    };
    assert_eq!(offsets(placements), [(0, 3), (1, 3), (2, 0)]);
    assert_eq!(admission.held_bytes(PoolId(0)), 10);
}

#[test]
fn no_room_is_answered_with_the_numbers() {
    let mut admission = memory(16);
    let older = arrive(&mut admission, 0, &grows_and_shrinks());
    let younger = arrive(&mut admission, 1, &grows_and_shrinks());
    admission.step(Event::WantPrestage { ticket: older });
    // 8 are free, but 4 of them are the older's.
    let placed = admission.step(Event::WantPrestage { ticket: younger });
    let shortage = Shortage { pool: PoolId(0), needed_bytes: 4, free_bytes: 4, usable_bytes: 0 };
    let [Action::PrestagePartial { shortage: told, placements, .. }] = &placed[..] else {
        panic!("{placed:?}")
    };
    assert_eq!((*told, offsets(placements)), (shortage, vec![(0, 12)]));

    let actions = admission.step(Event::WantCompute { ticket: younger });
    let shortage = Shortage { needed_bytes: 8, ..shortage };
    let parked = Parked::OnMemory(shortage);
    assert_eq!(actions, [Action::Waits { ticket: younger, parked }]);
    // The older takes what was kept for it.
    let actions = admission.step(Event::WantCompute { ticket: older });
    assert!(matches!(actions[..], [Action::Reserved { .. }, Action::GrantCompute { .. }]));
    // Its last bytes but 4 are enough for the younger to stage, but not to compute.
    admission.step(Event::StageEnded { ticket: older, stage: 0 });
    let actions = admission.step(Event::StageEnded { ticket: older, stage: 1 });
    assert!(matches!(actions[..], [Action::Released { .. }, Action::Reserved { .. }]));
    assert_eq!(admission.parked(younger), Some(Parked::OnCompute));
    let actions = admission.step(Event::ComputeEnded { ticket: older });
    assert!(matches!(actions[..], [Action::GrantCompute { ticket, .. }] if ticket == younger));
}

#[test]
fn a_deferred_prestage_holds_nothing() {
    let mut admission = memory(12);
    let older = arrive(&mut admission, 0, &grows_and_shrinks());
    let younger = arrive(&mut admission, 1, &grows_and_shrinks());
    admission.step(Event::WantCompute { ticket: older });
    let actions = admission.step(Event::WantPrestage { ticket: younger });
    let shortage = Shortage { pool: PoolId(0), needed_bytes: 8, free_bytes: 0, usable_bytes: 0 };
    assert_eq!(actions, [Action::Deferred { ticket: younger, shortage }]);
    assert!(admission.placements(younger).is_empty());
}

#[test]
fn a_late_priority_does_not_pass_memory_already_held() {
    let mut admission = memory(16);
    let small = profile(&[buffer(2, 0, 1)], &[]);
    for (number, profile) in [(5, &grows_and_shrinks()), (6, &small)] {
        arrive(&mut admission, number, profile);
    }
    admission.step(Event::WantPrestage { ticket: Ticket(5) });
    // 12 beside 8 on 16 cannot be; before the one that holds nothing it can.
    arrive(&mut admission, 1, &grows_and_shrinks());
    assert_eq!(order(&admission), [5, 1, 6]);
    // 2 can be anywhere.
    arrive(&mut admission, 0, &small);
    assert_eq!(order(&admission), [0, 5, 1, 6]);
    // Not before an older ticket, even when that one stands back.
    arrive(&mut admission, 2, &small);
    assert_eq!(order(&admission), [0, 5, 1, 2, 6]);
}

#[test]
fn what_cannot_run_is_refused_with_the_numbers() {
    let mut admission = memory(11);
    let refuse = |admission: &mut Admission, profile: Arc<Profile>| {
        let before = admission.clone();
        let actions = admission.step(Event::Arrive { ticket: Ticket(1), profile });
        assert_eq!(*admission, before);
        let [Action::Refused { why, .. }] = actions[..] else { panic!("{actions:?}") };
        why
    };
    let pool = PoolId(0);
    let never = Refusal::NeverFits { pool, needed_bytes: 12, capacity_bytes: 11 };
    assert_eq!(refuse(&mut admission, grows_and_shrinks()), never);
    let huge = profile(&[buffer(u64::MAX, 0, 0), buffer(u64::MAX, 0, 0)], &[resident(1, 2)]);
    let never = Refusal::NeverFits { pool, needed_bytes: u64::MAX, capacity_bytes: 11 };
    assert_eq!(refuse(&mut admission, huge), never);
    let elsewhere = profile(&[BufferNeed { pool: PoolId(1), ..buffer(1, 0, 0) }], &[]);
    assert_eq!(refuse(&mut admission, elsewhere), Refusal::NoSuchPool(PoolId(1)));

    arrive(&mut admission, 1, &profile(&[], &[resident(3, 4)]));
    assert_eq!(refuse(&mut admission, profile(&[], &[])), Refusal::TicketTaken);
    let ticket = Ticket(2);
    let profile = profile(&[], &[resident(3, 5)]);
    let why = Refusal::ResidentDiffers(ResidentKey(3));
    assert_eq!(
        admission.step(Event::Arrive { ticket, profile }),
        [Action::Refused { ticket, why }]
    );
}

#[test]
fn residents_stay_until_their_place_is_needed() {
    let mut admission = memory(16);
    let key = ResidentKey(1);
    let reads = profile(&[buffer(2, 0, 1)], &[resident(1, 6)]);
    let first = arrive(&mut admission, 0, &reads);
    let actions = admission.step(Event::WantResident { ticket: first, key });
    assert!(matches!(&actions[..], [Action::ResidentReady { resident, .. }] if !resident.loaded));
    assert_eq!(admission.step(Event::ResidentLoaded { ticket: first, key }), []);
    admission.step(Event::WantCompute { ticket: first });
    admission.step(Event::Finished { ticket: first });
    assert_eq!(admission.free_bytes(PoolId(0)), 16);

    // The next reader finds it loaded.
    let second = arrive(&mut admission, 1, &reads);
    let actions = admission.step(Event::WantCompute { ticket: second });
    let Some(Action::GrantCompute { residents, .. }) = actions.last() else {
        panic!("{actions:?}")
    };
    assert!(residents[0].loaded && residents[0].key == key);
    admission.step(Event::Cancelled { ticket: second });

    // 8 fit beside it, 12 do not.
    let third = arrive(&mut admission, 2, &grows_and_shrinks());
    let actions = admission.step(Event::WantPrestage { ticket: third });
    assert!(matches!(actions[..], [Action::PrestageReady { .. }]));
    let actions = admission.step(Event::WantCompute { ticket: third });
    let [Action::Evict { key: evicted }, Action::Reserved { .. }, Action::GrantCompute { .. }] =
        actions[..]
    else {
        panic!("{actions:?}")
    };
    assert_eq!((evicted, admission.residents().count()), (key, 0));
}

#[test]
fn the_longest_idle_goes_first_and_unloaded_ones_at_once() {
    let mut admission = memory(16);
    for (number, key) in [(0, 1), (1, 2), (2, 1)] {
        let ticket = arrive(&mut admission, number, &profile(&[], &[resident(key, 5)]));
        admission.step(Event::WantCompute { ticket });
        admission.step(Event::ResidentLoaded { ticket, key: ResidentKey(key) });
        admission.step(Event::Finished { ticket });
    }
    let ticket = arrive(&mut admission, 3, &profile(&[buffer(2, 0, 0)], &[resident(3, 5)]));
    let actions = admission.step(Event::WantCompute { ticket });
    assert_eq!(actions.first(), Some(&Action::Evict { key: ResidentKey(2) }));
    let actions = admission.step(Event::Failed { ticket });
    assert_eq!(actions.last(), Some(&Action::Evict { key: ResidentKey(3) }));
    let left: Vec<_> = admission.residents().map(|resident| resident.key.0).collect();
    assert_eq!(left, [1]);
}

#[test]
fn budgets_shrink_by_what_can_be_spared_and_grow_back() {
    let pool = PoolId(0);
    let mut admission = memory(24);
    let ticket = arrive(&mut admission, 0, &grows_and_shrinks());
    admission.step(Event::WantPrestage { ticket });
    let shrunk = |size_bytes, capacity_bytes, owed_bytes| Action::Shrunk {
        pool,
        size_bytes,
        capacity_bytes,
        owed_bytes,
    };
    let actions = admission.step(Event::BudgetShrunk { pool, size_bytes: 14 });
    assert_eq!(actions, [shrunk(12, 12, 2)]);
    // It is told by the smaller size what fits.
    let late = Event::Arrive { ticket: Ticket(1), profile: grows_and_shrinks() };
    let why = Refusal::NeverFits { pool, needed_bytes: 12, capacity_bytes: 10 };
    let refused = Action::Refused { ticket: Ticket(1), why };
    assert_eq!(admission.step(late), [refused]);
    admission.step(Event::WantCompute { ticket });
    let actions = admission.step(Event::Finished { ticket });
    assert_eq!(actions.last(), Some(&shrunk(2, 10, 0)));
    assert_eq!(admission.step(Event::BudgetGrown { pool, size_bytes: 6 }), []);
    assert_eq!((admission.capacity(pool), admission.owed_bytes(pool)), (16, 0));
    let actions = admission.step(Event::BudgetShrunk { pool, size_bytes: u64::MAX });
    assert_eq!(actions, [shrunk(16, 0, 0)]);
}

#[test]
fn nonsense_is_ignored() {
    let mut admission = memory(16);
    let ticket = arrive(&mut admission, 0, &grows_and_shrinks());
    let nobody = Ticket(9);
    let key = ResidentKey(1);
    let pool = PoolId(3);
    let out_of_turn = Nonsense::OutOfTurn(ticket);
    let mut check = |event: Event, why: Nonsense| {
        let before = admission.clone();
        assert_eq!(admission.step(event.clone()), [Action::Ignored { why }], "{event:?}");
        assert_eq!(admission, before, "{event:?}");
    };
    check(Event::Finished { ticket: nobody }, Nonsense::NoSuchTicket(nobody));
    check(Event::Cancelled { ticket: nobody }, Nonsense::NoSuchTicket(nobody));
    check(Event::WantPrestage { ticket: nobody }, Nonsense::NoSuchTicket(nobody));
    check(Event::Finished { ticket }, out_of_turn);
    check(Event::ComputeEnded { ticket }, out_of_turn);
    check(Event::StageEnded { ticket, stage: 0 }, out_of_turn);
    check(Event::StageEnded { ticket, stage: 255 }, out_of_turn);
    check(Event::WantResident { ticket, key }, Nonsense::NotItsResident(ticket, key));
    check(Event::ResidentLoaded { ticket, key }, Nonsense::NotItsResident(ticket, key));
    check(Event::BudgetShrunk { pool, size_bytes: 1 }, Nonsense::NoSuchPool(pool));
    check(Event::BudgetGrown { pool, size_bytes: 1 }, Nonsense::NoSuchPool(pool));
    admission.step(Event::WantCompute { ticket });
    for event in [Event::WantCompute { ticket }, Event::WantPrestage { ticket }] {
        assert_eq!(admission.step(event), [Action::Ignored { why: out_of_turn }]);
    }
}

#[test]
fn profiles_are_checked() {
    let error = Profile::new(vec![buffer(1, 3, 2)], vec![]).unwrap_err().to_string();
    assert!(error.contains('3') && error.contains('2'), "{error}");
    assert!(Profile::new(vec![], vec![resident(4, 1), resident(5, 1), resident(4, 1)]).is_err());
}

fn any_profile() -> impl Strategy<Value = Arc<Profile>> {
    let buffer =
        (0u8..2, 0u64..3000, 0u8..4, 0u8..3).prop_map(|(pool, size_bytes, first, more)| {
            BufferNeed { name: "any", pool: PoolId(pool), size_bytes, first, last: first + more }
        });
    let buffers = prop::collection::vec(buffer, 0..7);
    // A key has one size, so that few profiles are refused.
    let keys = prop::collection::btree_set(0u64..4, 0..3);
    (buffers, keys).prop_map(|(buffers, keys)| {
        let need = |key| ResidentNeed {
            key: ResidentKey(key),
            pool: PoolId((key % 2) as u8),
            size_bytes: 300 + 400 * key,
        };
        Arc::new(Profile::new(buffers, keys.into_iter().map(need).collect()).unwrap())
    })
}

fn any_event() -> impl Strategy<Value = Event> {
    let ticket = || (0u64..6).prop_map(Ticket);
    let key = || (0u64..4).prop_map(ResidentKey);
    let pool = || (0u8..3).prop_map(PoolId);
    prop_oneof![
        4 => (ticket(), any_profile()).prop_map(|(ticket, profile)| Event::Arrive { ticket, profile }),
        4 => ticket().prop_map(|ticket| Event::WantPrestage { ticket }),
        3 => (ticket(), key()).prop_map(|(ticket, key)| Event::WantResident { ticket, key }),
        4 => ticket().prop_map(|ticket| Event::WantCompute { ticket }),
        3 => (ticket(), key()).prop_map(|(ticket, key)| Event::ResidentLoaded { ticket, key }),
        8 => (ticket(), 0u8..6).prop_map(|(ticket, stage)| Event::StageEnded { ticket, stage }),
        1 => ticket().prop_map(|ticket| Event::ComputeEnded { ticket }),
        1 => ticket().prop_map(|ticket| Event::Finished { ticket }),
        1 => ticket().prop_map(|ticket| Event::Cancelled { ticket }),
        1 => ticket().prop_map(|ticket| Event::Failed { ticket }),
        1 => (pool(), 0u64..2000).prop_map(|(pool, size_bytes)| Event::BudgetShrunk { pool, size_bytes }),
        1 => (pool(), 0u64..2000).prop_map(|(pool, size_bytes)| Event::BudgetGrown { pool, size_bytes }),
    ]
}

/// What must hold in every state.
fn check_invariant(admission: &Admission) {
    let ranges: Vec<_> = (admission.partitions.iter())
        .map(|partition| merged(admission.held_ranges(partition)))
        .chain(admission.residents.iter().map(|r| vec![admission.resident_range(r)]))
        .collect();
    for (nth, these) in ranges.iter().enumerate() {
        for range in these {
            assert!(range.end <= admission.capacity(range.pool), "{range:?} {admission:#?}");
            assert!(range.start.is_multiple_of(256), "{range:?}");
            let others = ranges.iter().take(nth).flatten();
            others.for_each(|other| assert!(!other.overlaps(range), "{range:?} {admission:#?}"));
        }
    }
    for (rank, partition) in admission.partitions.iter().enumerate() {
        assert!(admission.promise_holds(rank), "{rank} {admission:#?}");
        let computes = partition.phase == Phase::Computing;
        assert_eq!(admission.compute == Some(partition.ticket), computes);
        assert!(!computes || partition.holds(Goal::Whole), "{admission:#?}");
        for (at, need) in partition.profile.buffers().iter().enumerate() {
            for (there, other) in partition.profile.buffers().iter().enumerate().take(at) {
                let range = |index: usize, need: &BufferNeed| {
                    let offset =
                        partition.held.buffer(index).or(partition.promised.buffer(index))?;
                    let size = need.size_bytes.max(1).next_multiple_of(256);
                    Some((need.pool, offset, offset + size))
                };
                let (Some(a), Some(b)) = (range(at, need), range(there, other)) else { continue };
                let meet = need.first <= other.last && other.first <= need.last;
                let overlap = a.0 == b.0 && a.1 < b.2 && b.1 < a.2;
                assert!(!(meet && overlap), "{at} and {there} of {rank} {admission:#?}");
            }
        }
    }
}

/// Lets all partitions run to their end, the youngest asking first.
fn run_to_the_end(admission: &mut Admission) {
    let mut tickets: Vec<_> = admission.tickets().collect();
    tickets.reverse();
    for &ticket in &tickets {
        admission.step(Event::WantCompute { ticket });
    }
    for _ in 0..tickets.len() {
        let draining = admission.partitions.iter().find(|own| own.phase == Phase::Draining);
        let next = draining.map(|own| own.ticket).or(admission.computing());
        let ticket = next.unwrap_or_else(|| panic!("nobody can go on {admission:#?}"));
        admission.step(Event::Finished { ticket });
        check_invariant(admission);
    }
    for pool in admission.pool_ids() {
        assert_eq!((admission.held_bytes(pool), admission.owed_bytes(pool)), (0, 0));
    }
    assert_eq!((admission.tickets().count(), admission.computing()), (0, None));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    /// Whatever happens, in whatever order, the invariant holds, nothing panics, every partition
    /// that was admitted ends once, and the rest can always be run to the end.
    #[test]
    fn any_events_leave_everyone_able_to_end(events in prop::collection::vec(any_event(), 0..120)) {
        let spec = |capacity_bytes| PoolSpec { capacity_bytes, align_bytes: 256 };
        let mut admission = Admission::new([spec(9000), spec(7000)]);
        let mut live = std::collections::BTreeSet::new();
        for event in events {
            let before = admission.clone();
            let actions = admission.step(event);
            for action in &actions {
                match action {
                    Action::Admitted { ticket } => prop_assert!(live.insert(*ticket)),
                    Action::Ended { ticket, .. } => prop_assert!(live.remove(ticket)),
                    Action::Ignored { .. } => prop_assert_eq!(&before, &admission),
                    _ => {}
                }
            }
            prop_assert!(admission.tickets().all(|ticket| live.contains(&ticket)));
            check_invariant(&admission);
        }
        prop_assert_eq!(admission.tickets().count(), live.len());
        run_to_the_end(&mut admission);
    }
}
