//! The suite on this backend's devices.

use libtest_mimic::Arguments;
use twinlock_conformance::{Candidate, run_candidates};
use twinlock_cuda::CudaBackend;

fn main() {
    let mut args = Arguments::from_args();
    // Trials share one GPU, and its memory.
    args.test_threads = Some(1);
    let candidate = Candidate::faulty(CudaBackend::default()).with_windows_up_to(|_| 22);
    run_candidates(vec![candidate], &args).exit()
}
