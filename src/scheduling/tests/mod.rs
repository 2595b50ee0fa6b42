//! Behaviors of the solver, one sentence each.

mod alike;
mod cards;
mod counted;
mod daemons;
mod domains;
mod existing;
mod first_fit;
mod kinds;
mod laws;
mod limits;
mod min_values;
mod neighbors;
mod nodes;
mod packing;
mod preferences;
mod reasons;
mod remedies;
mod roomy;
mod spread;
mod starving;
mod time;
mod tiny;
mod volumes;
mod weaknesses;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1 as core;
use serde_json::{Value, json};

use super::*;
use crate::api::CapacityType;
use crate::api::names::{ARCH, CAPACITY_TYPE, INSTANCE_TYPE, NODE_POOL, OS, ZONE};
use crate::model::pod::Reading;
use crate::model::{
    Availability, InstanceType, Node, Offering, Pod, PodSet, Pool, Requirements, Storage, Taint, Values,
};
use crate::money::Price;
use crate::resources::{CPU, MEMORY, PODS, Resources};

const GI: i64 = 1 << 30;
const HOST: &str = "kubernetes.io/hostname";

/// A cluster to solve for: pools, nodes and pods, written down as one goes.
#[derive(Clone, Debug)]
struct Cluster {
    pools: Vec<Pool>,
    closed: Vec<(String, String)>,
    nodes: Vec<Node>,
    pending: Vec<core::Pod>,
    bound: Vec<core::Pod>,
    daemons: Vec<core::Pod>,
    namespaces: BTreeMap<String, BTreeMap<String, String>>,
    storage: Storage,
    options: Options,
}

/// What came of it.
struct Solved {
    snapshot: Snapshot,
    plan: Plan,
}

/// A type with this many processors and four times as many GiB, sold as spot in two zones and on demand in three.
fn kind(name: &str, cpu: i64) -> InstanceType {
    let dollars = 0.05 * f64::from(i32::try_from(cpu).unwrap());
    let mut requirements = Requirements::new();
    requirements.narrow(INSTANCE_TYPE, &Values::one_of([name]));
    requirements.narrow(ARCH, &Values::one_of(["amd64"]));
    requirements.narrow(OS, &Values::one_of(["linux"]));
    let capacity = Resources::new()
        .with(CPU, cpu * 1000)
        .with(MEMORY, 4 * cpu * GI)
        .with(PODS, 10 * cpu);
    let overhead = Resources::new().with(CPU, 100).with(MEMORY, GI / 4);
    InstanceType {
        name: name.to_owned(),
        requirements,
        allocatable: capacity.minus(&overhead),
        capacity,
        volume_limits: std::collections::BTreeMap::new(),
        offerings: vec![
            offering("z1", CapacityType::Spot, dollars * 0.5),
            offering("z2", CapacityType::Spot, dollars * 0.5),
            offering("z1", CapacityType::OnDemand, dollars),
            offering("z2", CapacityType::OnDemand, dollars),
            offering("z3", CapacityType::OnDemand, dollars),
        ],
    }
}

/// Types with 2, 4, 8, 16 and 32 processors. Every machine keeps something for itself, so the smallest holds one pod of 1200m
/// where twice as much would hold three; and the largest is bought dear. A claim never grows from one size to the next, though
/// several sizes would be worth it.
fn steep_types() -> Vec<InstanceType> {
    let sized = [(1, 1.0), (2, 2.02), (4, 4.04), (8, 8.08), (16, 40.0)];
    let kind = |(times, price): (i64, f64)| {
        let mut kind = kind(&format!("type-{times:02}"), 2 * times);
        for offering in &mut kind.offerings {
            offering.price = Price::from_usd(price);
        }
        kind
    };
    sized.map(kind).to_vec()
}

fn offering(zone: &str, capacity_type: CapacityType, dollars: f64) -> Offering {
    Offering {
        zone: zone.to_owned(),
        capacity_type,
        price: Price::from_usd(dollars),
        availability: Availability::Available,
    }
}

/// The same type with another architecture.
fn with_arch(mut kind: InstanceType, arch: &str) -> InstanceType {
    let mut requirements = Requirements::new();
    for (key, values) in kind.requirements.iter().filter(|(key, _)| *key != ARCH) {
        requirements.narrow(key, values);
    }
    requirements.narrow(ARCH, &Values::one_of([arch]));
    kind.requirements = requirements;
    kind
}

fn pool(name: &str, types: Vec<InstanceType>) -> Pool {
    let mut requirements = Requirements::new();
    requirements.narrow(NODE_POOL, &Values::one_of([name]));
    Pool {
        name: name.to_owned(),
        weight: 0,
        requirements,
        taints: Vec::new(),
        limits: None,
        types: Arc::new(types),
    }
}

/// One pool with types of 1, 2, 4, 8 and 16 processors.
fn cluster() -> Cluster {
    let types = [1, 2, 4, 8, 16].map(|cpu| kind(&format!("type-{cpu:02}"), cpu));
    Cluster {
        pools: vec![pool("default", types.to_vec())],
        closed: Vec::new(),
        nodes: Vec::new(),
        pending: Vec::new(),
        bound: Vec::new(),
        daemons: Vec::new(),
        namespaces: BTreeMap::new(),
        storage: Storage::default(),
        options: Options::default(),
    }
}

/// A pod that asks for some processors and nothing else.
fn pod(name: &str, cpu: &str) -> core::Pod {
    pod_with(name, cpu, &json!({}))
}

/// A pod whose spec has these fields as well.
fn pod_with(name: &str, cpu: &str, fields: &Value) -> core::Pod {
    let mut spec = json!({"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]});
    spec.as_object_mut()
        .unwrap()
        .extend(fields.as_object().unwrap().clone());
    serde_json::from_value(json!({
        "metadata": {"name": name, "namespace": "default", "uid": format!("uid-{name}")}, "spec": spec,
    }))
    .unwrap()
}

/// The same pod with these labels.
fn labelled(mut pod: core::Pod, labels: &Value) -> core::Pod {
    pod.metadata.labels = Some(serde_json::from_value(labels.clone()).unwrap());
    pod
}

/// The same pod on a node.
fn on(mut pod: core::Pod, node: &str) -> core::Pod {
    pod.spec.as_mut().unwrap().node_name = Some(node.to_owned());
    pod
}

/// Fields of a pod that must be on nodes with this label.
fn node_in(key: &str, values: &[&str]) -> Value {
    required(&json!([{"matchExpressions": [{"key": key, "operator": "In", "values": values}]}]))
}

fn required(terms: &Value) -> Value {
    json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
        {"nodeSelectorTerms": terms}}}})
}

/// Fields of a pod that must be near or far from pods with these labels.
fn neighbor(which: &str, key: &str, labels: &Value) -> Value {
    json!({"affinity": {which: {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": key, "labelSelector": {"matchLabels": labels}}]}}})
}

/// Fields of a pod that would rather be near or far from pods with these labels.
fn preferred_neighbor(which: &str, key: &str, labels: &Value) -> Value {
    json!({"affinity": {which: {"preferredDuringSchedulingIgnoredDuringExecution": [
        {"weight": 1, "podAffinityTerm": {"topologyKey": key, "labelSelector": {"matchLabels": labels}}}]}}})
}

/// Fields of a pod that is spread with others of these labels.
fn spread(key: &str, skew: i32, labels: &Value, more: &Value) -> Value {
    let mut constraint = json!({"topologyKey": key, "maxSkew": skew, "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": labels}});
    constraint
        .as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    json!({"topologySpreadConstraints": [constraint]})
}

/// The fields of both: what both say of one thing is joined, and lists have what both list.
fn both(one: &Value, other: &Value) -> Value {
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => {
            let mut all = one.clone();
            for (key, value) in other {
                let joined = all.get(key).map_or(value.clone(), |known| both(known, value));
                all.insert(key.clone(), joined);
            }
            Value::Object(all)
        }
        (Value::Array(one), Value::Array(other)) => Value::Array([&one[..], other].concat()),
        _ => other.clone(),
    }
}

/// A node with these labels and this many processors for pods.
fn node(name: &str, cpu: i64, labels: &[(&str, &str)]) -> Node {
    let has = Resources::new()
        .with(CPU, cpu * 1000)
        .with(MEMORY, 4 * cpu * GI)
        .with(PODS, 10 * cpu);
    Node {
        name: name.to_owned(),
        labels: labels
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect(),
        capacity: has.clone(),
        allocatable: has,
        ..Node::default()
    }
}

impl Cluster {
    fn with(mut self, pods: impl IntoIterator<Item = core::Pod>) -> Self {
        self.pending.extend(pods);
        self
    }

    fn bound(mut self, pods: impl IntoIterator<Item = core::Pod>) -> Self {
        self.bound.extend(pods);
        self
    }

    fn node(mut self, node: Node) -> Self {
        self.nodes.push(node);
        self
    }

    fn daemon(mut self, pod: core::Pod) -> Self {
        self.daemons.push(pod);
        self
    }

    /// Changes the first pool.
    fn pool(mut self, change: impl FnOnce(&mut Pool)) -> Self {
        change(&mut self.pools[0]);
        self
    }

    /// Requires this of the first pool.
    fn requires(self, key: &str, values: &Values) -> Self {
        self.pool(|pool| pool.requirements.narrow(key, values))
    }

    fn and_pool(mut self, pool: Pool) -> Self {
        self.pools.push(pool);
        self
    }

    fn types(self, types: Vec<InstanceType>) -> Self {
        self.pool(|pool| pool.types = Arc::new(types))
    }

    fn snapshot(&self) -> Snapshot {
        let daemons = self
            .daemons
            .iter()
            .map(|pod| Arc::new(Pod::read(pod, Reading::Daemon).unwrap()));
        let mut nodes = self.nodes.clone();
        for pod in &self.bound {
            let read = Pod::read(pod, Reading::Plain).unwrap();
            let on = pod.spec.as_ref().unwrap().node_name.clone().unwrap();
            let node = nodes.iter_mut().find(|node| node.name == on).unwrap();
            node.used.add(&read.requests);
            node.ports.extend(read.ports);
        }
        Snapshot {
            pools: self.pools.clone(),
            closed: self.closed.clone(),
            nodes,
            pending: PodSet::of(&self.pending),
            bound: PodSet::of(&self.bound),
            daemons: daemons.collect(),
            namespaces: self.namespaces.clone(),
            storage: self.storage.clone(),
        }
    }

    /// How often the solver looks for a place or at a claim.
    fn looks(&self) -> usize {
        let snapshot = self.snapshot();
        run::looks::take();
        let plan = solve(&snapshot, self.options, &|| true);
        let looks = run::looks::take();
        assert_eq!(self.found(&snapshot, &plan), [], "a legal plan");
        looks
    }

    /// Solves, and has the plan checked.
    fn solve(&self) -> Solved {
        let snapshot = self.snapshot();
        let plan = solve(&snapshot, self.options, &|| true);
        assert_eq!(self.found(&snapshot, &plan), [], "a legal plan");
        Solved { snapshot, plan }
    }

    /// What the audit finds in a plan that was made like this.
    fn found(&self, snapshot: &Snapshot, plan: &Plan) -> Vec<crate::audit::Finding> {
        crate::audit::plan_under(self.options.min_values, snapshot, plan)
    }
}

impl Solved {
    /// The names of pods by where they go: nodes by name, new claims by number.
    fn places(&self) -> BTreeMap<String, BTreeSet<String>> {
        let mut all: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for placement in &self.plan.placements {
            let place = match placement.on {
                Destination::Existing(node) => self.snapshot.nodes[node].name.clone(),
                Destination::New(claim) => format!("new-{claim}"),
            };
            let name = self.snapshot.pending.members[placement.pod].name.clone();
            all.entry(place).or_default().insert(name);
        }
        all
    }

    /// Where a pod goes, if anywhere.
    fn place(&self, pod: &str) -> Option<String> {
        let all = self.places();
        let found = all.iter().find(|(_, pods)| pods.contains(pod));
        found.map(|(place, _)| place.clone())
    }

    /// Whether every pod has a place.
    fn all_placed(&self) -> bool {
        self.plan.left_out.is_empty()
    }

    /// How many new claims there are.
    fn claims(&self) -> usize {
        self.plan.claims.len()
    }

    /// The names of the cheapest types of all claims, in order.
    fn types(&self) -> Vec<&str> {
        let name = |claim: &NewClaim| {
            self.snapshot.pools[claim.pool].types[claim.cheapest.instance_type]
                .name
                .as_str()
        };
        let mut all: Vec<&str> = self.plan.claims.iter().map(name).collect();
        all.sort_unstable();
        all
    }

    /// The names of the pools of all claims, in order.
    fn pools(&self) -> Vec<&str> {
        let name = |claim: &NewClaim| self.snapshot.pools[claim.pool].name.as_str();
        let mut all: Vec<&str> = self.plan.claims.iter().map(name).collect();
        all.sort_unstable();
        all
    }

    /// How many pods go to each value of a label that claims are pinned to.
    fn skew(&self, key: &str) -> Vec<usize> {
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for claim in &self.plan.claims {
            let values = claim.requirements.get(key).and_then(Values::listed);
            if let Some(value) = values
                .filter(|values| values.len() == 1)
                .and_then(BTreeSet::first)
            {
                *counts.entry(value.clone()).or_default() += claim.pods.len();
            }
        }
        let mut all: Vec<usize> = counts.into_values().collect();
        all.sort_unstable();
        all
    }

    /// How many pods each claim has, in order.
    fn sizes(&self) -> Vec<usize> {
        let mut all: Vec<usize> = self.plan.claims.iter().map(|claim| claim.pods.len()).collect();
        all.sort_unstable();
        all
    }

    /// What is said about the pods left out.
    fn words(&self) -> Vec<String> {
        let refusals = self.plan.left_out.iter().flat_map(|left| &left.refusals);
        refusals.map(ToString::to_string).collect()
    }
}

/// Several pods alike.
fn pods(number: usize, make: impl Fn(&str) -> core::Pod) -> Vec<core::Pod> {
    (0..number).map(|at| make(&format!("p{at:02}"))).collect()
}

fn capacity_types(solved: &Solved) -> BTreeSet<CapacityType> {
    solved
        .plan
        .claims
        .iter()
        .map(|claim| claim.cheapest.capacity_type)
        .collect()
}

fn zones(solved: &Solved) -> BTreeSet<&str> {
    solved
        .plan
        .claims
        .iter()
        .map(|claim| claim.cheapest.zone.as_str())
        .collect()
}

fn taint(key: &str, effect: &str) -> Taint {
    Taint::new(key, "", crate::model::Effect::parse(effect).unwrap())
}

const CAPACITY: &str = CAPACITY_TYPE;
const ZONES: &str = ZONE;
