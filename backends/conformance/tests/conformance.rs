//! The suite on every device there is, as named trials.

use libtest_mimic::Arguments;
use twinlock_conformance::harness::accumulate_garbage;
use twinlock_conformance::{Candidate, DualBackend, ReferenceBackend, run_candidates};
use twinlock_cpu::CpuBackend;

fn main() {
    let reference = || Box::new(ReferenceBackend::default());
    let candidates = vec![
        Candidate::new(reference()).with_poison(accumulate_garbage),
        Candidate::new(Box::new(CpuBackend))
            .with_poison(accumulate_garbage)
            .with_windows_up_to(|_| 19),
        Candidate::new(Box::new(DualBackend::new(reference(), Box::new(CpuBackend))))
            .with_poison(accumulate_garbage),
    ];
    run_candidates(candidates, &Arguments::from_args()).exit();
}
