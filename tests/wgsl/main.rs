//! The whole product on the WGSL backend: Sapling on its production keys, several devices, faults.
//! Without a Vulkan device every test is reported as ignored; `TWINLOCK_REQUIRE=wgsl` makes that a
//! failure.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod devices;
mod faults;
mod sapling;

use blstrs::Scalar;
use ff::Field;
use libtest_mimic::Arguments;
use rand::{RngCore, SeedableRng};
use rand_chacha::ChaCha20Rng;
use twinlock::circuits::mix::{Mix, MixShape, Profile};
use twinlock::groth16::generator::generate_parameters;
use twinlock::groth16::params::Parameters;
use twinlock::{Prover, ProverOptions, ProvingKey};
use twinlock_conformance::on_first_device;
use twinlock_wgsl::WgslBackend;

fn main() {
    macro_rules! tests {
        ($($module:ident::$test:ident),* $(,)?) => {
            vec![$(
                on_first_device(WgslBackend::default(), stringify!($test), $module::$test)
            ),*]
        };
    }
    let tests = tests![
        sapling::spend_equals_the_cpu,
        sapling::output_equals_the_cpu,
        devices::two_devices_prove_at_once,
        devices::a_list_of_devices_shares_the_partitions,
        devices::all_leaves_software_out,
        faults::out_of_memory_is_told_and_the_next_proof_works,
        faults::a_lost_device_is_told_and_the_next_proof_works,
        faults::a_device_lost_at_work_is_opened_again,
        faults::a_timeout_is_told_and_the_next_proof_works,
    ];
    let mut args = Arguments::from_args();
    // Software devices have the cores to themselves: waits are short, and tests of waits are exact.
    args.test_threads = Some(1);
    libtest_mimic::run(&args, tests).exit()
}

/// A generator whose seed is printed; `TWINLOCK_SEED` replays it.
fn rng() -> ChaCha20Rng {
    let seed = std::env::var("TWINLOCK_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok())
        .unwrap_or_else(|| rand::rngs::OsRng.next_u64());
    println!("TWINLOCK_SEED={seed}");
    ChaCha20Rng::seed_from_u64(seed)
}

fn options(device: &str) -> ProverOptions {
    let mut options = ProverOptions::default();
    options.device = device.into();
    options
}

const LG: u32 = 8;

fn shape() -> MixShape {
    MixShape::new(LG, Profile::Even).unwrap()
}

fn parameters(rng: &mut ChaCha20Rng) -> Parameters {
    generate_parameters(Mix::blank(shape()), rng, &|_, _| ()).unwrap()
}

/// A fresh witness proved with fixed blinding factors; the prover checks the proof itself.
fn prove_one(
    prover: &Prover,
    key: &ProvingKey<'_>,
    rng: &mut ChaCha20Rng,
) -> twinlock::Result<String> {
    let circuit = Mix::random(shape(), rng);
    let proved = prover.prove(key, &circuit.assignment()?, Scalar::ONE, Scalar::ONE)?;
    Ok(proved.device)
}
