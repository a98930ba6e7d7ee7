//! How long the driver takes for each kernel, the first launch included: many compile only then.
//! Caches off, e.g. with `MESA_SHADER_CACHE_DISABLE=true`:
//! `cargo test --release -p twinlock-shaders --test compile -- --ignored --nocapture`.
//! `KERNELS=narrow,msm` picks an arithmetic, and kernels by a part of their name.

#![allow(clippy::print_stdout)]

mod gpu;

use std::time::Instant;

use twinlock_shaders::{Arithmetic, all_kernels};

/// Seconds of all cores that this process has taken, where Linux tells: wall time says little on a
/// machine with other work.
fn cpu_seconds() -> Option<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    let ticks = stat.rsplit(')').next()?.split_whitespace().skip(11).take(2);
    ticks.map(|ticks| ticks.parse::<f64>().ok()).sum::<Option<f64>>().map(|ticks| ticks / 100.0)
}

#[test]
#[ignore = "takes minutes, for whoever tunes kernels"]
fn each_kernel_launched_with_nothing_to_do() {
    let picked = std::env::var("KERNELS").unwrap_or_default();
    let parts: Vec<String> = picked.split(',').map(str::to_lowercase).collect();
    let named = |name: String| parts.contains(&name.to_lowercase());
    let arithmetic = Arithmetic::ALL.into_iter().find(|a| named(format!("{a:?}")));
    let arithmetic = arithmetic.unwrap_or(Arithmetic::Wide);
    let filter = parts.get(1).cloned().unwrap_or_default();
    let begin = Instant::now();
    let Some(gpu) = gpu::open(arithmetic) else { return };
    let words = vec![0x5555_5555; 1 << 12];
    let scratch = gpu.buffer(&words);
    let seconds = || cpu_seconds().unwrap_or_else(|| begin.elapsed().as_secs_f64());
    let before = seconds();
    for module in all_kernels(arithmetic) {
        if !module.name.contains(&filter) {
            continue;
        }
        let start = seconds();
        let pipeline = gpu.pipeline(&module);
        let made = seconds();
        let buffers = vec![&scratch; module.bindings.len()];
        gpu.dispatch(&pipeline, &buffers, &vec![0; module.params_words()], [1, 1]);
        let found = gpu.read(&scratch);
        assert!(found == words, "{} did something", module.name);
        println!("{:24} {:6.2} + {:6.2} s", module.name, made - start, seconds() - made);
    }
    println!("{arithmetic:?}: {:.1} s", seconds() - before);
}
