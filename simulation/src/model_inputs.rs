//! How long the work of a 2^27 partition takes: two sets of inputs.

use std::time::Duration;

use twinlock::groth16::prover::layout::Stage;

/// Times of one partition, and the link.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ModelInputs {
    /// What the set is called.
    pub name: &'static str,
    /// The seven NTTs of the quotient.
    pub quotient: Duration,
    /// The H query.
    pub h: Duration,
    /// The L and A queries.
    pub la: Duration,
    /// The B queries of both groups.
    pub b: Duration,
    /// Host work beside staging and kernels. Taken to have cores of its own: several partitions'
    /// do not slow each other down.
    pub beside: Duration,
    /// Host work after the kernels: assembly and self-check.
    pub check: Duration,
    /// Bytes per second to the device.
    pub link_bytes: f64,
}

const LINK_BYTES: f64 = 55.3e9;

impl ModelInputs {
    /// An H200 with peers' kernels: 0.30 s, 1.15 s, 0.10 s, and 0.03 + 0.10 s. The check, a few
    /// milliseconds, is taken as 5.
    pub const PEERS: Self = Self {
        name: "peers' kernels",
        quotient: Duration::from_millis(300),
        h: Duration::from_millis(1_150),
        la: Duration::from_millis(100),
        b: Duration::from_millis(130),
        beside: Duration::ZERO,
        check: Duration::from_millis(5),
        link_bytes: LINK_BYTES,
    };

    /// The best public engine: 1.8 s of kernels, here in the first set's proportions, and 1.9 + 0.5
    /// s of host work beside them.
    pub const PUBLIC_ENGINE: Self = Self {
        name: "public engine",
        quotient: Duration::from_micros(321_429),
        h: Duration::from_micros(1_232_143),
        la: Duration::from_micros(107_143),
        b: Duration::from_micros(139_285),
        beside: Duration::from_millis(2_400),
        ..Self::PEERS
    };

    /// Both.
    pub const ALL: [Self; 2] = [Self::PEERS, Self::PUBLIC_ENGINE];

    /// A stage's kernels.
    pub fn kernels(&self, stage: Stage) -> Duration {
        match stage {
            Stage::Prestage | Stage::Drain => Duration::ZERO,
            Stage::Quotient => self.quotient,
            Stage::H => self.h,
            Stage::La => self.la,
            Stage::B => self.b,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sets_add_up_to_what_was_reckoned() {
        let sum = |set: &ModelInputs| Stage::ALL.iter().map(|s| set.kernels(*s)).sum::<Duration>();
        let [peers, engine] = ModelInputs::ALL.each_ref().map(sum);
        assert_eq!((peers, engine), (Duration::from_millis(1_680), Duration::from_millis(1_800)));
    }
}
