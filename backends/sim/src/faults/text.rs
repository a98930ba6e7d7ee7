//! A plan as one line: `seed=7 most=3 until_ns=5000 oom=3 slow=10+5*8 failed=44 flip=50:123
//! lost_op=9 lost_ns=77 open_fails=1 other_ns=5..9:4096`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use super::{Fault, FaultPlan};

/// A word of a fault plan that means nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParseFaultsError(String);

impl fmt::Display for ParseFaultsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no fault: {:?}", self.0)
    }
}

impl std::error::Error for ParseFaultsError {}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OutOfMemory { allocation } => write!(f, "oom={allocation}"),
            Self::SlowCopies { first, count, factor } => write!(f, "slow={first}+{count}*{factor}"),
            Self::KernelFailed { op } => write!(f, "failed={op}"),
            Self::BitFlip { op, bit } => write!(f, "flip={op}:{bit}"),
            Self::LostAtOp { op } => write!(f, "lost_op={op}"),
            Self::LostAt { at } => write!(f, "lost_ns={}", at.as_nanos()),
            Self::OpenFails { count } => write!(f, "open_fails={count}"),
            Self::OtherProcess { from, until, bytes } => {
                write!(f, "other_ns={}..{}:{bytes}", from.as_nanos(), until.as_nanos())
            }
        }
    }
}

impl fmt::Display for FaultPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut words = Vec::new();
        words.extend(self.seed.map(|seed| format!("seed={seed}")));
        if self.most != u64::MAX {
            words.push(format!("most={}", self.most));
        }
        if self.until != Duration::MAX {
            words.push(format!("until_ns={}", self.until.as_nanos()));
        }
        words.extend(self.faults.iter().map(Fault::to_string));
        f.write_str(&words.join(" "))
    }
}

impl FromStr for FaultPlan {
    type Err = ParseFaultsError;

    fn from_str(line: &str) -> Result<Self, Self::Err> {
        let mut plan = Self::none();
        for word in line.split_whitespace() {
            parse_word(word, &mut plan).ok_or_else(|| ParseFaultsError(word.into()))?;
        }
        Ok(plan)
    }
}

fn number(text: &str) -> Option<u64> {
    text.parse().ok()
}

fn time(text: &str) -> Option<Duration> {
    let nanos: u128 = text.parse().ok()?;
    let seconds = u64::try_from(nanos / 1_000_000_000).ok()?;
    Some(Duration::new(seconds, (nanos % 1_000_000_000) as u32))
}

fn parse_word(word: &str, plan: &mut FaultPlan) -> Option<()> {
    let (key, value) = word.split_once('=')?;
    let fault = match key {
        "seed" => {
            plan.seed = Some(number(value)?);
            return Some(());
        }
        "most" => {
            plan.most = number(value)?;
            return Some(());
        }
        "until_ns" => {
            plan.until = time(value)?;
            return Some(());
        }
        "oom" => Fault::OutOfMemory { allocation: number(value)? },
        "slow" => {
            let (first, rest) = value.split_once('+')?;
            let (count, factor) = rest.split_once('*')?;
            let factor = factor.parse().ok()?;
            Fault::SlowCopies { first: number(first)?, count: number(count)?, factor }
        }
        "failed" => Fault::KernelFailed { op: number(value)? },
        "flip" => {
            let (op, bit) = value.split_once(':')?;
            Fault::BitFlip { op: number(op)?, bit: number(bit)? }
        }
        "lost_op" => Fault::LostAtOp { op: number(value)? },
        "lost_ns" => Fault::LostAt { at: time(value)? },
        "open_fails" => Fault::OpenFails { count: number(value)? },
        "other_ns" => {
            let (times, bytes) = value.split_once(':')?;
            let (from, until) = times.split_once("..")?;
            Fault::OtherProcess { from: time(from)?, until: time(until)?, bytes: number(bytes)? }
        }
        _ => return None,
    };
    plan.faults.push(fault);
    Some(())
}

#[cfg(test)]
mod tests {
    use super::super::FaultRates;
    use super::*;

    #[test]
    fn what_is_printed_parses_to_the_same_plan() {
        let mut kinds = std::collections::BTreeSet::new();
        for seed in 0..200 {
            let rates = FaultRates { most: seed % 5, ..FaultRates::default() };
            let plan = FaultPlan::from_seed(seed, &rates);
            assert_eq!(plan, FaultPlan::from_seed(seed, &rates));
            let text = plan.to_string();
            assert_eq!(text.parse(), Ok(plan), "{text}");
            kinds.extend(text.split(' ').filter_map(|w| w.split_once('=')).map(|w| w.0.to_owned()));
        }
        let expected = "failed flip lost_op most oom open_fails other_ns seed slow";
        assert_eq!(kinds.into_iter().collect::<Vec<_>>().join(" "), expected);
        let lost = FaultPlan::of([Fault::LostAt { at: Duration::MAX }]);
        assert_eq!(lost.to_string().parse(), Ok(lost));
        assert_eq!("".parse(), Ok(FaultPlan::none()));
    }

    #[test]
    fn nonsense_is_named() {
        for word in ["x", "oom=", "oom=-1", "slow=1", "flip=3", "other_ns=5:5", "lost_ns=1e9"] {
            let line = format!("seed=1 {word}");
            assert_eq!(line.parse::<FaultPlan>(), Err(ParseFaultsError(word.into())));
        }
    }
}
