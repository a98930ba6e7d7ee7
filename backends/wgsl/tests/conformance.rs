//! The suite on this backend's devices, each in four ways: with the arithmetic that it chooses
//! itself; as one without 64-bit integers and without what Vulkan alone has (`narrow`); with the
//! third arithmetic, as far as that compiles soon (`sparse`); and as one
//! with tiny buffers and bindings, and with dispatches that do little (`chunks`).

use libtest_mimic::Arguments;
use twinlock_api::DeviceInfo;
use twinlock_conformance::{Candidate, run_candidates};
use twinlock_wgsl::{Arithmetic, Steps, WgslBackend};

fn main() {
    let own = WgslBackend::default();
    // Views cross from one buffer into the next, and are longer than a binding. Lavapipe has 32
    // bindings, four parts for each of the seven of an MSM, so those get larger ones.
    let small = own.with_steps(STEPS);
    let chunks = small.with_chunks(2 << 20, 1 << 20);
    let msm_chunks = small.with_chunks(4 << 20, 2 << 20);
    let sparse = own.with_arithmetic(Arithmetic::Sparse);
    let candidates = vec![
        candidate(own),
        candidate(own.with_arithmetic(Arithmetic::Narrow).portable()).labelled("narrow"),
        candidate(chunks).labelled("chunks").with_trials(|trial| !trial.starts_with("msm_")),
        candidate(msm_chunks).labelled("msm chunks").with_trials(crosses),
        candidate(sparse).labelled("sparse").with_trials(once),
    ];
    run_candidates(candidates, &Arguments::from_args()).exit()
}

/// Trials that launch every kernel over Fr and of G1, and those that decode points. The kernels of
/// G2's MSMs compile slowly: `twinlock_shaders` tests most of them, and what all are made of.
fn once(trial: &str) -> bool {
    const SMALL: [&str; 5] = [
        "buffers::gather",
        "ntt::every_order",
        "vector::edge_pairs",
        "msm_g1::opposite_points",
        "msm_g1::indexed",
    ];
    SMALL.contains(&trial)
        || ["convert::", "decode_points_"].iter().any(|group| trial.starts_with(group))
}

/// Operations take several dispatches; MSMs over the longest views several for each window, those
/// over a thousand points one for some windows.
const STEPS: Steps = Steps { points: 200, scalars: 1000, additions: 1 << 12, bytes: 1 << 16 };

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
