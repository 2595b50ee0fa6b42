//! `karpenter-ibm solve`: where pods would go and what would be bought for them, from files alone.

use std::collections::BTreeMap;
use std::io::Read;

use anyhow::bail;
use comfy_table::{Table, presets};
use kube::ResourceExt;

use super::objects::read::Reader;
use super::objects::sold;
use super::planning::Policies;
use super::{BadInput, output};
use crate::audit;
use crate::clock::Clock;
use crate::controllers::node_pool::readiness;
use crate::model::{DiscountFactors, Snapshot, Withheld};
use crate::money::Price;
use crate::scheduling::{Destination, LeftOut, NewClaim, Options, Plan, Preferences, remedy, solve};

/// Names of so many pods are printed; the rest is counted.
const NAMES_MAX: usize = 4;
/// For so many kinds of pods without a place the smallest change is looked for: each look makes plans anew for every pool,
/// some milliseconds, and nobody reads more.
const REMEDIES_MAX: usize = 20;

/// Prints where the pods of some files would go, what would be bought for them and for how much, and why some would stay
/// without a node. Nothing is asked of a cluster or a cloud: machines and prices are built in.
///
/// Read are pods, workloads (Deployments, ReplicaSets, StatefulSets, Jobs), DaemonSets, NodePools, IBMNodeClasses, nodes,
/// NodeClaims, namespaces, volumes with their claims and classes, PodDisruptionBudgets, and UnavailableOfferings.
/// The exit status is 1 if some pod has no place.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A file of objects in YAML or JSON, or - for standard input; may be given several times
    #[arg(short, long = "filename", value_name = "FILE", required = true)]
    filename: Vec<String>,
    /// The share of the on-demand price that spot costs, of all machines or of a family: 0.3, bxf=0.25
    #[arg(long, value_name = "FACTOR")]
    spot_discount_factor: Vec<String>,
    /// Do not look at what pods only prefer: the same as --preference-policy Ignore
    #[arg(long)]
    ignore_preferences: bool,
    #[command(flatten)]
    policies: Policies,
}

impl Args {
    fn options(&self) -> Options {
        let mut options = self.policies.options();
        if self.ignore_preferences {
            options.preferences = Preferences::Ignore;
        }
        options
    }
}

/// Prints the plan.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let mut reader = Reader::default();
    for file in &args.filename {
        reader.read(file, &text(file)?)?;
    }
    let (objects, ignored) = reader.done()?;
    if !ignored.is_empty() {
        output::talk(format_args!("no part in a plan have: {}", ignored.join(", ")));
    }
    let factors = DiscountFactors::parse(&args.spot_discount_factor)
        .map_err(|error| BadInput::new(format!("--spot-discount-factor: {error}")))?;
    let withheld = Withheld::of(&objects.withheld);
    let now = Clock::system().now();
    let seen = objects.see(&|class| sold::types(class, &withheld, &factors, now), now);
    let snapshot = &seen.situation.snapshot;
    for (pool, why) in seen.passed_over.iter().chain(&snapshot.closed) {
        output::talk(format_args!("NodePool {pool} is passed over: {why}"));
    }
    for pool in objects.pools.iter().filter(|pool| readiness::is_ours(pool)) {
        for doubt in readiness::doubts(pool) {
            let name = pool.name_any();
            output::talk(format_args!(
                "NodePool {name} is not valid, but makes nodes: {doubt}"
            ));
        }
    }
    let options = args.options();
    let plan = solve(snapshot, options, &|| true);
    audit::ensure_legal(options.min_values, snapshot, &plan)?;
    output::data(told(snapshot, options, &plan).trim_end())?;
    match plan.pods_left_out() {
        0 => Ok(()),
        left => bail!("{left} of {} pods have no place", snapshot.pending.members.len()),
    }
}

fn text(file: &str) -> Result<String, BadInput> {
    let read = if file == "-" {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).map(|_| text)
    } else {
        std::fs::read_to_string(file)
    };
    read.map_err(|error| BadInput::new(format!("{file}: it cannot be read: {error}")))
}

/// The plan in words: what is bought, what is filled, and who is left out.
fn told(snapshot: &Snapshot, options: Options, plan: &Plan) -> String {
    let mut told = Vec::new();
    if !plan.claims.is_empty() {
        told.push(format!("{}\n\n", bought(snapshot, plan)));
    }
    let filled = filled(snapshot, plan);
    if !filled.is_empty() {
        told.push(format!("{}\n\n", existing(&filled)));
    }
    let price = Price::from_nanos(plan.price_nanos());
    told.push(format!(
        "{} to buy, {} an hour\n",
        counted(plan.claims.len(), "node"),
        price.map_or_else(|| "$0".to_owned(), |price| price.to_string())
    ));
    for (at, left) in plan.left_out.iter().enumerate() {
        let pods: Vec<String> = left.pods.iter().map(|pod| name(snapshot, *pod)).collect();
        told.push(format!("\nno place for {}:\n", shortened(&pods)));
        for refusal in &left.refusals {
            told.push(format!("  {refusal}\n"));
        }
        told.extend(left.others().map(|others| format!("  and {others}\n")));
        if at < REMEDIES_MAX {
            told.extend(change(snapshot, options, plan, left));
        }
    }
    let more = plan.left_out.len().saturating_sub(REMEDIES_MAX);
    if more > 0 {
        let kinds = counted(more, "more kind");
        told.push(format!("\nwhat would let in pods of {kinds} was not looked at\n"));
    }
    told.concat()
}

/// What would let in the pods of a class that has no place, if any change would.
fn change(snapshot: &Snapshot, options: Options, plan: &Plan, left: &LeftOut) -> Option<String> {
    let remedy = remedy(snapshot, plan, options, *left.pods.first()?)?;
    let changes: Vec<String> = remedy.changes.iter().map(ToString::to_string).collect();
    let pool = remedy.pool;
    Some(format!(
        "  to get in at NodePool {pool}: {}\n",
        changes.join("; ")
    ))
}

fn bought(snapshot: &Snapshot, plan: &Plan) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header([
        "NODEPOOL", "TYPE", "ZONE", "CAPACITY", "PRICE/H", "OR TYPES", "PODS",
    ]);
    for claim in &plan.claims {
        let price = claim.cheapest.price;
        table.add_row([
            claim.pool(snapshot).name.clone(),
            claim.option_names(snapshot).next().unwrap_or_default().to_owned(),
            claim.cheapest.zone.clone(),
            claim.cheapest.capacity_type.to_string(),
            price.map_or_else(|| "-".to_owned(), |price| price.to_string()),
            claim.options.len().saturating_sub(1).to_string(),
            shortened(&pods_of(snapshot, claim)),
        ]);
    }
    table
}

fn pods_of(snapshot: &Snapshot, claim: &NewClaim) -> Vec<String> {
    claim.pods.iter().map(|pod| name(snapshot, *pod)).collect()
}

/// The nodes that are there and take pods.
fn filled(snapshot: &Snapshot, plan: &Plan) -> BTreeMap<String, Vec<String>> {
    let mut all: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for placement in &plan.placements {
        if let Destination::Existing(node) = placement.on {
            let node = snapshot.nodes[node].name.clone();
            all.entry(node).or_default().push(name(snapshot, placement.pod));
        }
    }
    all
}

fn existing(filled: &BTreeMap<String, Vec<String>>) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["NODE", "PODS"]);
    for (node, pods) in filled {
        table.add_row([node.clone(), shortened(pods)]);
    }
    table
}

fn name(snapshot: &Snapshot, pod: usize) -> String {
    let member = &snapshot.pending.members[pod];
    format!("{}/{}", member.namespace, member.name)
}

fn shortened(names: &[String]) -> String {
    let shown = names.len().min(NAMES_MAX);
    let text = names[..shown].join(", ");
    match names.len() - shown {
        0 => text,
        more => format!("{text} and {more} more"),
    }
}

fn counted(number: usize, what: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {what}{plural}")
}
