//! Whose uploads come first.

use std::sync::atomic::Ordering;
use std::time::Duration;

use twinlock::Job;
use twinlock::scheduler::events::{EventKind, Life};

use crate::support::{
    Source, card, inputs, prove_one, prover, recorder, rng, shape, until, without_hanging,
};

/// A key is loaded from a slow disk while a proof computes that streams its own: the proof does not wait.
#[test]
fn a_load_does_not_hold_up_the_one_that_computes() {
    without_hanging(|| {
        let mut rng = rng();
        // Slots that several threads fill; reads of the load wait on as many as there are on two cores.
        let sources = [12, 12, 13].map(|lg| Source::new(lg, &mut rng));
        let [streamed, slow, largest] = &sources;
        let prover = prover(&card(1 << 30), |options| {
            options.workers = 3;
            options.timeout = Duration::from_secs(60);
            options.msm_chunk = Some(1 << 10);
            options.staging_slot_bytes = Some(1 << 20);
        });
        // Afterwards the memories are large enough for all, and made before a load comes.
        drop(prover.load(largest).unwrap());
        let key = prover.key(streamed).unwrap();
        prove_one(&prover, &key, 12, &mut rng).unwrap();
        let recorder = recorder(&prover);
        let partitions = inputs(shape(12), 1, &mut rng);
        streamed.has_stopped.store(false, Ordering::SeqCst);
        slow.stops_all.store(true, Ordering::SeqCst);
        let [in_proof, in_load] = [streamed, slow].map(Source::shut);
        std::thread::scope(|scope| {
            let proof = scope.spawn(|| {
                let job = Job { key: &key, priority: 0, partitions };
                prover.serve(|session| session.submit(job).unwrap().wait().pop().unwrap())
            });
            streamed.await_stop();
            let load = scope.spawn(|| prover.load(slow).map(drop));
            let loads = |kind: &EventKind| {
                matches!(kind, EventKind::Partition(_, Life::StageStarted("residents")))
            };
            until(|| recorder.events().iter().any(|event| loads(&event.kind)), "no load began");
            drop(in_proof);
            let proved = proof.join().unwrap().unwrap();
            assert_eq!(proved.failed_attempts, [""; 0]);
            assert!(!load.is_finished());
            drop(in_load);
            load.join().unwrap().unwrap();
        });
    });
}
