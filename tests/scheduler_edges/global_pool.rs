//! Callers on the threads of rayon's global pool, which the library's own work must not need.

use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};

use twinlock::{Prover, ProverOptions};

use crate::support::{Source, card, prove, prover, rng, without_hanging};

/// On all of them at once, so that none is left; slots that several threads fill, and the CPU.
#[test]
fn proofs_are_made_while_every_thread_of_the_pool_waits() {
    without_hanging(|| {
        let source = Source::new(12, &mut rng());
        for device in ["sim:0", "cpu"] {
            let (all_here, proved) =
                (Barrier::new(rayon::current_num_threads()), AtomicUsize::new(0));
            rayon::broadcast(|_| {
                all_here.wait();
                let prover = match device {
                    "cpu" => {
                        let mut options = ProverOptions::default();
                        options.device = device.into();
                        Prover::new(options).unwrap()
                    }
                    _ => prover(&card(1 << 30), |_| ()),
                };
                let key = prover.key(&source).unwrap();
                let outcomes = prove(&prover, &key, (12, 1), &mut rng());
                proved.fetch_add(outcomes.iter().filter(|o| o.is_ok()).count(), Ordering::SeqCst);
            });
            assert_eq!(proved.into_inner(), rayon::current_num_threads(), "{device}");
        }
    });
}
