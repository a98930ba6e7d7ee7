//! Fr to and from Montgomery form.

use blstrs::Scalar;
use twinlock_api::op::Convert;
use twinlock_api::{FrView, Op};

use super::{LENGTHS, edge_values};
use crate::harness::{Fixture, Trial, Verdict, ensure, first_difference, passed};
use crate::oracle::{fr_modulus_bytes, frs_to_bytes};

pub(super) fn trials() -> Vec<Trial> {
    vec![
        Trial { name: "convert::to_montgomery", run: to_montgomery },
        Trial { name: "convert::from_montgomery", run: from_montgomery },
        Trial { name: "convert::first_value_not_below_r", run: first_value_not_below_r },
        Trial { name: "convert::status_is_only_lowered", run: status_is_only_lowered },
    ]
}

fn integers(values: &[Scalar]) -> Vec<u8> {
    values.iter().flat_map(Scalar::to_bytes_le).collect()
}

fn to_montgomery(f: &mut Fixture) -> Verdict {
    for len in LENGTHS {
        let values = edge_values(len, &mut f.rng);
        let bytes = integers(&values);
        let source = f.work("source", bytes.len() as u64)?;
        f.put(source, &bytes)?;
        let source = FrView::new(source)?;
        let target = FrView::new(f.work("target", bytes.len() as u64)?)?;
        for target in [target, source] {
            let status = f.status()?;
            f.run(Op::ToMontgomery(Convert::new(source, target, status)?))?;
            first_difference("to Montgomery", &f.get(target.view())?, &frs_to_bytes(&values))?;
            let status = f.get_status(status)?;
            ensure(status == u32::MAX, || format!("status {status} for good values"))?;
        }
    }
    passed()
}

fn from_montgomery(f: &mut Fixture) -> Verdict {
    for len in LENGTHS {
        let values = edge_values(len, &mut f.rng);
        let source = f.put_frs("source", &values)?;
        let target = FrView::new(f.work("target", len as u64 * 32)?)?;
        for target in [target, source] {
            let status = f.status()?;
            f.run(Op::FromMontgomery(Convert::new(source, target, status)?))?;
            first_difference("from Montgomery", &f.get(target.view())?, &integers(&values))?;
            let status = f.get_status(status)?;
            ensure(status == u32::MAX, || format!("status {status} for good values"))?;
        }
    }
    passed()
}

/// r, r + 1, 2^256 - 1, 2^255 and values that differ from r in one limb only.
fn bad_integers() -> Vec<[u8; 32]> {
    let r = fr_modulus_bytes();
    let mut next = r;
    next[0] += 1;
    let mut top = r;
    top[31] += 1;
    top[0] = 0;
    let mut middle = r;
    middle[16] += 1;
    middle[0] = 0;
    let mut half = [0; 32];
    half[31] = 0x80;
    vec![r, next, [0xff; 32], half, top, middle]
}

fn first_value_not_below_r(f: &mut Fixture) -> Verdict {
    for bad in bad_integers() {
        for (len, places) in [
            (1, vec![0]),
            (300, vec![0]),
            (300, vec![299]),
            (300, vec![31, 32, 256]),
            (300, vec![257, 255]),
        ] {
            let values = edge_values(len, &mut f.rng);
            let mut bytes = integers(&values);
            for place in &places {
                bytes[place * 32..place * 32 + 32].copy_from_slice(&bad);
            }
            let source = f.work("source", bytes.len() as u64)?;
            f.put(source, &bytes)?;
            let source = FrView::new(source)?;
            let target = FrView::new(f.work("target", bytes.len() as u64)?)?;
            for target in [target, source] {
                let status = f.status()?;
                f.run(Op::ToMontgomery(Convert::new(source, target, status)?))?;
                let found = f.get_status(status)?;
                let first = places.iter().copied().min().unwrap_or(0);
                ensure(found as usize == first, || {
                    format!("status {found} with {bad:02x?} first at {first} of {len}")
                })?;
                // Elements that are good are converted all the same.
                let converted = f.get(target.view())?;
                for (i, value) in values.iter().enumerate().filter(|(i, _)| !places.contains(i)) {
                    let what = format!("element {i} beside bad ones");
                    let expected = frs_to_bytes(&[*value]);
                    first_difference(&what, &converted[i * 32..i * 32 + 32], &expected)?;
                }
            }
        }
    }
    passed()
}

fn status_is_only_lowered(f: &mut Fixture) -> Verdict {
    let status = f.status()?;
    let mut expected = u32::MAX;
    for place in [200usize, 250, 100, 299, 3, 4] {
        let mut bytes = integers(&edge_values(300, &mut f.rng));
        bytes[place * 32..place * 32 + 32].copy_from_slice(&fr_modulus_bytes());
        let view = f.work("source", bytes.len() as u64)?;
        f.put(view, &bytes)?;
        let view = FrView::new(view)?;
        f.run(Op::ToMontgomery(Convert::new(view, view, status)?))?;
        expected = expected.min(place as u32);
        let found = f.get_status(status)?;
        ensure(found == expected, || format!("status {found}, expected {expected}"))?;
    }
    passed()
}
