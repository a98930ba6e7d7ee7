//! The whole product on each GPU backend of this build: odd circuits, Sapling on its production keys,
//! several devices, faults, cancelled work. One program, for software devices compile kernels slowly,
//! once a process. Without a device a backend's tests are reported as ignored; `TWINLOCK_REQUIRE`, a
//! list of backends, makes that a failure.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod cancel;
mod circuits;
mod faults;
#[allow(dead_code, reason = "shared with other tests")]
#[path = "../shared/odd.rs"]
mod odd;
#[cfg(feature = "sapling")]
mod sapling;
#[path = "../shared/seed.rs"]
mod seed;
mod several;

use blstrs::Scalar;
use ff::Field;
use libtest_mimic::{Arguments, Completion, Trial};
use rand_chacha::ChaCha20Rng;
use seed::rng;
use twinlock::circuits::mix::{Mix, MixShape, Profile};
use twinlock::groth16::generator::generate_parameters;
use twinlock::groth16::params::Parameters;
use twinlock::{Prover, ProverOptions, ProvingKey, registry};
use twinlock_api::FaultyBackend;
use twinlock_conformance::{Settings, on_first_device};

/// A backend whose devices can be made to fail.
trait Gpu: FaultyBackend + Copy + 'static {}

impl<B: FaultyBackend + Copy + 'static> Gpu for B {}

fn main() {
    let mut tests = Vec::new();
    #[cfg(feature = "wgsl")]
    tests.extend(tests_of(twinlock_wgsl::WgslBackend::default()));
    #[cfg(feature = "cuda")]
    tests.extend(tests_of(twinlock_cuda::CudaBackend::default()));
    tests.extend(registry::not_built().into_iter().map(|missing| not_built(missing.name)));
    let mut args = Arguments::from_args();
    // Software devices have the cores to themselves: waits are short, and tests of waits are exact.
    args.test_threads = Some(1);
    libtest_mimic::run(&args, tests).exit()
}

/// Every scene on the backend's first device, named `wgsl::faults::..`.
fn tests_of(gpu: impl Gpu) -> Vec<Trial> {
    macro_rules! tests {
        ($($(#[$when:meta])? $module:ident::$test:ident),* $(,)?) => {
            vec![$($(#[$when])? on_first_device(
                gpu,
                &[gpu.name(), stringify!($module), stringify!($test)].join("::"),
                move |device| $module::$test(gpu, device),
            )),*]
        };
    }
    tests![
        circuits::odd_circuits_equal_the_cpu,
        circuits::an_h_query_of_the_whole_domain_serves_too,
        circuits::a_wrong_witness_is_told_and_the_device_goes_on,
        circuits::a_flipped_bit_is_found_and_the_proof_made_elsewhere,
        #[cfg(feature = "sapling")]
        sapling::spend_equals_the_cpu,
        #[cfg(feature = "sapling")]
        sapling::output_equals_the_cpu,
        several::two_devices_prove_at_once,
        several::a_list_of_devices_shares_the_partitions,
        several::all_leaves_software_out,
        cancel::queued_work_goes_at_once,
        cancel::work_at_every_step_stops_within_a_stage,
        faults::out_of_memory_is_told_and_the_next_proof_works,
        faults::memory_taken_between_proofs_is_told_and_missed_only_where_needed,
        faults::a_lost_device_is_told_and_the_next_proof_works,
        faults::a_device_lost_at_work_is_opened_again,
        faults::a_timeout_is_told_and_the_next_proof_works,
    ]
}

/// Says that the scenes of a backend were left out.
fn not_built(backend: String) -> Trial {
    Trial::ignorable_test(backend.clone(), move || {
        let problem = "not part of this build";
        if Settings::from_env()?
            .require
            .iter()
            .any(|name| name.split(':').next() == Some(&*backend))
        {
            return Err(format!("TWINLOCK_REQUIRE names it, but: {problem}").into());
        }
        Ok(Completion::ignored_with(problem))
    })
}

fn options(device: &str) -> ProverOptions {
    let mut options = ProverOptions::default();
    options.device = device.into();
    options
}

const LG: u32 = 8;

fn shape(lg: u32) -> MixShape {
    MixShape::new(lg, Profile::Even).unwrap()
}

fn parameters(lg: u32, rng: &mut ChaCha20Rng) -> Parameters {
    generate_parameters(Mix::blank(shape(lg)), rng, &|_, _| ()).unwrap()
}

/// A fresh witness proved with fixed blinding factors; the prover checks the proof itself.
fn prove_one(
    prover: &Prover,
    key: &ProvingKey<'_>,
    lg: u32,
    rng: &mut ChaCha20Rng,
) -> twinlock::Result<String> {
    let circuit = Mix::random(shape(lg), rng);
    let proved = prover.prove(key, &circuit.assignment()?, Scalar::ONE, Scalar::ONE)?;
    Ok(proved.device)
}
