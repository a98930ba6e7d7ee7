//! Compiles the kernels' headers as plain C++.

#[path = "../build/constants.rs"]
mod constants;

use std::path::PathBuf;
use std::{env, fs};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    for path in ["src", "../build/constants.rs", "../kernels", "../src/sizes.rs"] {
        println!("cargo::rerun-if-changed={path}");
    }
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("OUT_DIR is not set")?);
    fs::write(out.join("constants.cuh"), constants::header())?;
    let mut sources = Vec::new();
    for entry in fs::read_dir("src")? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "cpp") {
            sources.push(path);
        }
    }
    sources.sort();
    cc::Build::new()
        .cpp(true)
        .std("c++17")
        .include("../kernels")
        .include(&out)
        .files(sources)
        .opt_level(3)
        .extra_warnings(true)
        .compile("twinlock_cuda_host");
    Ok(())
}
