//! The suite on this backend's devices, each in three ways: with the arithmetic that it chooses
//! itself; as one without 64-bit integers and without what Vulkan alone has (`narrow`); and as one
//! with tiny buffers and bindings (`chunks`).

use libtest_mimic::Arguments;
use twinlock_api::DeviceInfo;
use twinlock_conformance::{Candidate, run_candidates};
use twinlock_wgsl::{Arithmetic, WgslBackend};

fn main() {
    let own = WgslBackend::default();
    // Views cross from one buffer into the next, and are longer than a binding. Lavapipe has 32
    // bindings, four parts for each of the seven of an MSM, so those get larger ones.
    let chunks = own.with_chunks(2 << 20, 1 << 20);
    let msm_chunks = own.with_chunks(4 << 20, 2 << 20);
    let candidates = vec![
        candidate(own),
        candidate(own.with_arithmetic(Arithmetic::Narrow).portable()).labelled("narrow"),
        candidate(chunks).labelled("chunks").with_trials(|trial| !trial.starts_with("msm_")),
        candidate(msm_chunks).labelled("msm chunks").with_trials(crosses),
    ];
    run_candidates(candidates, &Arguments::from_args()).exit()
}

/// MSMs over views in several parts: those that are long enough, but for the widest windows, whose
/// buckets take more parts than lavapipe can bind. What G1 shows need not be shown by G2, whose
/// kernels compile slowly, but once.
fn crosses(trial: &str) -> bool {
    const LONG: [&str; 5] = [
        "msm_g1::large",
        "msm_g1::chunks",
        "msm_g1::indexed",
        "msm_g1::heavy_bucket",
        "msm_g2::indexed",
    ];
    LONG.contains(&trial)
}

fn candidate(backend: WgslBackend) -> Candidate {
    let widest = |info: &DeviceInfo| if twinlock_wgsl::is_software(info) { 16 } else { 20 };
    Candidate::faulty(backend).with_windows_up_to(widest)
}
