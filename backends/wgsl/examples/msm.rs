//! Times of an MSM's three operations on bases and scalars that lie on the device:
//! `cargo run --release -p twinlock-wgsl --example msm -- [g1|g2] [LG..] [--bits C..]`, e.g.
//! `msm -- g1 20 22 g2 18 --bits 15 16`. Device `wgsl:0`, or `TWINLOCK_DEVICE`.
//!
//! Scalars are random, then 51% zeros, 47% ones and 2% random (a Filecoin witness's shares), then
//! ones alone. Bases are copies of a tile of 2^14 points of known logarithms, by which each sum
//! is checked. Prints medians of five runs in milliseconds; the first use compiles.
#![allow(clippy::print_stdout)]

use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

use blstrs::Scalar;
use ff::Field;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use twinlock_api::op::{BaseOf, Digits, DigitsShape, Fill, MsmAccumulate, MsmReduce};
use twinlock_api::{
    Backend, Device, Event, FrView, MemoryClass, Op, OpenOptions, PointView, Region, StagingKind,
    Stream, View,
};
use twinlock_conformance::oracle::{
    CurveOracle, G1, G2, KnownBases, combine, frs_to_bytes, known_bases, msm_by_logs,
};
use twinlock_wgsl::WgslBackend;

const TILE: usize = 1 << 14;
const RUNS: usize = 5;
const PROFILES: [&str; 3] = ["random", "witness", "ones"];
const TIMEOUT: Duration = Duration::from_secs(600);

type Result<T, E = Box<dyn Error>> = std::result::Result<T, E>;

struct Bench {
    device: Arc<dyn Device>,
    stream: Stream,
}

impl Bench {
    fn allocate(&self, name: &'static str, class: MemoryClass, bytes: u64) -> Result<Region> {
        Ok(self.device.allocate(name, class, bytes.next_multiple_of(256).max(256))?)
    }

    /// Fills `view` with copies of `bytes`.
    fn put(&self, view: View, bytes: &[u8]) -> Result<()> {
        let mut staging =
            self.device.allocate_staging("upload", StagingKind::Upload, bytes.len() as u64)?;
        staging.host(TIMEOUT)?.copy_from_slice(bytes);
        for start in (0..view.len_bytes()).step_by(bytes.len()) {
            let len = (bytes.len() as u64).min(view.len_bytes() - start);
            self.device.upload(self.stream, &mut *staging, 0, view.slice(start, len)?)?;
        }
        self.sync().map(|_| ())
    }

    fn get(&self, view: View) -> Result<Vec<u8>> {
        let size = view.len_bytes();
        let mut staging = self.device.allocate_staging("download", StagingKind::Download, size)?;
        self.device.download(self.stream, view, &mut *staging, 0)?;
        Ok(staging.host(TIMEOUT)?.to_vec())
    }

    fn sync(&self) -> Result<Event> {
        let event = self.device.record(self.stream)?;
        self.device.synchronize(&event, TIMEOUT)?;
        Ok(event)
    }

    /// Milliseconds that the operations take.
    fn time(&self, ops: &[Op]) -> Result<f64> {
        let start = Instant::now();
        for op in ops {
            self.device.enqueue(self.stream, op)?;
        }
        self.sync()?;
        Ok(start.elapsed().as_secs_f64() * 1e3)
    }

    fn msm<C: CurveOracle>(&self, lg: u32, window_bits: Option<u32>) -> Result<()> {
        let len = 1usize << lg;
        let mut rng = ChaCha8Rng::seed_from_u64(7);
        let tile: KnownBases<C> = known_bases::<C>(TILE.min(len), &mut rng);
        let window_bits =
            window_bits.unwrap_or_else(|| self.device.window_bits(C::GROUP, len as u64));
        let shape = DigitsShape::new(len as u64, window_bits);
        let digits = self.device.digits_layout(shape)?;
        let layout = self.device.msm_layout(C::GROUP, shape)?;
        let windows_bytes = u64::from(layout.num_windows) * C::GROUP.jacobian_bytes();
        let work = |name, bytes| self.allocate(name, MemoryClass::Work, bytes);
        let bases_bytes = len as u64 * C::GROUP.affine_bytes();
        let regions = [
            self.allocate("bases", MemoryClass::Resident, bases_bytes)?,
            work("scalars", len as u64 * 32)?,
            work("plan", digits.plan_bytes)?,
            work("digits workspace", digits.workspace_bytes)?,
            work("accumulator", layout.accumulator_bytes)?,
            work("accumulate workspace", layout.accumulate_workspace_bytes)?,
            work("reduce workspace", layout.reduce_workspace_bytes)?,
            work("windows", windows_bytes)?,
        ];
        let [bases, scalars, plan, digits_work, accumulator, work, reduce_work, windows] = regions;
        let bases = bases.view("bases", 0, bases_bytes)?;
        let scalars = scalars.view("scalars", 0, len as u64 * 32)?;
        let windows = windows.view("windows", 0, windows_bytes)?;
        let accumulator = accumulator.whole("accumulator")?;
        let plan = plan.whole("plan")?;
        let make =
            Digits::new(&digits, FrView::new(scalars)?, plan, digits_work.whole("scratch")?)?;
        let points = PointView::new(bases, C::GROUP)?;
        let add = MsmAccumulate::new(
            &layout,
            (plan, len as u64),
            points,
            BaseOf::same(),
            accumulator,
            work.whole("scratch")?,
        )?;
        let reduce = MsmReduce::new(&layout, accumulator, windows, reduce_work.whole("scratch")?)?;
        let steps = [
            vec![Op::Digits(make)],
            vec![Op::Fill(Fill::zero(accumulator)), Op::MsmAccumulate(add)],
            vec![Op::MsmReduce(reduce)],
        ];
        let all = steps.concat();

        self.put(bases, &C::encode_all(&tile.points))?;
        for profile in PROFILES {
            let values: Vec<Scalar> = (0..len)
                .map(|_| match (profile, rng.gen_range(0..100)) {
                    ("random", _) | ("witness", 98..) => Scalar::random(&mut rng),
                    ("witness", 0..51) => Scalar::ZERO,
                    _ => Scalar::ONE,
                })
                .collect();
            self.put(scalars, &frs_to_bytes(&values))?;
            let first = self.time(&all)?;
            let found = combine::<C>(&C::decode_jacobian(&self.get(windows)?)?, shape.window_bits);
            let mut sums = vec![Scalar::ZERO; tile.logs.len()];
            values.iter().enumerate().for_each(|(i, value)| sums[i % tile.logs.len()] += value);
            let verdict =
                if found == msm_by_logs::<C>(&sums, &tile.logs) { "right" } else { "WRONG" };
            let mut times = vec![Vec::new(); steps.len() + 1];
            for _ in 0..RUNS {
                for (step, times) in steps.iter().chain([&all]).zip(&mut times) {
                    times.push(self.time(step)?);
                }
            }
            let median = |times: &mut Vec<f64>| {
                times.sort_by(f64::total_cmp);
                times[RUNS / 2]
            };
            let [digits, accumulate, reduce, total] = [0, 1, 2, 3].map(|i| median(&mut times[i]));
            println!(
                "{} 2^{lg} {profile:8} window_bits {window_bits:2}: digits {digits:8.2} accumulate \
                 {accumulate:8.2} reduce {reduce:8.2} all {total:8.2} ms (first {first:.0}), {verdict}",
                C::GROUP.name()
            );
        }
        for region in regions {
            self.device.free(region)?;
        }
        Ok(())
    }
}

fn main() -> Result<()> {
    let name = std::env::var("TWINLOCK_DEVICE").unwrap_or_else(|_| "wgsl:0".to_owned());
    let device = WgslBackend::default().open(&name, &OpenOptions::default())?;
    println!("{name}: {}", device.info().model);
    let stream = device.create_stream("bench")?;
    let bench = Bench { device, stream };
    let args: Vec<String> = std::env::args().skip(1).collect();
    let split = args.iter().position(|arg| arg == "--bits").unwrap_or(args.len());
    let widths = args.iter().skip(split + 1).map(|bits| bits.parse().map(Some));
    let mut widths = widths.collect::<std::result::Result<Vec<Option<u32>>, _>>()?;
    if widths.is_empty() {
        widths.push(None);
    }
    let mut group = "g1";
    for arg in &args[..split] {
        match arg.as_str() {
            "g1" | "g2" => group = arg,
            lg => {
                for window_bits in &widths {
                    match group {
                        "g1" => bench.msm::<G1>(lg.parse()?, *window_bits)?,
                        _ => bench.msm::<G2>(lg.parse()?, *window_bits)?,
                    }
                }
            }
        }
    }
    Ok(())
}
