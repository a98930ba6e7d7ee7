//! The kernels: loaded eagerly, so that no launch loads, compiles or allocates anything.
#![allow(unsafe_code)]

use std::collections::HashMap;
use std::ffi::{CStr, c_char, c_void};

use cudarc::driver::sys::{
    self, CUfunction, CUfunction_attribute as Attribute, CUjit_option, CUlimit, CUmodule, CUresult,
};

use crate::card::Card;
use crate::driver::{Refusal, check};

/// Bytes of the driver's remarks on an image.
const LOG_BYTES: usize = 8 << 10;

/// A loaded kernel.
#[derive(Debug, Clone)]
pub(crate) struct Kernel {
    pub(crate) function: CUfunction,
    /// Sizes in bytes of its parameters.
    pub(crate) param_bytes: Vec<usize>,
    pub(crate) max_threads: u32,
    pub(crate) registers: u32,
    /// Spilled registers and arrays of a thread.
    pub(crate) local_bytes: u32,
    pub(crate) static_shared_bytes: u32,
    /// The most dynamic shared memory of a block.
    pub(crate) max_dynamic_shared_bytes: u32,
}

// SAFETY: a function handle is used under its context, from any thread.
unsafe impl Send for Kernel {}
// SAFETY: as above.
unsafe impl Sync for Kernel {}

/// All kernels by name. They live as long as their context.
#[derive(Default)]
pub(crate) struct Modules {
    kernels: HashMap<String, Kernel>,
}

impl Modules {
    /// Loads every image; the context is current.
    pub(crate) fn load(
        card: &Card,
        images: &[(&'static str, &'static [u8])],
    ) -> Result<Self, String> {
        let mut modules = Self::default();
        for (unit, image) in images {
            let functions = load_image(unit, image)?;
            for function in functions {
                let loaded = describe(card, function).map_err(|refusal| refusal.to_string());
                let (name, kernel) = loaded.map_err(|reason| format!("{unit}: {reason}"))?;
                if modules.kernels.insert(name.clone(), kernel).is_some() {
                    return Err(format!("two kernels are called {name}"));
                }
            }
        }
        modules.size_local_memory().map_err(|refusal| refusal.to_string())?;
        Ok(modules)
    }

    /// A kernel by name.
    pub(crate) fn get(&self, name: &str) -> Option<&Kernel> {
        self.kernels.get(name)
    }

    /// All of them, by name.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &Kernel)> {
        let mut all: Vec<_> =
            self.kernels.iter().map(|(name, kernel)| (name.as_str(), kernel)).collect();
        all.sort_by_key(|(name, _)| *name);
        all.into_iter()
    }

    /// Has the driver take local memory for the greediest kernel now instead of at its first
    /// launch.
    fn size_local_memory(&self) -> Result<(), Refusal> {
        let most = self.kernels.values().map(|kernel| kernel.local_bytes).max().unwrap_or(0);
        let mut now = 0usize;
        let limit = CUlimit::CU_LIMIT_STACK_SIZE;
        // SAFETY: writes one number.
        check("cuCtxGetLimit", unsafe { sys::cuCtxGetLimit(&raw mut now, limit) })?;
        let wanted = (most as usize).next_multiple_of(512).max(now);
        // Also where it is large enough: setting it takes the memory at once.
        // SAFETY: a number.
        check("cuCtxSetLimit", unsafe { sys::cuCtxSetLimit(limit, wanted) })
    }
}

/// Loads one image; its functions, or why it cannot be used.
fn load_image(unit: &str, image: &'static [u8]) -> Result<Vec<CUfunction>, String> {
    let mut log = vec![0u8; LOG_BYTES];
    let mut options =
        [CUjit_option::CU_JIT_ERROR_LOG_BUFFER, CUjit_option::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES];
    // The driver takes small values in the place of the pointer.
    let mut values: [*mut c_void; 2] =
        [log.as_mut_ptr().cast(), std::ptr::without_provenance_mut(LOG_BYTES)];
    let mut module: CUmodule = std::ptr::null_mut();
    // SAFETY: the image is a whole fatbin (or PTX that ends in a zero), the log has as many bytes
    // as is said, and both arrays have as many entries as is said.
    let code = unsafe {
        sys::cuModuleLoadDataEx(
            &raw mut module,
            image.as_ptr().cast(),
            options.len() as u32,
            options.as_mut_ptr(),
            values.as_mut_ptr(),
        )
    };
    check("cuModuleLoadDataEx", code).map_err(|refusal| {
        let log: Vec<u8> = log.into_iter().take_while(|byte| *byte != 0).collect();
        let log = String::from_utf8_lossy(&log);
        let log = log.split_whitespace().collect::<Vec<_>>().join(" ");
        let how = match refusal.code {
            CUresult::CUDA_ERROR_NO_BINARY_FOR_GPU
            | CUresult::CUDA_ERROR_UNSUPPORTED_PTX_VERSION
            | CUresult::CUDA_ERROR_JIT_COMPILER_NOT_FOUND
            | CUresult::CUDA_ERROR_INVALID_PTX => {
                "; build with TWINLOCK_CUDA_ARCHS naming this card's architecture"
            }
            _ => "",
        };
        format!("kernels {unit}: {refusal} {log}{how}")
    })?;
    functions(module).map_err(|refusal| format!("kernels {unit}: {refusal}"))
}

fn functions(module: CUmodule) -> Result<Vec<CUfunction>, Refusal> {
    let mut count = 0;
    // SAFETY: writes one number.
    let code = unsafe { sys::cuModuleGetFunctionCount(&raw mut count, module) };
    check("cuModuleGetFunctionCount", code)?;
    let mut functions: Vec<CUfunction> = vec![std::ptr::null_mut(); count as usize];
    // SAFETY: there is room for as many as are asked for.
    let code = unsafe { sys::cuModuleEnumerateFunctions(functions.as_mut_ptr(), count, module) };
    check("cuModuleEnumerateFunctions", code)?;
    Ok(functions)
}

/// Loads a function's code and reads what it needs.
fn describe(card: &Card, function: CUfunction) -> Result<(String, Kernel), Refusal> {
    // SAFETY: a function of a module that stays loaded.
    check("cuFuncLoad", unsafe { sys::cuFuncLoad(function) })?;
    let mut name: *const c_char = std::ptr::null();
    // SAFETY: writes a pointer to a string that lives as long as the module.
    check("cuFuncGetName", unsafe { sys::cuFuncGetName(&raw mut name, function) })?;
    // SAFETY: the driver's strings end in a zero.
    let name = unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned();
    let attribute = |which: Attribute| {
        let mut value = 0;
        // SAFETY: writes one number.
        let code = unsafe { sys::cuFuncGetAttribute(&raw mut value, which, function) };
        check("cuFuncGetAttribute", code).map(|()| u32::try_from(value).unwrap_or(0))
    };
    let mut param_bytes = Vec::new();
    loop {
        let (mut offset, mut size) = (0usize, 0usize);
        let at = param_bytes.len();
        // SAFETY: writes two numbers; an index past the last is refused.
        let code = unsafe { sys::cuFuncGetParamInfo(function, at, &raw mut offset, &raw mut size) };
        if code == CUresult::CUDA_ERROR_INVALID_VALUE {
            break;
        }
        check("cuFuncGetParamInfo", code)?;
        param_bytes.push(size);
    }
    let static_shared_bytes = attribute(Attribute::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES)?;
    let max_dynamic_shared_bytes =
        card.shared_bytes_per_block.saturating_sub(static_shared_bytes) / 16 * 16;
    // Without asking, a block has 48 KiB.
    let (which, value) = (
        Attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
        i32::try_from(max_dynamic_shared_bytes).unwrap_or(i32::MAX),
    );
    // SAFETY: a number.
    check("cuFuncSetAttribute", unsafe { sys::cuFuncSetAttribute(function, which, value) })?;
    let kernel = Kernel {
        function,
        param_bytes,
        max_threads: attribute(Attribute::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK)?,
        registers: attribute(Attribute::CU_FUNC_ATTRIBUTE_NUM_REGS)?,
        local_bytes: attribute(Attribute::CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES)?,
        static_shared_bytes,
        max_dynamic_shared_bytes,
    };
    Ok((name, kernel))
}
