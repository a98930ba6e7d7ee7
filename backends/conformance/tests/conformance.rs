//! The suite on every device there is, one named trial each.

use libtest_mimic::Arguments;
use twinlock_conformance::{Candidate, ReferenceBackend, run_candidates};
use twinlock_cpu::CpuBackend;

fn main() {
    let candidates = vec![
        Candidate::new(Box::new(ReferenceBackend::default())),
        Candidate::new(Box::new(CpuBackend)),
    ];
    run_candidates(candidates, &Arguments::from_args()).exit();
}
