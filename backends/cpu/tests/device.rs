//! The device: order, errors, ownership. What operations compute is tested by their kernels.

use std::sync::Arc;
use std::time::Duration;
use twinlock_api::layout::FR_BYTES;
use twinlock_api::op::{
    BaseOf, Copy, Digits, DigitsShape, Direction, Fill, MsmAccumulate, MsmReduce, Ntt, Order,
    Vector,
};
use twinlock_api::{
    Backend, Device, Error, FrView, Group, MemoryClass, Op, OpenOptions, PointView, Region,
    Staging, StagingKind, Stream, View,
};
use twinlock_cpu::CpuBackend;
use twinlock_cpu::field::{Affine, Fp, Fr, Jacobian};
use twinlock_cpu::msm::combine;

const SOON: Duration = Duration::from_secs(30);

struct Setup {
    device: Arc<dyn Device>,
    stream: Stream,
    region: Region,
    used_bytes: u64,
}

impl Setup {
    fn new() -> Self {
        let options = OpenOptions { threads: Some(2) };
        let device = CpuBackend.open("cpu", &options).expect("open");
        let stream = device.create_stream("test").expect("stream");
        let region = device.allocate("test", MemoryClass::Work, 1 << 26).expect("memory");
        Self { device, stream, region, used_bytes: 0 }
    }

    fn view(&mut self, name: &'static str, len_bytes: u64) -> View {
        let view = self.region.view(name, self.used_bytes, len_bytes).expect("room");
        self.used_bytes = view.end_bytes().next_multiple_of(256);
        view
    }

    fn upload(&mut self, name: &'static str, bytes: &[u8]) -> View {
        let view = self.view(name, bytes.len() as u64);
        let mut staging = self
            .device
            .allocate_staging(name, StagingKind::Upload, bytes.len() as u64)
            .expect("staging");
        staging.host(SOON).expect("free").copy_from_slice(bytes);
        self.device.upload(self.stream, &mut *staging, 0, view).expect("upload");
        view
    }

    fn run(&self, op: Op) {
        self.device.enqueue(self.stream, &op).expect("enqueue");
    }

    fn download(&self, view: View) -> Vec<u8> {
        let mut staging = self.staging(view.len_bytes());
        self.device.download(self.stream, view, &mut *staging, 0).expect("download");
        staging.host(SOON).expect("done").to_vec()
    }

    fn staging(&self, len_bytes: u64) -> Box<dyn Staging> {
        self.device.allocate_staging("out", StagingKind::Download, len_bytes).expect("staging")
    }

    fn outcome(&self, stream: Stream) -> Result<(), Error> {
        self.device.synchronize(&self.device.record(stream).expect("record"), SOON)
    }
}

/// Elements from bytes of any alignment.
fn collect<T: bytemuck::Pod>(bytes: &[u8]) -> Vec<T> {
    bytes.chunks_exact(size_of::<T>()).map(bytemuck::pod_read_unaligned).collect()
}

fn fr_view(view: View) -> FrView {
    FrView::new(view).expect("aligned")
}

#[test]
fn an_msm_through_views() {
    let mut setup = Setup::new();
    let generator = blst_generator();
    let n = 100u64;
    let scalars: Vec<Fr> = (1..=n).map(Fr::from_u64).collect();
    let bases = vec![generator; n as usize];
    // A plan for more scalars than it gets.
    let shape = DigitsShape::new(150, 5);
    let digits = setup.device.digits_layout(shape).expect("layout");
    let layout = setup.device.msm_layout(Group::G1, shape).expect("layout");

    let scalars = setup.upload("scalars", bytemuck::cast_slice(&scalars));
    let bases = setup.upload("bases", bytemuck::cast_slice(&bases));
    let bases = PointView::new(bases, Group::G1).expect("points");
    let plan = setup.view("plan", digits.plan_bytes);
    let accumulator = setup.view("accumulator", layout.accumulator_bytes);
    let workspace_bytes = digits
        .workspace_bytes
        .max(layout.accumulate_workspace_bytes)
        .max(layout.reduce_workspace_bytes);
    let workspace = setup.view("workspace", workspace_bytes);
    let windows_bytes = u64::from(layout.num_windows) * Group::G1.jacobian_bytes();
    let windows = setup.view("windows", windows_bytes);
    setup.run(Op::Fill(Fill::new(workspace, 0xdead_beef)));
    setup.run(Op::Digits(Digits::new(&digits, fr_view(scalars), plan, workspace).expect("digits")));
    setup.run(Op::Fill(Fill::zero(accumulator)));
    let accumulate =
        MsmAccumulate::new(&layout, (plan, n), bases, BaseOf::same(), accumulator, workspace);
    setup.run(Op::MsmAccumulate(accumulate.expect("accumulate")));
    let reduce = MsmReduce::new(&layout, accumulator, windows, workspace).expect("reduce");
    setup.run(Op::MsmReduce(reduce));

    let bytes = setup.download(windows);
    let windows: Vec<Jacobian<Fp>> = collect(&bytes);
    // 1 + 2 + ... + 100 times the generator.
    let mut expected = Jacobian::IDENTITY;
    for _ in 0..5050 {
        expected = twinlock_cpu::field::Coordinate::jacobian_add(&expected, &generator.into());
    }
    assert_eq!(combine(&windows, 5).to_affine(), expected.to_affine());
}

/// Plans that were never made, or for something else, poison the stream and leave the accumulator.
#[test]
fn an_msm_takes_its_own_plan_only() {
    let mut setup = Setup::new();
    let device = setup.device.clone();
    let scalars: Vec<Fr> = (1..=40).map(Fr::from_u64).collect();
    let scalars = fr_view(setup.upload("scalars", bytemuck::cast_slice(&scalars)));
    let bases = setup.upload("bases", bytemuck::cast_slice(&[blst_generator(); 40]));
    let bases = PointView::new(bases, Group::G1).expect("points");
    let made_for = DigitsShape::new(50, 5);
    let digits = device.digits_layout(made_for).expect("layout");
    // Room for the plans and accumulators of all shapes below.
    let plan = setup.view("digit_plan", 1 << 20);
    let accumulator = setup.view("accumulator", 1 << 20);
    let workspace = setup.view("workspace", 1 << 22);
    assert!(digits.workspace_bytes <= 1 << 22);
    let shape = |max_len, window_bits| DigitsShape::new(max_len, window_bits);
    let cases = [
        (false, made_for, 40, Some("no digits wrote it")),
        (true, made_for, 40, None),
        (true, shape(50, 4), 40, Some("made for window_bits 5, used for 4")),
        (true, shape(51, 5), 40, Some("made for max_len 50, used for 51")),
        (true, shape(40, 5), 40, Some("made for max_len 50, used for 40")),
        (true, made_for, 39, Some("made for len 40, used for 39")),
        (true, made_for, 0, Some("made for len 40, used for 0")),
    ];
    for (made, used_for, len, complaint) in cases {
        let stream = device.create_stream("msm").expect("stream");
        setup.run(Op::Fill(Fill::zero(accumulator)));
        setup.run(Op::Fill(Fill::new(plan, u32::MAX)));
        if made {
            setup.run(Op::Digits(Digits::new(&digits, scalars, plan, workspace).expect("digits")));
        }
        let layout = device.msm_layout(Group::G1, used_for).expect("layout");
        let used = bases.slice(0, len).expect("bases");
        let accumulate =
            MsmAccumulate::new(&layout, (plan, len), used, BaseOf::same(), accumulator, workspace);
        let event = device.record(setup.stream).expect("record");
        device.wait(stream, &event).expect("wait");
        let op = Op::MsmAccumulate(accumulate.expect("accumulate"));
        device.enqueue(stream, &op).expect("enqueue");
        let outcome = setup.outcome(stream);
        let untouched = setup.download(accumulator).iter().all(|byte| *byte == 0);
        assert_eq!(untouched, complaint.is_some(), "{used_for:?}, {len}: {outcome:?}");
        match (outcome, complaint) {
            (Ok(()), None) => {}
            (Err(Error::KernelFailed { name: "msm_accumulate", reason }), Some(complaint)) => {
                assert_eq!(reason, format!("digit_plan: {complaint}"));
            }
            (outcome, _) => panic!("{used_for:?}, {len}: {outcome:?}"),
        }
        device.destroy_stream(stream).expect("destroy");
    }
}

fn blst_generator() -> Affine<Fp> {
    use group::Curve;
    let generator = <blstrs::G1Projective as group::Group>::generator().to_affine();
    let point: &blst::blst_p1_affine = generator.as_ref();
    Affine { x: Fp(point.x.l), y: Fp(point.y.l) }
}

#[test]
fn transforms_and_vectors_in_order_across_streams() {
    let mut setup = Setup::new();
    let values: Vec<Fr> = (0..1024).map(Fr::from_u64).collect();
    let data = setup.upload("data", bytemuck::cast_slice(&values));
    let layout = setup.device.ntt_layout(10).expect("layout");
    let workspace = setup.view("workspace", layout.workspace_bytes);
    let second = setup.device.create_stream("second").expect("stream");
    let orders = (Order::Natural, Order::BitReversed);
    let forward =
        Ntt::new(&layout, fr_view(data), Direction::Forward, true, orders, workspace).expect("ntt");
    setup.run(Op::Ntt(forward));
    // The second stream goes on with the same bytes once the first is through.
    let event = setup.device.record(setup.stream).expect("record");
    setup.device.wait(second, &event).expect("wait");
    let orders = (Order::BitReversed, Order::Natural);
    let inverse =
        Ntt::new(&layout, fr_view(data), Direction::Inverse, true, orders, workspace).expect("ntt");
    setup.device.enqueue(second, &Op::Ntt(inverse)).expect("enqueue");
    let doubled = Vector::add(fr_view(data), fr_view(data), fr_view(data)).expect("add");
    setup.device.enqueue(second, &Op::Vector(doubled)).expect("enqueue");
    let event = setup.device.record(second).expect("record");
    setup.device.wait(setup.stream, &event).expect("wait");
    let bytes = setup.download(data);
    let got: Vec<Fr> = collect(&bytes);
    let expected: Vec<Fr> = (0..1024).map(|i| Fr::from_u64(2 * i)).collect();
    assert!(got == expected);
    assert!(setup.device.ntt_layout(33).is_err());
}

/// Two streams that write the same bytes without an event between them: whichever comes second
/// while the first is at it fails, by name; neither waits, and memory stays sound.
#[test]
fn unordered_overlap_is_an_error() {
    let mut setup = Setup::new();
    let second = setup.device.create_stream("second").expect("stream");
    let len_bytes = 1 << 24;
    let source = setup.view("source", len_bytes);
    let target = setup.view("target", len_bytes);
    let copy = Op::Copy(Copy::new(source, target).expect("copy"));
    for _ in 0..200 {
        setup.device.enqueue(setup.stream, &copy).expect("enqueue");
        setup.device.enqueue(second, &copy).expect("enqueue");
    }
    let outcomes = [setup.outcome(setup.stream), setup.outcome(second)];
    let failures: Vec<_> = outcomes.iter().filter_map(|outcome| outcome.as_ref().err()).collect();
    assert_eq!(failures.len(), 1, "the survivor has the bytes to itself: {outcomes:?}");
    assert!(matches!(failures[0], Error::KernelFailed { name: "copy", .. }), "{failures:?}");
    assert!(failures[0].to_string().contains("target"), "{failures:?}");

    // Readers share.
    let (third, fourth) = (
        setup.device.create_stream("third").expect("stream"),
        setup.device.create_stream("fourth").expect("stream"),
    );
    let other = setup.view("other", len_bytes);
    let other = Op::Copy(Copy::new(source, other).expect("copy"));
    for _ in 0..20 {
        setup.device.enqueue(third, &copy).expect("enqueue");
        setup.device.enqueue(fourth, &other).expect("enqueue");
    }
    assert_eq!(setup.outcome(third), Ok(()));
    assert_eq!(setup.outcome(fourth), Ok(()));
}

#[test]
fn a_poisoned_stream_tells_its_first_failure_everywhere() {
    let mut setup = Setup::new();
    let data = setup.view("data", 32);
    // The claim of a copy to staging memory meets the other stream's.
    let second = setup.device.create_stream("second").expect("stream");
    let len_bytes = 1 << 24;
    let (source, target) = (setup.view("source", len_bytes), setup.view("target", len_bytes));
    let copy = Op::Copy(Copy::new(source, target).expect("copy"));
    // So much at once that the two are at work together whoever else has the cores.
    for _ in 0..200 {
        setup.device.enqueue(setup.stream, &copy).expect("enqueue");
        setup.device.enqueue(second, &copy).expect("enqueue");
    }
    let outcomes = [setup.stream, second].map(|stream| (stream, setup.outcome(stream)));
    let poisoned =
        outcomes.into_iter().find_map(|(stream, outcome)| Some((stream, outcome.err()?)));
    let (stream, error) = poisoned.expect("400 unordered copies and no overlap");
    // Enqueueing goes on, and is skipped.
    setup.device.enqueue(stream, &Op::Fill(Fill::new(data, 7))).expect("enqueue");
    let mut staging = setup.staging(32);
    setup.device.download(stream, data, &mut *staging, 0).expect("download");
    assert_eq!(staging.host(SOON).expect_err("failed"), error);
    assert!(staging.host(SOON).is_ok(), "told once, the buffer can be used again");
    let event = setup.device.record(stream).expect("record");
    assert_eq!(setup.device.synchronize(&event, SOON), Err(error.clone()));
    assert_eq!(setup.device.query(&event), Err(error.clone()));
    // Who waits for it is poisoned too; who does not goes on.
    let third = setup.device.create_stream("third").expect("stream");
    setup.device.wait(third, &event).expect("wait");
    assert_eq!(setup.outcome(third), Err(error));
    let fourth = setup.device.create_stream("fourth").expect("stream");
    setup.device.enqueue(fourth, &Op::Fill(Fill::new(data, 9))).expect("enqueue");
    assert_eq!(setup.outcome(fourth), Ok(()));
    setup.device.destroy_stream(stream).expect("destroy");
}

#[test]
fn handles_must_be_alive_and_of_this_device() {
    let mut setup = Setup::new();
    let other = Setup::new();
    let invalid = |result: Result<(), Error>| {
        assert!(matches!(result, Err(Error::InvalidArgument(_))), "{result:?}");
    };
    let view = setup.view("view", 1024);
    let foreign = other.region.view("foreign", 0, 1024).expect("view");
    let fill = |view| Op::Fill(Fill::zero(view));
    invalid(setup.device.enqueue(setup.stream, &fill(foreign)));
    invalid(setup.device.enqueue(other.stream, &fill(view)));
    invalid(setup.device.free(other.region));
    invalid(setup.device.destroy_stream(other.stream));
    invalid(setup.device.record(other.stream).map(drop));
    let event = other.device.record(other.stream).expect("record");
    invalid(setup.device.wait(setup.stream, &event));
    invalid(setup.device.synchronize(&event, SOON));
    invalid(setup.device.query(&event).map(drop));

    let mut staging = setup.staging(1024);
    invalid(setup.device.upload(setup.stream, &mut *staging, 0, view));
    invalid(setup.device.download(setup.stream, view, &mut *staging, 4));
    invalid(setup.device.download(setup.stream, foreign, &mut *staging, 0));

    // Freed while work is queued: the work ends, later use is refused.
    for _ in 0..50 {
        setup.run(Op::Fill(Fill::new(setup.region.whole("all").expect("view"), 1)));
    }
    let before = setup.device.memory().expect("memory").regions_bytes;
    setup.device.free(setup.region).expect("free");
    assert_eq!(before - setup.device.memory().expect("memory").regions_bytes, 1 << 26);
    invalid(setup.device.free(setup.region));
    invalid(setup.device.enqueue(setup.stream, &fill(view)));
    assert_eq!(setup.outcome(setup.stream), Ok(()));
    setup.device.destroy_stream(setup.stream).expect("destroy");
    invalid(setup.device.destroy_stream(setup.stream));
    invalid(setup.device.enqueue(setup.stream, &fill(view)));
}

#[test]
fn requests_past_the_machine_are_told_apart() {
    let device = Setup::new().device;
    let total_bytes = device.info().memory_bytes;
    let never = device.allocate("huge", MemoryClass::Work, total_bytes + 1);
    assert!(matches!(never, Err(Error::ExceedsLimit { .. })), "{never:?}");
    let now = device.allocate("all", MemoryClass::Work, total_bytes);
    assert!(matches!(now, Err(Error::OutOfMemory { .. })), "{now:?}");
    let plan = |max_len, window_bits| device.digits_layout(DigitsShape::new(max_len, window_bits));
    assert!(matches!(plan(1 << 32, 8), Err(Error::ExceedsLimit { .. })));
    assert!(matches!(plan(10, 1), Err(Error::Unsupported(_))));
    assert!(matches!(plan(10, 40), Err(Error::Unsupported(_))));
    assert!(plan(0, 8).is_ok());
    assert!(CpuBackend.open("cpu:1", &OpenOptions::default()).is_err());
    assert!(CpuBackend.open("cpu", &OpenOptions { threads: Some(0) }).is_err());
    assert!(device.window_bits(Group::G1, 0) >= 2 && device.window_bits(Group::G2, u64::MAX) <= 22);
}

#[test]
fn dropping_the_device_waits_for_its_work() {
    let mut setup = Setup::new();
    let view = setup.view("view", 1 << 25);
    let mut staging = setup.staging(FR_BYTES);
    for word in 0..40 {
        setup.run(Op::Fill(Fill::new(view, word)));
    }
    let head = view.slice(0, FR_BYTES).expect("slice");
    setup.device.download(setup.stream, head, &mut *staging, 0).expect("download");
    drop(setup);
    let bytes = staging.host(Duration::ZERO).expect("already done");
    assert!(bytes.chunks(4).all(|word| word == 39u32.to_ne_bytes()));
}
