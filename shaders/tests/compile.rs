//! How long the driver takes for each kernel, the first launch included: many compile only then.
//! Caches off, e.g. with `MESA_SHADER_CACHE_DISABLE=true`:
//! `cargo test --release -p twinlock-shaders --test compile -- --ignored --nocapture`.
//! `KERNELS=narrow,compact,msm` picks an arithmetic, a style, and kernels by a part of their name.

mod gpu;

use std::time::{Duration, Instant};

use twinlock_shaders::{Arithmetic, Style, all_kernels};

#[test]
#[ignore = "takes minutes, for whoever tunes kernels"]
fn each_kernel_launched_with_nothing_to_do() {
    let picked = std::env::var("KERNELS").unwrap_or_default();
    let parts: Vec<String> = picked.split(',').map(str::to_lowercase).collect();
    let named = |name: String| parts.contains(&name.to_lowercase());
    let arithmetic = Arithmetic::ALL.into_iter().find(|a| named(format!("{a:?}")));
    let style = Style::ALL.into_iter().find(|s| named(format!("{s:?}")));
    let arithmetic = arithmetic.unwrap_or(Arithmetic::Wide);
    let style = style.unwrap_or(Style::Compact);
    let filter = parts.get(2).cloned().unwrap_or_default();
    let Some(gpu) = gpu::open(arithmetic) else { return };
    let words = vec![0x5555_5555; 1 << 12];
    let scratch = gpu.buffer(&words);
    let mut total = Duration::ZERO;
    for module in all_kernels(arithmetic, style) {
        if !module.name.contains(&filter) {
            continue;
        }
        let start = Instant::now();
        let pipeline = gpu.pipeline(&module);
        let made = start.elapsed();
        let buffers = vec![&scratch; module.bindings.len()];
        gpu.dispatch(&pipeline, &buffers, &vec![0; module.params_words()], [1, 1]);
        let found = gpu.read(&scratch);
        assert!(found == words, "{} did something", module.name);
        let elapsed = start.elapsed();
        total += elapsed;
        println!(
            "{:24} {:8} + {:8} ms",
            module.name,
            made.as_millis(),
            (elapsed - made).as_millis()
        );
    }
    println!("{arithmetic:?} {style:?}: {:.1} s", total.as_secs_f64());
}
