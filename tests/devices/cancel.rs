//! Work that is cancelled stops within a stage, and leaves no memory held.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use twinlock::circuits::mix::Mix;
use twinlock::scheduler::events::{EventKind, EventSink, Life, Recorder, TimedEvent};
use twinlock::{Error, Job, PartitionInput, Proved, Prover, Result};

use crate::{Gpu, LG, options, parameters, prove_one, rng, shape};

/// For what must come; only a failing test waits so long.
const PATIENCE: Duration = Duration::from_secs(600);

/// Holds the first partition that comes to a step until told to go on.
struct Gate {
    step: Life,
    reached: Mutex<Option<Sender<()>>>,
    opened: Mutex<Receiver<()>>,
}

impl Gate {
    /// On the prover's way; with what tells that it was reached, and what opens it when dropped.
    fn on(prover: &Prover, step: Life) -> (Receiver<()>, Sender<()>) {
        let ((reached, at), (go, opened)) = (channel(), channel());
        let (reached, opened) = (Mutex::new(Some(reached)), Mutex::new(opened));
        prover.observe(Arc::new(Self { step, reached, opened }));
        (at, go)
    }
}

impl EventSink for Gate {
    fn take(&self, event: &TimedEvent) {
        let EventKind::Partition(_, life) = &event.kind else { return };
        if *life == self.step
            && let Some(reached) = self.reached.lock().unwrap().take()
        {
            reached.send(()).unwrap();
            let _ = self.opened.lock().unwrap().recv_timeout(PATIENCE);
        }
    }
}

fn prover_on(name: &str) -> Prover {
    let mut options = options(name);
    options.workers = 1;
    Prover::new(options).unwrap()
}

fn held_bytes(prover: &Prover) -> u64 {
    prover.memory_usage().iter().map(|usage| usage.held_bytes).sum()
}

fn only(outcomes: Vec<Result<Proved>>) -> Result<Proved> {
    let [outcome] = <[_; 1]>::try_from(outcomes).unwrap();
    outcome
}

pub fn queued_work_goes_at_once(_: impl Gpu, name: &str) {
    let mut rng = rng();
    let params = parameters(LG, &mut rng);
    let prover = prover_on(name);
    let key = prover.key(&params).unwrap();
    let (at_work, go) = Gate::on(&prover, Life::ComputeStarted);
    let mut job = || {
        let circuit = Mix::random(shape(LG), &mut rng);
        Job { key: &key, priority: 0, partitions: vec![PartitionInput::circuit(circuit, &mut rng)] }
    };
    let (first, second) = (job(), job());
    let first = prover.serve(|session| {
        let first = session.submit(first).unwrap();
        at_work.recv_timeout(PATIENCE).unwrap();
        let second = session.submit(second).unwrap();
        second.cancel();
        // While the device is the first one's.
        assert!(matches!(only(second.wait()), Err(Error::Cancelled)));
        drop(go);
        only(first.wait())
    });
    assert_eq!(first.unwrap().device, name);
    assert_eq!(held_bytes(&prover), 0);
}

pub fn work_at_every_step_stops_within_a_stage(_: impl Gpu, name: &str) {
    let mut rng = rng();
    let params = parameters(LG, &mut rng);
    for (step, all_but_done) in [
        (Life::StageStarted("prestage"), false),
        (Life::ComputeStarted, false),
        (Life::StageStarted("h"), false),
        (Life::StageStarted("drain"), true),
        (Life::HostStarted("check"), true),
    ] {
        let prover = prover_on(name);
        let key = prover.key(&params).unwrap();
        let recorder = Arc::new(Recorder::default());
        prover.observe(recorder.clone());
        let (reached, go) = Gate::on(&prover, step.clone());
        let circuit = Mix::random(shape(LG), &mut rng);
        let partitions = vec![PartitionInput::circuit(circuit, &mut rng)];
        let outcome = prover.serve(|session| {
            let job = session.submit(Job { key: &key, priority: 0, partitions }).unwrap();
            reached.recv_timeout(PATIENCE).unwrap();
            job.cancel();
            drop(go);
            only(job.wait())
        });
        let stopped = matches!(outcome, Err(Error::Cancelled));
        assert!(stopped || all_but_done && outcome.is_ok(), "{step:?}: {outcome:?}");
        let started: Vec<_> = (recorder.events().into_iter())
            .filter_map(|event| match event.kind {
                EventKind::Partition(_, life) => Some(life),
                _ => None,
            })
            .skip_while(|life| *life != step)
            .skip(1)
            .filter(|life| matches!(life, Life::StageStarted(_)))
            .collect();
        assert!(started.len() <= 1, "{step:?}, then {started:?}");
        assert_eq!(held_bytes(&prover), 0, "{step:?}");
        assert_eq!(prove_one(&prover, &key, LG, &mut rng).unwrap(), name);
    }
}
