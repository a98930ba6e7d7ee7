//! Which cards there are, and whether they can be used.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_char};

use cudarc::driver::sys::{self, CUdevice_attribute as Attribute};
use twinlock_api::layout::{ARENA_ALIGN_BYTES, FR_BYTES};
use twinlock_api::{DeviceInfo, Discovered};

use crate::card::Card;
use crate::driver::{self, Refusal, check};
use crate::fatbin::{self, Code};
use crate::ops;
use crate::settings::Settings;

/// The backend's name.
pub(crate) const NAME: &str = "cuda";

/// Bytes of a card's name.
const NAME_BYTES: usize = 256;
/// `CU_COMPUTEMODE_PROHIBITED`.
const PROHIBITED: i32 = 2;

/// A card, its name here, and whether it can be used.
pub(crate) struct Found {
    pub(crate) card: Card,
    pub(crate) discovered: Discovered,
}

/// Every card, or why there is none.
pub(crate) fn find(settings: &Settings) -> Result<Vec<Found>, String> {
    let version = driver::load()?;
    let mut count = 0;
    // SAFETY: writes one number.
    check("cuDeviceGetCount", unsafe { sys::cuDeviceGetCount(&raw mut count) })
        .map_err(|refusal| refusal.to_string())?;
    if count <= 0 {
        return Err(driver::no_device());
    }
    let found = (0..count).map(|ordinal| {
        let name = format!("{NAME}:{ordinal}");
        match read(ordinal) {
            Ok((card, prohibited)) => {
                let usable = usable(&name, &card, prohibited, version, settings);
                Found { card, discovered: Discovered { name, usable } }
            }
            Err(refusal) => {
                let usable = Err(refusal.to_string());
                Found { card: Card::unknown(ordinal), discovered: Discovered { name, usable } }
            }
        }
    });
    Ok(found.collect())
}

/// What a card is, and whether nobody may use it.
fn read(ordinal: i32) -> Result<(Card, bool), Refusal> {
    let mut device = 0;
    // SAFETY: writes one handle.
    check("cuDeviceGet", unsafe { sys::cuDeviceGet(&raw mut device, ordinal) })?;
    let mut name: [c_char; NAME_BYTES] = [0; NAME_BYTES];
    // SAFETY: writes at most so many bytes, a zero among them.
    let code = unsafe { sys::cuDeviceGetName(name.as_mut_ptr(), NAME_BYTES as i32, device) };
    check("cuDeviceGetName", code)?;
    // SAFETY: the last byte is zero in any case.
    let model = unsafe { CStr::from_ptr(name.as_ptr()) }.to_string_lossy().into_owned();
    let mut memory = 0usize;
    // SAFETY: writes one number.
    let code = unsafe { sys::cuDeviceTotalMem_v2(&raw mut memory, device) };
    check("cuDeviceTotalMem", code)?;
    let attribute = |which: Attribute| {
        let mut value = 0;
        // SAFETY: writes one number.
        let code = unsafe { sys::cuDeviceGetAttribute(&raw mut value, which, device) };
        check("cuDeviceGetAttribute", code).map(|()| u32::try_from(value).unwrap_or(0))
    };
    let card = Card {
        ordinal,
        model,
        capability: (
            attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
            attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
        ),
        memory_bytes: memory as u64,
        sm_count: attribute(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
        shared_bytes_per_block: attribute(
            Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN,
        )?,
        maps_memory: attribute(Attribute::CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED)?
            != 0,
    };
    let mode = attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_MODE)?;
    Ok((card, mode == PROHIBITED as u32))
}

fn usable(
    name: &str,
    card: &Card,
    prohibited: bool,
    version: i32,
    settings: &Settings,
) -> Result<DeviceInfo, String> {
    let model = &card.model;
    if prohibited {
        return Err(format!("{model}: its compute mode is `prohibited` (see `nvidia-smi -q`)"));
    }
    // Blocks are counted by them.
    if card.sm_count == 0 {
        return Err(format!("{model}: the driver says that it has no multiprocessors"));
    }
    check_code(twinlock_cuda_kernels::images(), card).map_err(|why| format!("{model}: {why}"))?;
    let limit = settings.memory_bytes.unwrap_or(u64::MAX);
    let memory_bytes = card.memory_bytes.min(limit);
    let max_region_bytes = memory_bytes / ARENA_ALIGN_BYTES * ARENA_ALIGN_BYTES;
    let max_lg_domain = (max_region_bytes / FR_BYTES).checked_ilog2().unwrap_or(0);
    if max_lg_domain == 0 {
        return Err(format!("{model}: {memory_bytes} bytes of memory"));
    }
    let (major, minor) = card.capability;
    Ok(DeviceInfo {
        name: name.to_owned(),
        backend: NAME,
        // As other APIs name it, so that a card which two backends reach is known as one.
        model: model.clone(),
        driver: format!("NVIDIA, CUDA {}, sm_{major}{minor}", driver::version_text(version)),
        memory_bytes,
        max_region_bytes,
        max_lg_domain: max_lg_domain.min(ops::ntt::MAX_LG),
    })
}

/// Whether every unit of kernels has code for the card.
fn check_code(images: &[(&'static str, &'static [u8])], card: &Card) -> Result<(), String> {
    if images.is_empty() {
        return Err("this build has no CUDA kernels; build with feature `cuda`, which takes nvcc \
                    (a CUDA toolkit, or PyPI's nvidia-cuda-nvcc)"
            .to_owned());
    }
    let (major, minor) = card.capability;
    for (unit, image) in images {
        let Some(codes) = fatbin::codes(image) else { continue };
        if !codes.iter().any(|code| code.runs_on(card.capability)) {
            let has = codes.into_iter().map(Code::text).collect::<Vec<_>>().join(",");
            return Err(format!(
                "this build has no code for its architecture, sm_{major}{minor} (kernels {unit}: \
                 {has}); build with TWINLOCK_CUDA_ARCHS={major}{minor}"
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A fatbin of no code at all, but for sm_80.
    static ONLY_80: [u8; 80] = {
        let mut image = [0; 80];
        (image[0], image[1], image[2], image[3]) = (0x50, 0xed, 0x55, 0xba);
        (image[4], image[6], image[8]) = (1, 16, 64);
        (image[16], image[20], image[44]) = (2, 64, 80);
        image
    };

    #[test]
    fn a_card_without_code_is_told_how_to_build() {
        let card = Card::h200();
        let reason = check_code(&[("ntt", &ONLY_80)], &card).expect_err("no code");
        assert!(reason.contains("sm_90") && reason.contains("TWINLOCK_CUDA_ARCHS=90"), "{reason}");
        let older = Card { capability: (8, 6), ..Card::h200() };
        assert_eq!(check_code(&[("ntt", &ONLY_80)], &older), Ok(()));
        let reason = check_code(&[], &card).expect_err("no kernels");
        assert!(reason.contains("nvcc"), "{reason}");
    }

    #[test]
    fn a_setting_makes_a_smaller_card() {
        let card = Card::h200();
        let info = |memory_bytes| {
            let settings = Settings { memory_bytes, ..Settings::default() };
            usable("cuda:0", &card, false, 13_000, &settings)
        };
        let reason = usable("cuda:0", &card, true, 13_000, &Settings::default());
        assert!(reason.expect_err("prohibited").contains("compute mode"));
        let none = Card { sm_count: 0, ..Card::h200() };
        let reason = usable("cuda:0", &none, false, 13_000, &Settings::default());
        assert!(reason.expect_err("nothing runs there").contains("no multiprocessors"));
        // Without kernels there is nothing more to see.
        let (Ok(whole), Ok(small)) = (info(None), info(Some((1 << 30) + 100))) else {
            assert!(twinlock_cuda_kernels::images().is_empty());
            return;
        };
        assert_eq!((whole.memory_bytes, whole.max_lg_domain), (141 << 30, ops::ntt::MAX_LG));
        assert_eq!((small.max_region_bytes, small.max_lg_domain), (1 << 30, 25));
    }
}
