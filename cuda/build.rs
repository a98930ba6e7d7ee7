//! Compiles every `kernels/*.cu` with nvcc, once an architecture, when feature `nvcc` is on.

#[path = "build/constants.rs"]
mod constants;
#[path = "build/nvcc.rs"]
mod nvcc;

use std::path::PathBuf;
use std::{env, fs};

type Result<T> = std::result::Result<T, String>;

fn main() -> std::process::ExitCode {
    match run() {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            println!("cargo::error={}", error.replace('\n', " | "));
            std::process::ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    println!("cargo::rerun-if-changed=build");
    println!("cargo::rerun-if-changed=kernels");
    println!("cargo::rerun-if-changed=src/sizes.rs");
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("OUT_DIR is not set")?);
    let write = |name: &str, text: String| {
        let path = out.join(name);
        fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))
    };
    write("constants.cuh", constants::header())?;
    let mut units = Vec::new();
    if env::var_os("CARGO_FEATURE_NVCC").is_some() {
        units = nvcc::compile("kernels".as_ref(), &out)?;
    }
    write("images.rs", images(&units))
}

/// The unit that measures arithmetic.
const BENCH_UNIT: &str = "bench";

/// The table of images, and that of the benchmark by itself. The driver reads headers of eight-byte
/// words, hence the alignment.
fn images(units: &[String]) -> String {
    let image = |unit: &str| {
        format!("&Aligned(*include_bytes!(concat!(env!(\"OUT_DIR\"), \"/{unit}.fatbin\"))).0")
    };
    let (bench, others): (Vec<&String>, Vec<&String>) =
        units.iter().partition(|unit| *unit == BENCH_UNIT);
    let entries: String =
        others.iter().map(|unit| format!("    (\"{unit}\", {}),\n", image(unit))).collect();
    let bench = bench.first().map_or("None".to_owned(), |unit| format!("Some({})", image(unit)));
    format!(
        "static IMAGES: &[(&str, &[u8])] = &[\n{entries}];\n\
         static BENCH_IMAGE: Option<&[u8]> = {bench};\n"
    )
}
