//! One machine's life, told as it happens: offered, bought, preempted, cleaned up.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use comfy_table::{CellAlignment, Table, presets};
use jiff::Timestamp;
use prometheus::Registry;

use crate::cli::output;
use crate::clock::{Clock, between};
use crate::entropy::Entropy;
use crate::ibm::endpoints::{Endpoints, Overrides};
use crate::ibm::http::Metrics;
use crate::ibm::iam::{Credentials, KeySource};
use crate::ibm::prices::{Catalog, Known, PriceTable, Prices, Source};
use crate::ibm::secret::Secret;
use crate::ibm::vpc::instances::InstanceFilter;
use crate::ibm::vpc::types::{
    AvailabilityClass, Instance, InstanceProfile, InstancePrototype, InstanceStatus, Order, StatusReasonCode,
};
use crate::ibm::{Client, Config, Transports};
use crate::money::Price;
use crate::sim::ibm::{Cloud, Options};

/// A Monday morning.
const BEGINS: &str = "2026-11-16T09:00:00Z";

/// What the machine must have: room for a small workload.
const VCPU_MIN: u64 = 4;
const MEMORY_GIB_MIN: u64 = 16;

/// How often spot machines are looked at, as the controller does by default.
const POLL: Duration = Duration::from_mins(1);

/// How long a step may take before the story has gone wrong.
const PATIENCE: Duration = Duration::from_mins(15);

/// Plays the story in `region`.
pub(super) async fn tell(region: &str, seed: u64) -> anyhow::Result<()> {
    let stage = Stage::set(region, seed)?;
    stage.say(&format!(
        "A simulated IBM Cloud runs in this process: region {region}, seed {seed}. No account is needed."
    ))?;
    let prices = stage.read_prices().await?;
    let (profile, spot, on_demand) = stage.offerings(&prices).await?;
    let machine = stage.buy(&profile, spot, on_demand).await?;
    let running_since = stage.wait_until_running(&machine).await?;
    stage.preempt(&machine).await?;
    let stopped = stage.see_the_preemption(&machine).await?;
    stage.clean_up(&machine).await?;
    stage.settle(spot, on_demand, between(running_since, stopped))
}

/// The cloud, the client and the time of the story.
struct Stage {
    cloud: Cloud,
    client: Client,
    clock: Clock,
    began: Timestamp,
}

impl Stage {
    fn set(region: &str, seed: u64) -> anyhow::Result<Self> {
        let began: Timestamp = BEGINS.parse()?;
        let clock = Clock::simulated(began);
        let cloud = Cloud::new(Options::new(region, seed, clock.clone()));
        // Never dialed: the exchange below goes straight to the simulator's router.
        let all = Some("http://127.0.0.1:1".to_owned());
        let endpoints = Endpoints::resolve(
            region,
            &Overrides {
                all,
                ..Overrides::default()
            },
        )?;
        let key = KeySource::Given(Secret::new("demo-api-key".to_owned()));
        let config = Config::new(endpoints, Credentials::ApiKey(key));
        let transports = Transports {
            cloud: Arc::new(cloud.exchange()),
            metadata: Arc::new(cloud.exchange()),
        };
        let metrics = Metrics::register(&Registry::new(), region)?;
        let client = Client::new(config, transports, metrics, &clock, Entropy::seeded(seed));
        Ok(Self {
            cloud,
            client,
            clock,
            began,
        })
    }

    /// A line of the story, with the time that has passed in it.
    fn say(&self, line: &str) -> anyhow::Result<()> {
        let passed = between(self.began, self.clock.now()).as_secs();
        output::data(format_args!("[{:02}:{:02}] {line}", passed / 60, passed % 60))?;
        Ok(())
    }

    async fn read_prices(&self) -> anyhow::Result<Arc<PriceTable>> {
        let catalog = Catalog::new(self.client.catalog.clone());
        let region = self.cloud.account().region;
        let prices = Prices::new(catalog, &region, self.clock.clone());
        let outcome = prices
            .refresh()
            .await
            .context("the price catalogue cannot be read")?;
        self.say(&format!(
            "The Global Catalog gives prices for {} profiles, spot prices included.",
            outcome.priced
        ))?;
        Ok(prices.table())
    }

    /// Shows what fits and picks the cheapest spot offering.
    async fn offerings(&self, prices: &PriceTable) -> anyhow::Result<(InstanceProfile, Price, Price)> {
        let profiles = self.client.vpc.list_instance_profiles().await?;
        let mut fitting: Vec<(Price, Known, Known, InstanceProfile)> = profiles
            .into_iter()
            .filter(|profile| fits(profile) && allows_spot(profile))
            .filter_map(|profile| {
                let quote = prices.quote(&profile.name);
                let (spot, on_demand) = (quote.spot?, quote.on_demand?);
                Some((spot.price, spot, on_demand, profile))
            })
            .collect();
        fitting.sort_by(|a, b| (a.0, &a.3.name).cmp(&(b.0, &b.3.name)));
        self.say(&format!(
            "A workload needs {VCPU_MIN} vCPU and {MEMORY_GIB_MIN} GiB. Of {} profiles that fit and are sold as spot, the cheapest:",
            fitting.len()
        ))?;
        output::data(table(&fitting[..fitting.len().min(6)]))?;
        let Some((price, _, on_demand, profile)) = fitting.into_iter().next() else {
            bail!("no spot profile fits");
        };
        Ok((profile, price, on_demand.price))
    }

    async fn buy(
        &self,
        profile: &InstanceProfile,
        spot: Price,
        on_demand: Price,
    ) -> anyhow::Result<Instance> {
        let account = self.cloud.account();
        let order = Order {
            name: "kib-demo".to_owned(),
            profile: profile.name.clone(),
            zone: account.zones[0].clone(),
            vpc: account.vpc,
            subnet: account.subnets[0].clone(),
            image: account.image,
            class: AvailabilityClass::Spot,
        };
        let machine = self
            .client
            .vpc
            .create_instance(&InstancePrototype::of(&order))
            .await?;
        self.say(&format!(
            "Bought {} in {} as spot with preemption `stop`, for {spot} an hour instead of {on_demand}.",
            order.profile, order.zone
        ))?;
        Ok(machine)
    }

    async fn wait_until_running(&self, machine: &Instance) -> anyhow::Result<Timestamp> {
        self.until("the machine runs", Duration::from_secs(5), async || {
            let now = self.client.vpc.get_instance(&machine.id).await?;
            let running = now.status == Some(InstanceStatus::Running);
            Ok(running.then(|| now.address().unwrap_or("no address").to_owned()))
        })
        .await
        .and_then(|address| self.say(&format!("It runs, at {address}.")))?;
        Ok(self.clock.now())
    }

    async fn preempt(&self, machine: &Instance) -> anyhow::Result<()> {
        self.clock.sleep(Duration::from_mins(20)).await;
        self.cloud.preempt(&machine.name)?;
        self.say("IBM wants the machine back: a preemption begins, with 30 seconds of grace.")
    }

    /// Looks at all spot machines every minute, as a controller would.
    async fn see_the_preemption(&self, machine: &Instance) -> anyhow::Result<Timestamp> {
        let spot = InstanceFilter {
            class: Some(AvailabilityClass::Spot),
            ..InstanceFilter::default()
        };
        self.until("the preemption is seen", POLL, async || {
            let listed = self.client.vpc.list_instances(&spot).await?;
            let ours = listed.into_iter().find(|instance| instance.id == machine.id);
            Ok(ours.filter(|instance| instance.has_reason(&StatusReasonCode::StoppedByPreemption)))
        })
        .await?;
        self.say("The poll of spot machines finds it stopped, with the reason `stopped_by_preemption`: no doubt, no guess.")?;
        Ok(self.clock.now())
    }

    async fn clean_up(&self, machine: &Instance) -> anyhow::Result<()> {
        self.client.vpc.delete_instance(&machine.id).await?;
        self.say("Deletion is asked for: a stopped machine still costs its volume and its address.")?;
        self.until("the machine is gone", Duration::from_secs(5), async || match self
            .client
            .vpc
            .get_instance(&machine.id)
            .await
        {
            Err(error) if error.is_not_found() => Ok(Some(())),
            Ok(_) => Ok(None),
            Err(error) => Err(error.into()),
        })
        .await?;
        ensure!(self.cloud.instances().is_empty(), "the machine is still there");
        ensure!(
            self.cloud.orphans().is_empty(),
            "it left behind: {}",
            self.cloud.orphans().join(", ")
        );
        self.say("It is gone, and with it its volume, its network interface and its address. Nothing is left behind.")
    }

    fn settle(&self, spot: Price, on_demand: Price, ran: Duration) -> anyhow::Result<()> {
        let cost = |price: Price| price.usd() * ran.as_secs_f64() / 3600.0;
        self.say(&format!(
            "It ran for {} minutes and cost ${:.4}; on demand it would have been ${:.4}. {} requests were sent.",
            ran.as_secs() / 60,
            cost(spot),
            cost(on_demand),
            self.cloud.requests().count()
        ))
    }

    /// Asks every so often until the answer is there.
    async fn until<T>(
        &self,
        what: &str,
        every: Duration,
        ask: impl AsyncFn() -> anyhow::Result<Option<T>>,
    ) -> anyhow::Result<T> {
        let deadline = self.clock.instant() + PATIENCE;
        loop {
            if let Some(answer) = ask().await? {
                return Ok(answer);
            }
            ensure!(self.clock.instant() < deadline, "it does not happen that {what}");
            self.clock.sleep(every).await;
        }
    }
}

fn fits(profile: &InstanceProfile) -> bool {
    let usual = |capability: &Option<crate::ibm::vpc::types::Capability<u64>>| {
        capability
            .as_ref()
            .and_then(|capability| capability.usual().copied())
            .unwrap_or(0)
    };
    usual(&profile.vcpu_count) >= VCPU_MIN && usual(&profile.memory) >= MEMORY_GIB_MIN
}

fn allows_spot(profile: &InstanceProfile) -> bool {
    profile
        .availability_class
        .as_ref()
        .is_some_and(|class| class.permits(&AvailabilityClass::Spot))
}

fn table(rows: &[(Price, Known, Known, InstanceProfile)]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["PROFILE", "SPOT $/H", "ON-DEMAND $/H", "SHARE", "ZONES", "SOURCE"]);
    for (_, spot, on_demand, profile) in rows {
        let zones: Vec<_> = profile
            .zones
            .iter()
            .filter_map(|zone| zone.name.as_deref())
            .collect();
        let source = match spot.source {
            Source::Catalogue { .. } => "catalogue".to_owned(),
            Source::BuiltIn { certainty } => format!("built in ({})", certainty.as_str()),
        };
        table.add_row([
            profile.name.clone(),
            spot.price.to_string(),
            on_demand.price.to_string(),
            format!("{:.0} %", 100.0 * spot.price.usd() / on_demand.price.usd()),
            zones.join(" "),
            source,
        ]);
    }
    for column in 1..4 {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}
