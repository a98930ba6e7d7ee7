//! Measurements whose results are wrong: of any run that is timed, not only of the first.
#![cfg(feature = "cli")]
#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::time::Duration;

use twinlock::bench::{self, Plan, Scalars, Subject};
use twinlock::{Error, registry};
use twinlock_api::{Device, Group, OpenOptions};
use twinlock_sim::{Arithmetic, Clock, Fault, Lane, SimCard, SimConfig};

const ITERATIONS: usize = 3;
const LG: u32 = 6;

/// A card that computes right but for one fault.
fn card(memory_bytes: u64, fault: Option<Fault>) -> Arc<SimCard> {
    let mut config = SimConfig::new("sim:0", memory_bytes);
    let cpu = registry::open("cpu", &OpenOptions::default()).unwrap();
    config.arithmetic = Arithmetic::Of(cpu);
    let card = SimCard::new(config, Clock::new());
    fault.into_iter().for_each(|fault| card.inject(fault));
    card
}

fn measure(card: &Arc<SimCard>, subject: Subject, steps: bool) -> twinlock::Result<usize> {
    let plan = Plan {
        subject,
        lgs: vec![LG],
        scalars: Scalars::Random,
        iterations: ITERATIONS,
        base_tables: 1,
        steps,
        timeout: Duration::from_secs(3600),
    };
    let device: Arc<dyn Device> = card.open().unwrap();
    let found = bench::run(&plan, &[device], &|_, _| ())?;
    let [measurement] = &found[..] else { panic!("{found:?}") };
    Ok(measurement.steps.len())
}

/// Numbers of the operations called `name` among all that a card ran.
fn operations(card: &SimCard, name: &str) -> Vec<u64> {
    let log = card.log();
    let mut spans: Vec<_> = log.spans.iter().filter(|span| span.lane == Lane::Compute).collect();
    spans.sort_by_key(|span| span.start);
    let numbers = (0..).zip(spans).filter(|(_, span)| span.op == name);
    numbers.map(|(number, _)| number).collect()
}

fn wrong(outcome: &twinlock::Result<usize>) -> bool {
    matches!(outcome, Err(Error::Invalid { problem, .. }) if problem == "the result is wrong")
}

/// Flips a bit in what each timed run of a measurement gives, one at a time. `name` is the operation
/// that gives it, of which each run has `in_run`; `last` says which of these.
fn every_timed_result_is_checked(
    subject: Subject,
    memory_bytes: u64,
    (name, in_run, last): (&str, usize, usize),
    untimed: &[usize],
) {
    let right = card(memory_bytes, None);
    measure(&right, subject, false).unwrap();
    let found: Vec<u64> = operations(&right, name).into_iter().skip(last).step_by(in_run).collect();
    assert_eq!(found.len(), ITERATIONS + untimed.len(), "{subject:?}");
    for (run, op) in found.into_iter().enumerate() {
        let card = card(memory_bytes, Some(Fault::BitFlip { op, bit: 5 }));
        let outcome = measure(&card, subject, false);
        assert_eq!(card.faults_fired().len(), 1, "{subject:?}, run {run}");
        if !untimed.contains(&run) || run == 0 {
            assert!(wrong(&outcome), "{subject:?}, run {run}: {outcome:?}");
        }
    }
}

#[test]
fn a_wrong_sum_of_any_timed_msm_is_found() {
    for group in [Group::G1, Group::G2] {
        let which = ("msm_reduce", 1, 0);
        every_timed_result_is_checked(Subject::Msm(group), 1 << 30, which, &[0, 1]);
    }
}

#[test]
fn a_wrong_output_of_any_timed_ntt_is_found() {
    // There, and back again.
    let which = ("ntt", 2, 0);
    every_timed_result_is_checked(Subject::Ntt, 1 << 30, which, &[0, 1]);
}

#[test]
fn where_one_output_can_be_kept_each_is_checked_before_the_next() {
    // A quarter of the card is less than two outputs, so that each run is warmed up for.
    let context_bytes = card(1 << 30, None).config().context_bytes;
    let memory_bytes = context_bytes + (7 << LG) * 32;
    let which = ("ntt", 2, 0);
    every_timed_result_is_checked(Subject::Ntt, memory_bytes, which, &[0, 1, 3, 5]);
}

#[test]
fn steps_are_of_timed_runs_only() {
    assert_eq!(measure(&card(1 << 30, None), Subject::Ntt, true).unwrap(), 1);
    // clear, upload, digits, accumulate, reduce, combine
    assert_eq!(measure(&card(1 << 30, None), Subject::Msm(Group::G1), true).unwrap(), 6);
}
