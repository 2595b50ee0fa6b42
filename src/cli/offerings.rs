//! `karpenter-ibm offerings`: what can be bought in a region, for how much, and what is withheld now.

use std::collections::BTreeSet;
use std::time::Duration;

use comfy_table::{Table, presets};
use jiff::Timestamp;
use kube::Api;
use kube::api::ListParams;
use prometheus::Registry;

use super::access::{Access, Discounts, bad_setting};
use super::{BadInput, output};
use crate::api::{CapacityType, UnavailableOffering};
use crate::clock::Clock;
use crate::cloud;
use crate::entropy::Entropy;
use crate::ibm::http::Metrics;
use crate::ibm::offerings::Kinds;
use crate::ibm::prices::{Catalog, Prices};
use crate::ibm::{Client, Transports};
use crate::model::offerings::price;
use crate::model::{DiscountFactors, Kind, PriceSource, Priced, Withheld};
use crate::operator::{RawSettings, Settings};

/// One reading of the catalogue takes about 480 requests. A person waits for it, and it is done once.
const BURST: u32 = 500;

/// A cluster answers at once, or is left out.
const CLUSTER_PATIENCE: Duration = Duration::from_secs(5);

/// Prints what can be bought, the cheapest first: price, where the price comes from, and what is withheld.
///
/// Prices are read from the catalogue. What is withheld is read from the cluster that KUBECONFIG names.
/// Credentials: IBMCLOUD_API_KEY (environment only), IBMCLOUD_API_KEY_FILE, or IBMCLOUD_TRUSTED_PROFILE.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Only in this zone, e.g. us-south-1; may be given several times
    #[arg(long)]
    zone: Vec<String>,
    /// Only spot
    #[arg(long)]
    spot: bool,
    #[command(flatten)]
    discounts: Discounts,
    #[command(flatten)]
    access: Access,
}

/// Prints the table.
pub fn run(args: Args) -> anyhow::Result<()> {
    let filter = Filter {
        zones: args.zone.into_iter().collect(),
        ways: if args.spot {
            vec![CapacityType::Spot]
        } else {
            vec![CapacityType::Spot, CapacityType::OnDemand]
        },
    };
    let raw = args.discounts.over(args.access.raw());
    let raw = RawSettings {
        burst: raw.burst.or(Some(BURST)),
        ..raw
    };
    let settings = Settings::validate(&raw).map_err(|error| bad_setting(&error))?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(print(&settings, &filter))
}

/// Which offerings are shown.
struct Filter {
    /// All if empty.
    zones: BTreeSet<String>,
    ways: Vec<CapacityType>,
}

async fn print(settings: &Settings, filter: &Filter) -> anyhow::Result<()> {
    let clock = Clock::system();
    let kinds = kinds(settings, &clock).await?;
    check(filter, &kinds)?;
    let withheld = match withheld().await {
        Ok(withheld) => Some(withheld),
        Err(why) => {
            output::talk(format_args!("what is withheld is not known: {why}"));
            None
        }
    };
    let factors = settings.discounts.at_start();
    let rows = rows(&kinds, filter, &factors, withheld.as_ref(), clock.now());
    Ok(output::data(table(&rows))?)
}

/// Everything that is sold, at the catalogue's prices as far as it gives any.
async fn kinds(settings: &Settings, clock: &Clock) -> anyhow::Result<Vec<Kind>> {
    let metrics = Metrics::register(&Registry::new(), &settings.region)?;
    let client = Client::new(
        settings.ibm.clone(),
        Transports::network()?,
        metrics,
        clock,
        Entropy::from_system(),
    );
    let prices = Prices::new(Catalog::new(client.catalog), &settings.region, clock.clone());
    let sold = Kinds::new(client.vpc, prices.clone(), clock.clone());
    // Credentials and region show here, before the long reading.
    sold.get().await.map_err(refused)?;
    match prices.refresh().await {
        Ok(outcome) if outcome.failures > 0 => output::talk(format_args!(
            "{} prices could not be read from the catalogue; built-in ones stand for them",
            outcome.failures
        )),
        Ok(_) => {}
        Err(error) => output::talk(format_args!(
            "the catalogue could not be read; all prices are built in: {error}"
        )),
    }
    Ok(sold.get().await.map_err(refused)?.to_vec())
}

fn refused(error: cloud::Error) -> anyhow::Error {
    match &error {
        cloud::Error::Unauthorized(answer) => {
            let problem = format!("IBM Cloud does not accept the credentials: {}", answer.message);
            let hint =
                "set exactly one of IBMCLOUD_API_KEY, IBMCLOUD_API_KEY_FILE or IBMCLOUD_TRUSTED_PROFILE";
            BadInput::new(problem).hint(hint).into()
        }
        _ => anyhow::Error::new(error).context("reading what is sold"),
    }
}

/// A zone in which nothing is sold is a mistake.
fn check(filter: &Filter, kinds: &[Kind]) -> Result<(), BadInput> {
    let zones: BTreeSet<&String> = kinds.iter().flat_map(|kind| &kind.zones).collect();
    let unknown = filter.zones.iter().find(|zone| !zones.contains(zone));
    unknown.map_or(Ok(()), |zone| {
        let known: Vec<&str> = zones.iter().map(|zone| zone.as_str()).collect();
        let problem = BadInput::new(format!("--zone: nothing is sold in `{zone}`"));
        Err(problem.hint(format!("one of {}", known.join(", "))))
    })
}

/// What is withheld in the cluster that the environment names; why that is not known.
async fn withheld() -> Result<Withheld, String> {
    let config = kube::Config::infer()
        .await
        .map_err(|error| format!("there is no cluster to ask: {error}"))?;
    let url = config.cluster_url.to_string();
    let client = kube::Client::try_from(config).map_err(|error| error.to_string())?;
    let objects: Api<UnavailableOffering> = Api::all(client);
    let everything = ListParams::default();
    let list = tokio::time::timeout(CLUSTER_PATIENCE, objects.list(&everything));
    match list.await {
        Ok(Ok(list)) => Ok(Withheld::of(&list.items)),
        Ok(Err(error)) => Err(format!("the cluster at {url} does not say: {error}")),
        Err(_) => Err(format!("the cluster at {url} does not answer")),
    }
}

/// One offering, as far as it is shown.
struct Row<'a> {
    kind: &'a Kind,
    zone: &'a str,
    way: CapacityType,
    priced: Option<Priced>,
    availability: String,
}

/// What is shown, the cheapest first and what has no price last.
fn rows<'a>(
    kinds: &'a [Kind],
    filter: &Filter,
    factors: &DiscountFactors,
    withheld: Option<&Withheld>,
    now: Timestamp,
) -> Vec<Row<'a>> {
    let mut rows = Vec::new();
    for kind in kinds {
        let zones = kind
            .zones
            .iter()
            .filter(|zone| filter.zones.is_empty() || filter.zones.contains(*zone));
        for zone in zones {
            let ways = filter.ways.iter().filter(|way| kind.is_sold(**way));
            rows.extend(ways.map(|way| Row {
                kind,
                zone,
                way: *way,
                priced: price(kind, *way, factors),
                availability: availability(kind, *way, zone, withheld, now),
            }));
        }
    }
    let order = |row: &Row<'a>| {
        let price = row.priced.map(|priced| priced.price);
        (price.is_none(), price, row.kind.name.as_str(), row.zone, row.way)
    };
    rows.sort_by(|a, b| order(a).cmp(&order(b)));
    rows
}

fn availability(
    kind: &Kind,
    way: CapacityType,
    zone: &str,
    withheld: Option<&Withheld>,
    now: Timestamp,
) -> String {
    let Some(withheld) = withheld else {
        return "-".to_owned();
    };
    let hold = withheld.hold(way, &kind.name, zone, kind.has_gpus(), now);
    hold.map_or_else(
        || "available".to_owned(),
        |hold| format!("withheld until {} ({})", hold.until, hold.reason),
    )
}

fn table(rows: &[Row<'_>]) -> Table {
    const GIB: i64 = 1 << 30;
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header([
        "PROFILE",
        "ZONE",
        "CAPACITY",
        "VCPU",
        "GIB",
        "GPUS",
        "PRICE/H",
        "PRICE FROM",
        "AVAILABILITY",
    ]);
    for row in rows {
        let dash = || "-".to_owned();
        let gpus = row.kind.gpus.as_ref();
        table.add_row([
            row.kind.name.clone(),
            row.zone.to_owned(),
            row.way.to_string(),
            row.kind.vcpu.to_string(),
            (row.kind.memory_bytes / GIB).to_string(),
            gpus.map_or_else(dash, |cards| format!("{} {}", cards.count, cards.name)),
            row.priced.map_or_else(dash, |priced| priced.price.to_string()),
            row.priced.map_or_else(dash, |priced| source(priced.source)),
            row.availability.clone(),
        ]);
    }
    table
}

fn source(source: PriceSource) -> String {
    match source {
        PriceSource::Catalogue { .. } => "catalogue".to_owned(),
        PriceSource::BuiltIn { certainty } => format!("built-in, {certainty}"),
        PriceSource::SetFactor(factor) => format!("on-demand x {factor}, set"),
        PriceSource::UsualFactor(factor) => format!("on-demand x {factor}, usual"),
    }
}
