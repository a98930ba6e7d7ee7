//! Transforms on the device against the CPU backend's.

mod gpu;

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use twinlock_cpu::field::Fr;
use twinlock_cpu::ntt::{self, Direction, Order};
use twinlock_shaders::Arithmetic;
use twinlock_shaders::kernels::ntt::{
    Buffer, Dispatch, KERNELS, LG_TILE, MAX_LG, Transform, plan, plan_in_steps, workspace_bytes,
};

struct Ntts {
    gpu: gpu::Gpu,
    pipelines: Vec<wgpu::ComputePipeline>,
}

impl Ntts {
    fn open(arithmetic: Arithmetic) -> Option<Self> {
        let gpu = gpu::open(arithmetic)?;
        let pipelines =
            KERNELS.iter().map(|kernel| gpu.pipeline(&kernel.build(arithmetic))).collect();
        Some(Self { gpu, pipelines })
    }

    /// The transform of `values`, in a view with an offset.
    fn run(&self, transform: Transform, values: &[Fr]) -> Vec<Fr> {
        self.dispatch(transform.lg, &plan(transform).expect("in range"), values)
    }

    fn dispatch(&self, lg: u32, dispatches: &[Dispatch], values: &[Fr]) -> Vec<Fr> {
        const PAD: u32 = 6;
        let words: &[u32] = bytemuck::cast_slice(values);
        let data = self.gpu.buffer(&[&[9; 4 * PAD as usize], words].concat());
        let bytes = workspace_bytes(lg).expect("in range");
        let tables = self.gpu.buffer(&vec![!0; bytes as usize / 4 + 8]);
        for dispatch in dispatches {
            let found = KERNELS.iter().position(|kernel| kernel.name == dispatch.kernel.name);
            let found = found.expect("one of the kernels");
            let (mut params, mut buffers) = (vec![], vec![]);
            for buffer in dispatch.buffers {
                let (buffer, offset) = match buffer {
                    Buffer::Data => (&data, PAD),
                    Buffer::Tables => (&tables, 2),
                };
                buffers.push(buffer);
                params.push(offset);
            }
            params.extend(&dispatch.params);
            self.gpu.dispatch(&self.pipelines[found], &buffers, &params, [dispatch.groups, 1]);
        }
        let found = self.gpu.read(&data);
        let (before, found) = found.split_at(4 * PAD as usize);
        assert!(before.iter().all(|word| *word == 9), "words before the view were written");
        bytemuck::cast_slice(found)[..values.len()].to_vec()
    }
}

fn all(lg: u32) -> impl Iterator<Item = Transform> {
    (0..16u32).map(move |bits| Transform {
        lg,
        inverse: bits & 1 != 0,
        coset: bits & 2 != 0,
        natural_input: bits & 4 != 0,
        natural_output: bits & 8 != 0,
    })
}

fn on_the_cpu(transform: Transform, values: &[Fr]) -> Vec<Fr> {
    let order = |natural| if natural { Order::Natural } else { Order::BitReversed };
    let same = ntt::Transform {
        direction: if transform.inverse { Direction::Inverse } else { Direction::Forward },
        coset: transform.coset,
        input: order(transform.natural_input),
        output: order(transform.natural_output),
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let bytes = ntt::workspace_bytes(transform.lg, threads).expect("in range");
    let mut workspace = vec![0u64; bytes / 8];
    let mut out = values.to_vec();
    ntt::ntt(same, transform.lg, &mut out, bytemuck::cast_slice_mut(&mut workspace)).expect("ntt");
    out
}

fn random(lg: u32, rng: &mut ChaCha8Rng) -> Vec<Fr> {
    let draw = |_| {
        let mut value = Fr(rng.r#gen());
        value.0[3] >>= 2;
        value
    };
    (0..1 << lg).map(draw).collect()
}

fn check(arithmetic: Arithmetic, sizes: impl IntoIterator<Item = u32>) {
    let Some(ntts) = Ntts::open(arithmetic) else { return };
    let seed = rand::random();
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    for lg in sizes {
        let values = random(lg, &mut rng);
        for transform in all(lg) {
            let found = ntts.run(transform, &values);
            let expected = on_the_cpu(transform, &values);
            let differs = found.iter().zip(&expected).position(|(a, b)| a != b);
            assert_eq!(differs, None, "{transform:?}, {arithmetic:?}, seed {seed}");
        }
    }
}

#[test]
fn every_transform_wide() {
    check(Arithmetic::Wide, 0..=14);
}

#[test]
fn every_transform_narrow() {
    check(Arithmetic::Narrow, 0..=14);
}

#[test]
fn every_transform_sparse() {
    check(Arithmetic::Sparse, 0..=12);
}

#[test]
fn three_passes() {
    let Some(ntts) = Ntts::open(Arithmetic::Sparse) else { return };
    let seed = rand::random();
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let lg = 2 * LG_TILE + 1;
    let values = random(lg, &mut rng);
    // Both directions and orders, each with a coset or without, for time.
    let some = all(lg)
        .filter(|t| t.natural_input != t.natural_output)
        .filter(|t| t.coset == (t.inverse == t.natural_input));
    for transform in some {
        let found = ntts.run(transform, &values);
        assert!(found == on_the_cpu(transform, &values), "{transform:?}, seed {seed}");
    }
}

/// Large domains take several dispatches a pass.
#[test]
fn passes_in_steps() {
    let Some(ntts) = Ntts::open(Arithmetic::Narrow) else { return };
    let seed = rand::random();
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let values = random(LG_TILE + 3, &mut rng);
    for max_tiles in [1, 3] {
        for transform in all(LG_TILE + 3) {
            let plan = plan_in_steps(transform, max_tiles).expect("in range");
            let found = ntts.dispatch(transform.lg, &plan, &values);
            let expected = on_the_cpu(transform, &values);
            assert!(found == expected, "{transform:?} by {max_tiles}, seed {seed}");
        }
    }
}

#[test]
fn plans_are_bounded() {
    for transform in all(MAX_LG).chain(all(22)) {
        let plan = plan(transform).expect("in range");
        assert!(plan.iter().all(|dispatch| (1..=65_535).contains(&dispatch.groups)));
    }
    assert!(all(MAX_LG + 1).all(|transform| plan(transform).is_none()));
    assert_eq!(workspace_bytes(MAX_LG + 1), None);
    assert!(workspace_bytes(22).expect("in range") <= 2 << 20);
}
