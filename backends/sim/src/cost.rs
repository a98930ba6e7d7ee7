//! How long kernels and the driver's calls take.

use std::time::Duration;

use twinlock_api::layout::{FR_BYTES, SCALAR_BITS};
use twinlock_api::op::{DigitsShape, FixedBase, PointCheck, VectorKind};
use twinlock_api::{Group, Op};

/// Rates of a card, from which [`KernelRates::cost`] reckons an operation's time: the longer of
/// moving its bytes and doing its products, and a launch. The default is what was measured on an
/// H200 for bare products and copies, so it is a floor that real kernels miss by 15 to 30%.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct KernelRates {
    /// Bytes read or written per second.
    pub memory_bytes: f64,
    /// Products in Fr per second.
    pub fr_products: f64,
    /// Products in Fp per second.
    pub fp_products: f64,
    /// A square's time in products.
    pub square: f64,
    /// The share of digits that are not zero, for MSMs: 1 for uniform scalars, less for bits.
    pub digits_share: f64,
    /// Time of a launch.
    pub launch: Duration,
}

impl Default for KernelRates {
    fn default() -> Self {
        Self {
            memory_bytes: 4.3e12,
            fr_products: 59.0e9,
            fp_products: 27.4e9,
            square: 0.81,
            digits_share: 1.0,
            launch: Duration::from_micros(5),
        }
    }
}

/// Windows that 255-bit scalars have, less for tables of bases that share them.
pub(crate) fn num_windows(shape: DigitsShape) -> u32 {
    // One bit more, for the carry out of the top signed digit.
    (SCALAR_BITS + 1).div_ceil(shape.window_bits.max(1)).div_ceil(shape.tables.max(1))
}

/// Digits of a scalar.
pub(crate) fn num_digits(shape: DigitsShape) -> u64 {
    u64::from(num_windows(shape)) * u64::from(shape.tables)
}

/// Buckets of all windows.
pub(crate) fn buckets(shape: DigitsShape) -> u64 {
    let each = 1u64.checked_shl(shape.window_bits.saturating_sub(1)).unwrap_or(u64::MAX);
    each.saturating_mul(num_windows(shape).into())
}

/// Products in Fp of `products` products and `squares` squares in the field of `group`.
fn in_fp(group: Group, products: f64, squares: f64, square: f64) -> f64 {
    match group {
        Group::G1 => products + squares * square,
        // Karatsuba: three products; a square is two.
        Group::G2 => 3.0 * products + 2.0 * squares,
    }
}

impl KernelRates {
    /// The time of `op`.
    pub fn cost(&self, op: &Op) -> Duration {
        let touched: u64 = match op {
            Op::Digits(_) | Op::MsmAccumulate(_) | Op::MsmReduce(_) | Op::Ntt(_) => 0,
            other => other
                .views()
                .iter()
                .fold(0, |sum: u64, (view, _)| sum.saturating_add(view.len_bytes())),
        };
        let touched = touched as f64;
        let elements = |bytes: u64| (bytes / FR_BYTES) as f64;
        // Bytes, products in Fr, products in Fp.
        let (bytes, fr, fp) = match op {
            Op::Fill(_) | Op::Copy(_) | Op::Gather(_) => (touched, 0.0, 0.0),
            Op::Vector(op) => {
                let products = match op.kind() {
                    VectorKind::Add | VectorKind::Sub => 0.0,
                    VectorKind::Mul | VectorKind::Scale => 1.0,
                    VectorKind::MulSubScale => 2.0,
                };
                (touched, products * elements(op.target().len_bytes()), 0.0)
            }
            Op::ToMontgomery(op) | Op::FromMontgomery(op) => {
                (touched, elements(op.target().len_bytes()), 0.0)
            }
            Op::DecodePoints(op) => {
                let (g, square) = (op.group(), self.square);
                // Two coordinates to Montgomery form: a product in Fp for each of their parts.
                let convert = (g.affine_bytes() / 48) as f64;
                let on_curve = match op.check() {
                    PointCheck::Encoding => 0.0,
                    PointCheck::OnCurve => in_fp(g, 1.0, 2.0, square),
                };
                (touched, 0.0, op.len() as f64 * (convert + on_curve))
            }
            Op::FixedBase(op) => {
                let additions = f64::from(FixedBase::num_windows(op.window_bits()));
                let work = in_fp(op.group(), 8.0, 2.0, self.square);
                (touched, 0.0, op.len() as f64 * additions * work)
            }
            Op::BaseTables(op) => {
                let doublings =
                    f64::from(op.shift_bits()) * f64::from(op.tables().saturating_sub(1));
                let work = in_fp(op.group(), 6.0, 3.0, self.square);
                (touched, 0.0, op.len() as f64 * doublings * work)
            }
            Op::Ntt(op) => {
                let n = elements(op.data().len_bytes());
                let lg = f64::from(op.lg_domain());
                let coset = if op.coset() { n } else { 0.0 };
                // A pass through memory does about nine layers.
                let passes = (lg / 9.0).ceil().max(1.0);
                (2.0 * 32.0 * n * passes, n / 2.0 * lg + coset, 0.0)
            }
            Op::Digits(op) => {
                let entries = elements(op.scalars().len_bytes()) * num_digits(op.shape()) as f64;
                // Key and index, read and written in about three radix passes.
                (entries * 8.0 * 2.0 * 3.0, 0.0, 0.0)
            }
            Op::MsmAccumulate(op) => {
                let digits = op.len() as f64 * num_digits(op.shape()) as f64 * self.digits_share;
                let base_bytes = op.group().affine_bytes() as f64;
                // A mixed addition to XYZZ: 8 products and 2 squares.
                (
                    digits * (base_bytes + 4.0),
                    0.0,
                    digits * in_fp(op.group(), 8.0, 2.0, self.square),
                )
            }
            Op::MsmReduce(op) => {
                let count = buckets(op.shape()) as f64;
                let bucket_bytes = (op.group().affine_bytes() * 2) as f64;
                // Two additions in XYZZ a bucket: 12 products and 2 squares each.
                let fp = 2.0 * count * in_fp(op.group(), 12.0, 2.0, self.square);
                (count * bucket_bytes, 0.0, fp)
            }
        };
        let work = fr / self.fr_products + fp / self.fp_products;
        let seconds = (bytes / self.memory_bytes).max(work);
        self.launch.saturating_add(Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX))
    }
}

/// What calls to the driver cost the host, beside the waiting. Between the measured sizes, and
/// past them, time goes in straight lines.
#[derive(Debug, Clone, PartialEq)]
pub struct DriverCosts {
    /// Size in bytes and time of an allocation on an idle card, by size.
    pub allocate: Vec<(u64, Duration)>,
    /// The same of freeing.
    pub free: Vec<(u64, Duration)>,
    /// The same of making a staging buffer.
    pub staging: Vec<(u64, Duration)>,
    /// Any other call: the host's time to enqueue, record or query.
    pub call: Duration,
}

const GIB: u64 = 1 << 30;

impl Default for DriverCosts {
    /// Allocating and freeing as measured on an H200 host (1, 16 and 64 GiB; towards 0 reckoned).
    /// Staging (page-locking at 4 GiB/s) and the time of a call are assumed.
    fn default() -> Self {
        let us = Duration::from_micros;
        Self {
            allocate: vec![
                (0, us(310)),
                (GIB, us(360)),
                (16 * GIB, us(1_100)),
                (64 * GIB, us(4_100)),
            ],
            free: vec![(0, us(0)), (GIB, us(700)), (16 * GIB, us(13_700)), (64 * GIB, us(54_000))],
            staging: vec![(0, us(20)), (GIB, us(250_000))],
            call: us(3),
        }
    }
}

impl DriverCosts {
    /// Nothing costs the host anything.
    pub fn zero() -> Self {
        Self { allocate: Vec::new(), free: Vec::new(), staging: Vec::new(), call: Duration::ZERO }
    }
}

/// The time for `size_bytes` on the line through `points` (sorted by size).
pub(crate) fn interpolate(points: &[(u64, Duration)], size_bytes: u64) -> Duration {
    let (Some(first), Some(last)) = (points.first(), points.last()) else { return Duration::ZERO };
    if points.len() == 1 || size_bytes <= first.0 {
        return first.1;
    }
    let past = points.iter().position(|point| point.0 >= size_bytes);
    let at = past.unwrap_or(points.len() - 1).max(1);
    let (low, high) = (points.get(at - 1).unwrap_or(first), points.get(at).unwrap_or(last));
    let width = high.0.saturating_sub(low.0).max(1) as f64;
    let slope = (high.1.as_secs_f64() - low.1.as_secs_f64()) / width;
    let seconds = low.1.as_secs_f64() + slope * (size_bytes - low.0) as f64;
    Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(Duration::MAX)
}

#[cfg(test)]
mod tests {
    use twinlock_api::op::{BaseOf, Direction, MsmAccumulate, MsmLayout, Ntt, NttLayout, Order};
    use twinlock_api::{FrView, MemoryClass, PointView, Region};

    use super::*;

    fn view(name: &'static str, bytes: u64) -> twinlock_api::View {
        Region::fresh(MemoryClass::Work, bytes).whole(name).unwrap()
    }

    fn near(found: Duration, low_ms: f64, high_ms: f64) {
        let ms = found.as_secs_f64() * 1e3;
        assert!((low_ms..=high_ms).contains(&ms), "{ms} ms, not within {low_ms}..{high_ms}");
    }

    #[test]
    fn driver_costs_pass_through_what_was_measured() {
        let costs = DriverCosts::default();
        for points in [&costs.allocate, &costs.free] {
            for (bytes, time) in points {
                near(interpolate(points, *bytes), time.as_secs_f64() * 1e3 - 1e-6, {
                    time.as_secs_f64() * 1e3 + 1e-6
                });
            }
        }
        near(interpolate(&costs.allocate, 40 * GIB), 2.599, 2.601);
        near(interpolate(&costs.free, 128 * GIB), 107.7, 107.8);
        assert_eq!(interpolate(&[], 5), Duration::ZERO);
        assert_eq!(interpolate(&[(9, Duration::from_secs(1))], 50), Duration::from_secs(1));
    }

    /// The floors that were reckoned from the same rates: NTT 2^27 30 ms; MSM 2^26 over G1 in 13
    /// windows at most 306 ms; MSM 2^24 over G2 at most 221 ms.
    #[test]
    fn kernel_costs_meet_the_floors() {
        let rates = KernelRates::default();
        let data = FrView::new(view("data", 32 << 27)).unwrap();
        let layout = NttLayout { lg_domain: 27, workspace_bytes: 0 };
        let order = (Order::Natural, Order::Natural);
        let ntt = Ntt::new(&layout, data, Direction::Forward, false, order, view("w", 0)).unwrap();
        near(rates.cost(&Op::Ntt(ntt)), 29.0, 32.0);
        for (group, lg, low_ms, high_ms) in
            [(Group::G1, 26, 281.0, 308.0), (Group::G2, 24, 180.0, 224.0)]
        {
            let shape = DigitsShape::new(1 << lg, 20);
            assert_eq!(num_windows(shape), 13);
            let layout = MsmLayout {
                shape,
                group,
                accumulator_bytes: 0,
                accumulate_workspace_bytes: 0,
                reduce_workspace_bytes: 0,
                num_windows: 13,
            };
            let bases = view("bases", group.affine_bytes() << lg);
            let op = MsmAccumulate::new(
                &layout,
                (view("plan", 0), 1 << lg),
                PointView::new(bases, group).unwrap(),
                BaseOf::same(),
                view("accumulator", 0),
                view("workspace", 0),
            );
            near(rates.cost(&Op::MsmAccumulate(op.unwrap())), low_ms, high_ms);
        }
    }
}
