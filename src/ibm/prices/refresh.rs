//! Keeps a region's price table fresh.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::catalog::Catalog;
use super::table::PriceTable;
use crate::clock::Clock;
use crate::cloud::Error;

/// How often the catalogue is read. Prices change on the first of a month, so half a day late is early enough, and
/// 480 calls twice a day are nothing to the catalogue.
const EVERY: Duration = Duration::from_hours(12);

/// How soon it is read again after a reading with gaps.
const AGAIN_AFTER: Duration = Duration::from_mins(10);

/// The current prices of one region. Clones share them.
#[derive(Clone)]
pub struct Prices {
    catalog: Catalog,
    clock: Clock,
    table: watch::Sender<Arc<PriceTable>>,
}

/// What a refresh brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Profiles with a price from the catalogue.
    pub priced: usize,
    /// Profiles of which the catalogue says no price for certain.
    pub unknown: usize,
    /// Look-ups without an answer.
    pub failures: usize,
}

impl Prices {
    /// Starts with the built-in prices of `region`.
    pub fn new(catalog: Catalog, region: &str, clock: Clock) -> Self {
        let table = watch::Sender::new(Arc::new(PriceTable::built_in(region)));
        Self {
            catalog,
            clock,
            table,
        }
    }

    /// The prices as known now. Never waits.
    pub fn table(&self) -> Arc<PriceTable> {
        self.table.borrow().clone()
    }

    /// Tells when there is a new table.
    pub fn subscribe(&self) -> watch::Receiver<Arc<PriceTable>> {
        self.table.subscribe()
    }

    /// Reads the catalogue once and adds what it said. On an error the table stays as it was.
    pub async fn refresh(&self) -> Result<Outcome, Error> {
        let at = self.clock.now();
        let region = self.table().region().to_owned();
        let reading = self.catalog.read(&region).await?;
        let (extent, published) = (reading.extent(), &reading.published);
        self.table
            .send_modify(|table| Arc::make_mut(table).learn(published, at, extent));
        let priced = published.values().filter(|said| said.on_demand.is_some()).count();
        if let Some(example) = &reading.first_failure {
            tracing::warn!(failures = reading.failures, error = %example, "some prices could not be read");
        }
        Ok(Outcome {
            priced,
            unknown: published.len() - priced,
            failures: reading.failures,
        })
    }

    /// Keeps the table fresh until the future is dropped.
    pub async fn run(&self) {
        loop {
            let wait = match self.refresh().await {
                Ok(Outcome {
                    priced,
                    unknown,
                    failures: 0,
                }) => {
                    tracing::info!(priced, unknown, "the prices are fresh");
                    EVERY
                }
                Ok(_) => AGAIN_AFTER,
                Err(error) => {
                    let age = self.table().age(self.clock.now());
                    tracing::warn!(%error, ?age, "the prices could not be read; the old ones stay");
                    AGAIN_AFTER
                }
            };
            self.clock.sleep(wait).await;
        }
    }
}
