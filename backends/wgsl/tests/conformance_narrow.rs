//! The suite on every device as on one that lacks 64-bit integers and what Vulkan alone has.

mod support;

use twinlock_wgsl::{Arithmetic, WgslBackend};

fn main() {
    support::run(WgslBackend::default().with_arithmetic(Arithmetic::Narrow).portable());
}
