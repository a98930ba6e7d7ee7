//! The family of simulated cards.

use std::sync::Arc;

use twinlock_api::{Backend, Device, Discovered, Error, OpenOptions, Result};

use crate::card::SimCard;
use crate::clock::Clock;
use crate::config::SimConfig;

pub(crate) const NAME: &str = "sim";

/// Simulated cards on one clock. A lost card is opened anew by the same name.
#[derive(Debug, Clone)]
pub struct SimBackend {
    cards: Vec<Arc<SimCard>>,
}

impl SimBackend {
    /// One card for each configuration.
    pub fn new(configs: impl IntoIterator<Item = SimConfig>, clock: &Clock) -> Self {
        Self { cards: configs.into_iter().map(|c| SimCard::new(c, clock.clone())).collect() }
    }

    /// The cards.
    pub fn cards(&self) -> &[Arc<SimCard>] {
        &self.cards
    }
}

impl Backend for SimBackend {
    fn name(&self) -> &'static str {
        NAME
    }

    fn discover(&self) -> Vec<Discovered> {
        let found = self.cards.iter().map(|card| {
            let info = card.info().clone();
            Discovered { name: info.name.clone(), usable: Ok(info) }
        });
        let found: Vec<_> = found.collect();
        if found.is_empty() {
            let usable = Err("no simulated card is configured".into());
            return vec![Discovered { name: NAME.into(), usable }];
        }
        found
    }

    fn open(&self, name: &str, _options: &OpenOptions) -> Result<Arc<dyn Device>> {
        let card = self.cards.iter().find(|card| card.info().name == name);
        let card = card.ok_or_else(|| {
            let names: Vec<_> = self.cards.iter().map(|card| card.info().name.as_str()).collect();
            Error::invalid(format!("no device {name}, only {}", names.join(", ")))
        })?;
        Ok(card.open()?)
    }
}
