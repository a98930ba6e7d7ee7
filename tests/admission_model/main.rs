//! The admission rules under every interleaving: workers, cancels and shrinking budgets drive the
//! very `step` that the executor runs, over the allocator that the device's memory uses.
//!
//! Each transition but a cancel or a shrink is progress, and each moves the program counters
//! strictly forward (checked), so runs are finite. In every state that is not final some progress
//! is possible (checked). Hence from every reachable state all partitions can end, and without
//! further cancels all do, in whatever order the steps come.

// The states explored and the counterexamples are what these tests have to say.
#![allow(clippy::print_stdout)]

mod explore;
mod model;
mod naive;
mod ours;
mod removed;
mod scenario;
