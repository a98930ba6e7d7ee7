//! The suite on every device, with the arithmetic of devices that lack 64-bit integers.

mod support;

use twinlock_wgsl::{Arithmetic, WgslBackend};

fn main() {
    support::run(WgslBackend::default().with_arithmetic(Arithmetic::Narrow));
}
