//! Fp and Fp2 = Fp\[i\]/(i^2 + 1) as formulas see them.

use super::{Recorder, Reg, Step};

/// A field that formulas are written over, expanded into steps over Fp.
pub trait Algebra {
    /// An element: one register for each coefficient.
    type Element: Copy;
    /// Coefficients of an element.
    const DEGREE: usize;

    /// The element whose coefficients are the registers from `first`.
    fn element(first: Reg) -> Self::Element;
    /// The element's registers.
    fn registers(a: Self::Element) -> Vec<Reg>;
    /// The element with `one` in every coefficient, times four: the curve's b.
    fn curve_b(recorder: &mut Recorder, one: Reg) -> Self::Element;
    /// a * b
    fn mul(recorder: &mut Recorder, a: Self::Element, b: Self::Element) -> Self::Element;
    /// a^2
    fn sqr(recorder: &mut Recorder, a: Self::Element) -> Self::Element;
    /// a + b
    fn add(recorder: &mut Recorder, a: Self::Element, b: Self::Element) -> Self::Element;
    /// a - b
    fn sub(recorder: &mut Recorder, a: Self::Element, b: Self::Element) -> Self::Element;
    /// a, in the rare case zero
    fn unless_rare(recorder: &mut Recorder, a: Self::Element) -> Self::Element;
    /// a times the coefficient `k`
    fn scale(recorder: &mut Recorder, a: Self::Element, k: Reg) -> Self::Element;
}

/// G1's coordinates.
#[derive(Debug)]
pub struct OverFp;

/// G2's coordinates: c0, c1.
#[derive(Debug)]
pub struct OverFp2;

impl Algebra for OverFp {
    type Element = Reg;
    const DEGREE: usize = 1;

    fn element(first: Reg) -> Reg {
        first
    }

    fn registers(a: Reg) -> Vec<Reg> {
        vec![a]
    }

    fn curve_b(recorder: &mut Recorder, one: Reg) -> Reg {
        let two = recorder.push(Step::Add(one, one));
        recorder.push(Step::Add(two, two))
    }

    fn mul(recorder: &mut Recorder, a: Reg, b: Reg) -> Reg {
        recorder.push(Step::Mul(a, b))
    }

    fn sqr(recorder: &mut Recorder, a: Reg) -> Reg {
        recorder.push(Step::Sqr(a))
    }

    fn add(recorder: &mut Recorder, a: Reg, b: Reg) -> Reg {
        recorder.push(Step::Add(a, b))
    }

    fn sub(recorder: &mut Recorder, a: Reg, b: Reg) -> Reg {
        recorder.push(Step::Sub(a, b))
    }

    fn unless_rare(recorder: &mut Recorder, a: Reg) -> Reg {
        recorder.push(Step::UnlessRare(a))
    }

    fn scale(recorder: &mut Recorder, a: Reg, k: Reg) -> Reg {
        recorder.push(Step::Mul(a, k))
    }
}

impl Algebra for OverFp2 {
    type Element = [Reg; 2];
    const DEGREE: usize = 2;

    fn element(first: Reg) -> [Reg; 2] {
        [first, first + 1]
    }

    fn registers(a: [Reg; 2]) -> Vec<Reg> {
        a.to_vec()
    }

    fn curve_b(recorder: &mut Recorder, one: Reg) -> [Reg; 2] {
        [OverFp::curve_b(recorder, one); 2]
    }

    /// Karatsuba: three products.
    fn mul(recorder: &mut Recorder, [a0, a1]: [Reg; 2], [b0, b1]: [Reg; 2]) -> [Reg; 2] {
        let low = recorder.push(Step::Mul(a0, b0));
        let high = recorder.push(Step::Mul(a1, b1));
        let a = recorder.push(Step::Add(a0, a1));
        let b = recorder.push(Step::Add(b0, b1));
        let cross = recorder.push(Step::Mul(a, b));
        let cross = recorder.push(Step::Sub(cross, low));
        [recorder.push(Step::Sub(low, high)), recorder.push(Step::Sub(cross, high))]
    }

    /// (a0 + a1)(a0 - a1) and 2 a0 a1.
    fn sqr(recorder: &mut Recorder, [a0, a1]: [Reg; 2]) -> [Reg; 2] {
        let sum = recorder.push(Step::Add(a0, a1));
        let difference = recorder.push(Step::Sub(a0, a1));
        let cross = recorder.push(Step::Mul(a0, a1));
        [recorder.push(Step::Mul(sum, difference)), recorder.push(Step::Add(cross, cross))]
    }

    fn add(recorder: &mut Recorder, a: [Reg; 2], b: [Reg; 2]) -> [Reg; 2] {
        [0, 1].map(|i| recorder.push(Step::Add(a[i], b[i])))
    }

    fn sub(recorder: &mut Recorder, a: [Reg; 2], b: [Reg; 2]) -> [Reg; 2] {
        [0, 1].map(|i| recorder.push(Step::Sub(a[i], b[i])))
    }

    fn unless_rare(recorder: &mut Recorder, a: [Reg; 2]) -> [Reg; 2] {
        a.map(|a| recorder.push(Step::UnlessRare(a)))
    }

    fn scale(recorder: &mut Recorder, a: [Reg; 2], k: Reg) -> [Reg; 2] {
        a.map(|a| recorder.push(Step::Mul(a, k)))
    }
}
