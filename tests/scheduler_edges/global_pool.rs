//! Callers on the threads of a rayon pool, which the library's own work must not need.

use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};

use blstrs::Scalar;
use twinlock::circuits::mix::Mix;
use twinlock::{Prover, ProverOptions};

use crate::support::{Source, card, prove, prover, rng, shape, without_hanging};

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

/// A thread that waits for parts of its work within a pool takes up other work of the pool: perhaps the
/// caller's next proof, which would wait for the first. So none of a proof is done there.
#[test]
fn a_proof_uses_no_thread_of_its_callers_pool() {
    without_hanging(|| {
        let mut rng = rng();
        let source = Source::new(12, &mut rng);
        let assignment = Mix::random(shape(12), &mut rng).assignment().unwrap();
        let names = |number| format!("callers-{number}");
        let pool = rayon::ThreadPoolBuilder::new().num_threads(2).thread_name(names);
        pool.build().unwrap().install(|| {
            let prover = prover(&card(1 << 30), |_| ());
            let key = prover.key(&source).unwrap();
            prover.prove(&key, &assignment, Scalar::from(2), Scalar::from(3)).unwrap();
            let streamed = source.readers();
            prover.load(&source).unwrap();
            for readers in [streamed, source.readers()] {
                assert!(!readers.is_empty());
                assert!(!readers.iter().any(|name| name.starts_with("callers")), "{readers:?}");
            }
        });
    });
}
