//! One suite of tests for every backend.
//!
//! [`run`] turns backends into named trials (`cpu msm_g1::heavy_bucket`) of libtest-mimic, for a
//! test target with `harness = false`. Everything goes through the public traits of
//! `twinlock_api`, so a new backend adds one such target and nothing else.
//!
//! * [`oracle`]: naive and obviously right.
//! * [`harness`]: memory with guards, streams, seeds, the runner.
//! * [`trials`]: the suite.
//! * [`scenes`]: faults, long queues, two devices at once, for a backend's own tests.
//! * [`reference`]: a device in its simplest form.
//! * [`dual`]: a device made of two, which compares every result.
//!
//! | variable | meaning |
//! |---|---|
//! | `TWINLOCK_SEED` | replays a run; the seed is printed at the start and with each failure |
//! | `TWINLOCK_MAX_LG` | base-2 logarithm of the largest sizes, 14 unless set |
//! | `TWINLOCK_REQUIRE` | comma list of backends or devices whose absence is a failure |

pub mod dual;
pub mod harness;
pub mod oracle;
pub mod reference;
pub mod scenes;
pub mod trials;

pub use dual::{Dual, DualBackend};
pub use harness::{Candidate, Settings, on_first_device, run, run_candidates};
pub use reference::{Reference, ReferenceBackend};
