//! The suite on this backend's devices, each in three ways: with the arithmetic and style that it
//! chooses itself; as one without 64-bit integers and without what Vulkan alone has (`narrow`); and
//! as one with tiny buffers and bindings (`chunks`).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use libtest_mimic::Arguments;
use twinlock_api::op::Fill;
use twinlock_api::{Backend, Device, Discovered, Op, OpenOptions, Result};
use twinlock_conformance::{Candidate, run_candidates};
use twinlock_wgsl::{Arithmetic, Faults, WgslBackend};

fn main() {
    let own = WgslBackend::default();
    // Views cross from one buffer into the next, and are longer than a binding.
    let chunks = own.with_chunks(2 << 20, 1 << 20);
    let candidates = vec![
        candidate(own),
        candidate(own.with_arithmetic(Arithmetic::Narrow).portable()).labelled("narrow"),
        candidate(chunks).labelled("chunks").with_trials(crosses),
    ];
    run_candidates(candidates, &Arguments::from_args()).exit()
}

/// Trials for tiny buffers: what G1 shows of MSMs need not be shown by G2, whose kernels compile
/// slowly, but at the sizes that lie in several parts.
fn crosses(trial: &str) -> bool {
    let parts = ["msm_g2::large", "msm_g2::indexed"];
    !trial.starts_with("msm_g2::") || parts.contains(&trial)
}

/// The faults of each device, as it was opened last.
type Opened = Arc<Mutex<HashMap<String, Arc<Faults>>>>;

/// The backend, with its devices' faults at hand.
struct Faulty {
    inner: WgslBackend,
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
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        opened.insert(name.to_owned(), faults);
        Ok(device)
    }
}

fn candidate(backend: WgslBackend) -> Candidate {
    let opened = Opened::default();
    let faulty = Faulty { inner: backend, opened: Arc::clone(&opened) };
    Candidate::new(Box::new(faulty)).with_poison(move |fixture, stream| {
        let view = fixture.work("poison", 256)?;
        let opened = opened.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(faults) = opened.get(&fixture.device().info().name) {
            faults.fail_next_op();
        }
        drop(opened);
        fixture.device().enqueue(stream, &Op::Fill(Fill::zero(view)))
    })
}
