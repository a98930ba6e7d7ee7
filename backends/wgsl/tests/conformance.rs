//! The suite on every device, with the arithmetic and style that it chooses itself.

mod support;

fn main() {
    support::run(twinlock_wgsl::WgslBackend::default());
}
