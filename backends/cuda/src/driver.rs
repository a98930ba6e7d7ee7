//! The driver: whether it is there, and what its answers mean.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_char};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;

use cudarc::driver::sys::{self, CUresult};

/// The least CUDA version of a driver, as `cuDriverGetVersion` gives it (1000 * major +
/// 10 * minor): that of the toolkit which the kernels are built with.
pub(crate) const MIN_VERSION: i32 = 13_000;

/// A call that the driver refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) call: &'static str,
    pub(crate) code: CUresult,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.call, words(self.code))
    }
}

/// What an answer of the driver means for the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// No room now.
    OutOfMemory,
    /// The call was wrong; nothing happened.
    Refused,
    /// The context is dead: every later call fails.
    Lost,
}

impl Refusal {
    /// What it means.
    pub(crate) const fn meaning(self) -> Meaning {
        use CUresult::{
            CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE, CUDA_ERROR_FUNCTION_NOT_LOADED,
            CUDA_ERROR_INVALID_CLUSTER_SIZE, CUDA_ERROR_INVALID_HANDLE, CUDA_ERROR_INVALID_IMAGE,
            CUDA_ERROR_INVALID_PTX, CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_JIT_COMPILATION_DISABLED,
            CUDA_ERROR_JIT_COMPILER_NOT_FOUND, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES,
            CUDA_ERROR_NO_BINARY_FOR_GPU, CUDA_ERROR_NOT_FOUND, CUDA_ERROR_NOT_PERMITTED,
            CUDA_ERROR_NOT_SUPPORTED, CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_UNSUPPORTED_LIMIT,
            CUDA_ERROR_UNSUPPORTED_PTX_VERSION,
        };
        match self.code {
            CUDA_ERROR_OUT_OF_MEMORY => Meaning::OutOfMemory,
            CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE
            | CUDA_ERROR_FUNCTION_NOT_LOADED
            | CUDA_ERROR_INVALID_CLUSTER_SIZE
            | CUDA_ERROR_INVALID_HANDLE
            | CUDA_ERROR_INVALID_IMAGE
            | CUDA_ERROR_INVALID_PTX
            | CUDA_ERROR_INVALID_VALUE
            | CUDA_ERROR_JIT_COMPILATION_DISABLED
            | CUDA_ERROR_JIT_COMPILER_NOT_FOUND
            | CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES
            | CUDA_ERROR_NO_BINARY_FOR_GPU
            | CUDA_ERROR_NOT_FOUND
            | CUDA_ERROR_NOT_PERMITTED
            | CUDA_ERROR_NOT_SUPPORTED
            | CUDA_ERROR_UNSUPPORTED_LIMIT
            | CUDA_ERROR_UNSUPPORTED_PTX_VERSION => Meaning::Refused,
            // Illegal addresses, traps, uncorrectable errors of memory and links, a card that fell
            // off the bus, and whatever a newer driver calls such things.
            _ => Meaning::Lost,
        }
    }
}

/// Makes an error of an answer that is not success.
pub(crate) fn check(call: &'static str, code: CUresult) -> Result<(), Refusal> {
    if code == CUresult::CUDA_SUCCESS { Ok(()) } else { Err(Refusal { call, code }) }
}

/// The driver's own words for an answer.
fn words(code: CUresult) -> String {
    let mut name: *const c_char = std::ptr::null();
    let mut text: *const c_char = std::ptr::null();
    // SAFETY: both take any code and write a pointer to a static string, or null.
    let known = unsafe {
        sys::cuGetErrorName(code, &raw mut name) == CUresult::CUDA_SUCCESS
            && sys::cuGetErrorString(code, &raw mut text) == CUresult::CUDA_SUCCESS
    };
    if !known || name.is_null() || text.is_null() {
        return format!("{code:?}");
    }
    // SAFETY: the driver's strings end in a zero and live as long as it.
    let (name, text) = unsafe { (CStr::from_ptr(name), CStr::from_ptr(text)) };
    format!("{} ({})", name.to_string_lossy(), text.to_string_lossy())
}

/// A CUDA version in the usual way.
pub(crate) fn version_text(version: i32) -> String {
    format!("{}.{}", version / 1000, version % 1000 / 10)
}

/// A driver that is there and new enough: its CUDA version. Else what is missing.
pub(crate) fn load() -> Result<i32, String> {
    static LOADED: OnceLock<Result<i32, String>> = OnceLock::new();
    LOADED.get_or_init(|| guarded(find)).clone()
}

/// Runs `f`, which may ask the library for a symbol that it lacks.
fn guarded<T>(f: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(f))
        .unwrap_or_else(|_| Err("the driver library lacks a function".to_owned()))
}

fn find() -> Result<i32, String> {
    // SAFETY: loads a library of that name, whose initialisers are the driver's.
    if !unsafe { sys::is_culib_present() } {
        let file = if cfg!(windows) { "nvcuda.dll" } else { "libcuda.so.1 (or libcuda.so)" };
        return Err(format!(
            "no NVIDIA driver: {file} is not in the library path; it comes with the driver, and a \
             container needs the NVIDIA container toolkit to see it"
        ));
    }
    let mut version = 0;
    // SAFETY: writes one integer; works before `cuInit`.
    let code = unsafe { sys::cuDriverGetVersion(&raw mut version) };
    check("cuDriverGetVersion", code).map_err(|refusal| refusal.to_string())?;
    check_version(version)?;
    // SAFETY: may be called any number of times.
    let code = unsafe { sys::cuInit(0) };
    match check("cuInit", code) {
        Ok(()) => Ok(version),
        Err(Refusal { code: CUresult::CUDA_ERROR_NO_DEVICE, .. }) => Err(no_device()),
        Err(Refusal { code: CUresult::CUDA_ERROR_STUB_LIBRARY, .. }) => {
            Err("the libcuda found is the toolkit's stub for linking, not a driver; install one"
                .to_owned())
        }
        Err(refusal) => Err(refusal.to_string()),
    }
}

/// What to say where the driver sees no card.
pub(crate) fn no_device() -> String {
    let hidden = std::env::var("CUDA_VISIBLE_DEVICES").ok();
    let note = hidden.map_or_else(String::new, |list| format!(" (CUDA_VISIBLE_DEVICES={list})"));
    format!("the NVIDIA driver is there but sees no GPU{note}; see `nvidia-smi`")
}

fn check_version(version: i32) -> Result<(), String> {
    if version >= MIN_VERSION {
        return Ok(());
    }
    Err(format!(
        "the NVIDIA driver is too old: it has CUDA {}, this build needs {} (driver 580 or newer)",
        version_text(version),
        version_text(MIN_VERSION)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_drivers_are_told_both_versions() {
        assert_eq!(check_version(MIN_VERSION), Ok(()));
        assert_eq!(check_version(13_020), Ok(()));
        let reason = check_version(12_080).expect_err("too old");
        assert!(reason.contains("12.8") && reason.contains("13.0"), "{reason}");
    }

    #[test]
    fn looking_for_a_driver_never_panics() {
        if let Err(reason) = load() {
            assert!(reason.contains("driver"), "{reason}");
        }
    }

    #[test]
    fn a_missing_function_is_an_error() {
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(|_| {}));
        let outcome = guarded::<()>(|| panic!("Missing symbol"));
        std::panic::set_hook(hook);
        assert!(outcome.is_err());
    }

    #[test]
    fn answers_are_sorted() {
        let meaning = |code| Refusal { call: "x", code }.meaning();
        assert_eq!(meaning(CUresult::CUDA_ERROR_OUT_OF_MEMORY), Meaning::OutOfMemory);
        assert_eq!(meaning(CUresult::CUDA_ERROR_INVALID_VALUE), Meaning::Refused);
        for code in [
            CUresult::CUDA_ERROR_ILLEGAL_ADDRESS,
            CUresult::CUDA_ERROR_LAUNCH_FAILED,
            CUresult::CUDA_ERROR_ECC_UNCORRECTABLE,
            CUresult::CUDA_ERROR_UNKNOWN,
        ] {
            assert_eq!(meaning(code), Meaning::Lost);
        }
    }
}
