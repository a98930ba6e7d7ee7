//! The suite on this backend's devices.

use std::sync::{Arc, Mutex, PoisonError};

use libtest_mimic::Arguments;
use twinlock_api::op::Fill;
use twinlock_api::{Backend, Device, Discovered, Op, OpenOptions, Result};
use twinlock_conformance::{Candidate, run_candidates};
use twinlock_cuda::{CudaBackend, Faults};

/// The faults of the device that was opened last.
type Opened = Arc<Mutex<Arc<Faults>>>;

/// The backend, with its devices' faults at hand.
struct Faulty {
    inner: CudaBackend,
    opened: Opened,
}

impl Backend for Faulty {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn discover(&self) -> Vec<Discovered> {
        self.inner.discover()
    }

    fn open(&self, name: &str, _options: &OpenOptions) -> Result<Arc<dyn Device>> {
        let (device, faults) = self.inner.open_with_faults(name)?;
        *self.opened.lock().unwrap_or_else(PoisonError::into_inner) = faults;
        Ok(device)
    }
}

fn main() {
    let mut args = Arguments::from_args();
    // Trials share one GPU, and the device opened last must be the one that fails.
    args.test_threads = Some(1);
    let opened = Opened::default();
    let faulty = Faulty { inner: CudaBackend::default(), opened: Arc::clone(&opened) };
    let candidate = Candidate::new(Box::new(faulty)).with_poison(move |fixture, stream| {
        let view = fixture.work("poison", 256)?;
        opened.lock().unwrap_or_else(PoisonError::into_inner).fail_next_op();
        fixture.device().enqueue(stream, &Op::Fill(Fill::zero(view)))
    });
    run_candidates(vec![candidate], &args).exit()
}
