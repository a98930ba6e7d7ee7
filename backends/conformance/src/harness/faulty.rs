//! Backends whose devices can be made to fail, as candidates of the suite.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use twinlock_api::op::Fill;
use twinlock_api::{Backend, Device, Discovered, Faults, FaultyBackend, Op, OpenOptions, Result};

use super::runner::Candidate;

/// The faults of each device, as it was opened last.
type Opened = Arc<Mutex<HashMap<String, Arc<dyn Faults>>>>;

/// A backend with its devices' faults at hand.
struct Faulty<B> {
    inner: B,
    opened: Opened,
}

impl<B: FaultyBackend> Backend for Faulty<B> {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn discover(&self) -> Vec<Discovered> {
        self.inner.discover()
    }

    fn open(&self, name: &str, _options: &OpenOptions) -> Result<Arc<dyn Device>> {
        let (device, faults) = self.inner.open_faulty(name)?;
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        opened.insert(name.to_owned(), faults);
        Ok(device)
    }
}

impl Candidate {
    /// A backend whose work fails where its driver is made to refuse it.
    pub fn faulty(backend: impl FaultyBackend + 'static) -> Self {
        let opened = Opened::default();
        let faulty = Faulty { inner: backend, opened: Arc::clone(&opened) };
        Self::new(Box::new(faulty)).with_poison(move |fixture, stream| {
            let view = fixture.work("poison", 256)?;
            let opened = opened.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(faults) = opened.get(&fixture.device().info().name) {
                faults.fail_next_op();
            }
            drop(opened);
            fixture.device().enqueue(stream, &Op::Fill(Fill::zero(view)))
        })
    }
}
