//! Opening pairs.

use std::sync::Arc;

use twinlock_api::{Backend, Device, Discovered, Error, OpenOptions, Result};

use super::Dual;

const NAME: &str = "dual";

/// Every device of one backend, checked by the first usable device of another.
pub struct DualBackend {
    oracle: Box<dyn Backend>,
    subject: Box<dyn Backend>,
}

impl DualBackend {
    /// Checks the devices of `subject` by one of `oracle`.
    pub fn new(oracle: Box<dyn Backend>, subject: Box<dyn Backend>) -> Self {
        Self { oracle, subject }
    }

    /// The name of the oracle, or why there is none.
    fn oracle_name(&self) -> Result<String, String> {
        let found = self.oracle.discover();
        let usable = found.iter().find(|device| device.usable.is_ok());
        usable
            .map(|device| device.name.clone())
            .ok_or_else(|| format!("{} has no usable device to check by", self.oracle.name()))
    }

    fn pair_name(&self, subject: &str) -> String {
        let oracle = self.oracle_name().unwrap_or_else(|_| self.oracle.name().into());
        format!("{NAME}:{oracle}+{subject}")
    }
}

impl Backend for DualBackend {
    fn name(&self) -> &'static str {
        NAME
    }

    fn discover(&self) -> Vec<Discovered> {
        let pair = |found: Discovered| Discovered {
            name: self.pair_name(&found.name),
            usable: self.oracle_name().and(found.usable),
        };
        self.subject.discover().into_iter().map(pair).collect()
    }

    fn open(&self, name: &str, options: &OpenOptions) -> Result<Arc<dyn Device>> {
        let oracle = self.oracle_name().map_err(Error::Unsupported)?;
        let subject = self
            .subject
            .discover()
            .into_iter()
            .find(|found| self.pair_name(&found.name) == name)
            .ok_or_else(|| Error::invalid(format!("no device {name}")))?;
        Ok(Arc::new(Dual::new(
            self.oracle.open(&oracle, options)?,
            self.subject.open(&subject.name, options)?,
        )))
    }
}
