//! Finds nvcc and runs it.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::{env, fs};

use crate::Result;

/// Machine code for Ampere, Hopper and Blackwell; from PTX the driver makes code for the rest.
const DEFAULT_ARCHS: &str = "80,90,120,compute_75";

const FLAGS: [&str; 5] = ["-fatbin", "-O3", "-std=c++17", "--threads=0", "-Xptxas=-v"];

/// Compiles the units in `kernels` to `out/UNIT.fatbin`; their names, sorted.
pub(crate) fn compile(kernels: &Path, out: &Path) -> Result<Vec<String>> {
    for name in ["NVCC", "CUDA_PATH", "PATH", "TWINLOCK_CUDA_ARCHS"] {
        println!("cargo::rerun-if-env-changed={name}");
    }
    let nvcc = find()?;
    let codes = codes()?;
    let mut units = units(kernels)?;
    let version = version(&nvcc)?;
    let headers = sources(&[kernels, out], "cuh")?;
    let key = |unit: &str| {
        let mut hasher = DefaultHasher::new();
        (&version, FLAGS, &codes, &headers).hash(&mut hasher);
        fs::read(kernels.join(format!("{unit}.cu"))).unwrap_or_default().hash(&mut hasher);
        hasher.finish().to_string()
    };
    let key_file = |unit: &str| out.join(format!("{unit}.key"));
    let stale: Vec<String> = (units.iter())
        .filter(|unit| fs::read_to_string(key_file(unit)).ok() != Some(key(unit)))
        .cloned()
        .collect();
    let jobs = env::var("NUM_JOBS").ok().and_then(|jobs| jobs.parse().ok()).unwrap_or(1).max(1);
    for batch in stale.chunks(jobs) {
        let children: Vec<_> =
            batch.iter().map(|unit| start(&nvcc, &codes, kernels, out, unit)).collect();
        // All are waited for before the first failure is told.
        let ends: Vec<_> = children.into_iter().map(|child| child.and_then(finish)).collect();
        ends.into_iter().collect::<Result<Vec<()>>>()?;
    }
    for unit in &stale {
        let file = key_file(unit);
        fs::write(&file, key(unit)).map_err(|error| format!("{}: {error}", file.display()))?;
    }
    units.sort();
    Ok(units)
}

/// `-gencode` arguments for TWINLOCK_CUDA_ARCHS: `90` is machine code, `compute_90` is PTX.
fn codes() -> Result<Vec<String>> {
    let archs = env::var("TWINLOCK_CUDA_ARCHS").unwrap_or_else(|_| DEFAULT_ARCHS.to_owned());
    let code = |arch: &str| {
        let arch = arch.trim();
        let number = arch.trim_start_matches("compute_").trim_start_matches("sm_");
        if number.is_empty() || !number.chars().all(|c| c.is_ascii_alphanumeric()) {
            return Err(format!("TWINLOCK_CUDA_ARCHS: {arch:?} is not like 90 or compute_75"));
        }
        let kind = if arch.starts_with("compute_") { "compute" } else { "sm" };
        Ok(format!("-gencode=arch=compute_{number},code={kind}_{number}"))
    };
    archs.split(',').map(code).collect()
}

fn units(kernels: &Path) -> Result<Vec<String>> {
    let told = |error: std::io::Error| format!("{}: {error}", kernels.display());
    let mut units = Vec::new();
    for entry in fs::read_dir(kernels).map_err(told)? {
        let path = entry.map_err(told)?.path();
        if path.extension().is_some_and(|extension| extension == "cu") {
            units.extend(path.file_stem().and_then(|stem| stem.to_str()).map(str::to_owned));
        }
    }
    Ok(units)
}

/// The contents of the files with this extension, in the order of their names: what a unit is made
/// of beside itself.
fn sources(folders: &[&Path], extension: &str) -> Result<Vec<(PathBuf, Vec<u8>)>> {
    let mut files = Vec::new();
    for folder in folders {
        let told = |error: std::io::Error| format!("{}: {error}", folder.display());
        for entry in fs::read_dir(folder).map_err(told)? {
            let path = entry.map_err(told)?.path();
            if path.extension().is_some_and(|found| found == extension) {
                let content = fs::read(&path).map_err(told)?;
                files.push((path, content));
            }
        }
    }
    files.sort();
    Ok(files)
}

fn find() -> Result<PathBuf> {
    let file = format!("nvcc{}", env::consts::EXE_SUFFIX);
    let mut tried = Vec::new();
    if let Some(nvcc) = env::var_os("NVCC") {
        tried.push(PathBuf::from(nvcc));
    }
    if let Some(root) = env::var_os("CUDA_PATH") {
        tried.push(PathBuf::from(root).join("bin").join(&file));
    }
    if let Some(path) = env::var_os("PATH") {
        tried.extend(env::split_paths(&path).map(|folder| folder.join(&file)));
    }
    if let Some(found) = tried.iter().find(|path| path.is_file()) {
        return Ok(found.clone());
    }
    Err("nvcc, which compiles the CUDA kernels, is neither at NVCC, nor in CUDA_PATH/bin, nor in \
         PATH. It comes with NVIDIA's CUDA toolkit (https://developer.nvidia.com/cuda-downloads), \
         or from PyPI: pip install nvidia-cuda-nvcc==13.0.* nvidia-nvvm==13.0.* \
         nvidia-cuda-crt==13.0.* nvidia-cuda-runtime==13.0.* nvidia-cuda-cccl==13.0.*, then set \
         CUDA_PATH to site-packages/nvidia/cu13. Without feature `cuda` it is not needed."
        .to_owned())
}

/// What nvcc says of itself.
fn version(nvcc: &Path) -> Result<Vec<u8>> {
    let output = Command::new(nvcc).arg("--version").output();
    output.map(|output| output.stdout).map_err(|error| format!("{}: {error}", nvcc.display()))
}

fn start(
    nvcc: &Path,
    codes: &[String],
    kernels: &Path,
    out: &Path,
    unit: &str,
) -> Result<(String, Child)> {
    let mut command = Command::new(nvcc);
    command
        .args(FLAGS)
        .args(codes)
        .arg("-I")
        .arg(kernels)
        .arg("-I")
        .arg(out)
        .arg(kernels.join(format!("{unit}.cu")))
        .arg("-o")
        .arg(out.join(format!("{unit}.fatbin")))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let child = command.spawn().map_err(|error| format!("{}: {error}", nvcc.display()))?;
    Ok((unit.to_owned(), child))
}

fn finish((unit, child): (String, Child)) -> Result<()> {
    let output = child.wait_with_output().map_err(|error| format!("nvcc for {unit}: {error}"))?;
    // Registers and spills, to be found in the build script's output.
    let words = String::from_utf8_lossy(&output.stderr);
    eprintln!("{words}");
    if output.status.success() {
        return Ok(());
    }
    Err(format!("nvcc failed on {unit}.cu: {words}"))
}
