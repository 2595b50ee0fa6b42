//! Workloads to measure the scheduler with: typed objects as the API server shows them, or the same as JSON for another
//! scheduler to be measured with.
//!
//! The diverse one has 400 instance types with five offerings each, and five kinds of pods in equal parts: plain ones,
//! some spread over zones, some spread over nodes, some that want to be in the zone of others, and some that want a node
//! of their own. Sizes and labels are drawn from a fixed seed, so the same number of pods is the same workload everywhere.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use karpenter_ibm::api::CapacityType;
use karpenter_ibm::ibm::builtin;
use karpenter_ibm::model::node::Arrived;
use karpenter_ibm::model::pod::{Pod as Read, Reading};
use karpenter_ibm::model::{Availability, InstanceType, Node, Offering, Pool, Requirements, Values};
use karpenter_ibm::money::Price;
use karpenter_ibm::resources::{CPU, MEMORY, PODS, Resources};
use serde_json::{Value, json};

const SEED: u64 = 42;
const GI: i64 = 1 << 30;
const MI: i64 = 1 << 20;
const LETTERS: [&str; 7] = ["a", "b", "c", "d", "e", "f", "g"];
const MILLIS: [i64; 5] = [100, 250, 500, 1000, 1500];
const MEBIS: [i64; 6] = [100, 256, 512, 1024, 2048, 4096];
/// Where there are nodes: how many, and how many pods are on them, which leaves most nodes some room.
const NODES: usize = 1000;
const BOUND: usize = 10_000;
/// The processors of each of those nodes.
const NODE_CPU: usize = 10;
/// The DaemonSets of which each of those nodes has a pod.
const DAEMONS: usize = 3;

/// Numbers that look random and are the same everywhere (SplitMix64).
struct Draws(u64);

impl Draws {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn one<T: Copy>(&mut self, of: &[T]) -> T {
        let at = self.next() % u64::try_from(of.len()).unwrap_or(1);
        of[usize::try_from(at).unwrap_or_default()]
    }

    fn requests(&mut self) -> Value {
        let (cpu, memory) = (self.one(&MILLIS), self.one(&MEBIS));
        json!({"cpu": format!("{cpu}m"), "memory": format!("{memory}Mi")})
    }
}

/// Something to schedule.
pub(crate) struct Workload {
    /// The pods.
    pub(crate) pods: Vec<Pod>,
    /// The pool they can be placed in.
    pub(crate) pool: Pool,
    /// Other pools, where there are any.
    pub(crate) others: Vec<Pool>,
    /// The nodes that are there, with what is on them.
    pub(crate) nodes: Vec<Node>,
    /// The pods on them, but for daemons.
    pub(crate) bound: Vec<Pod>,
    /// The daemons of every node.
    pub(crate) daemons: Vec<Arc<Read>>,
}

impl Workload {
    /// Pods for a cluster without nodes.
    fn new(pods: Vec<Pod>, types: Vec<InstanceType>) -> Self {
        Self {
            pods,
            pool: pool(types),
            others: Vec::new(),
            nodes: Vec::new(),
            bound: Vec::new(),
            daemons: Vec::new(),
        }
    }
}

/// Diverse pods and 400 types.
pub(crate) fn diverse(pods: usize) -> Workload {
    let mut draws = Draws(SEED);
    let each = pods / 5;
    let mut all = Vec::with_capacity(pods);
    for _ in 0..each + pods % 5 {
        all.push((json!({"my-label": draws.one(&LETTERS)}), json!({})));
    }
    for key in ["topology.kubernetes.io/zone", "kubernetes.io/hostname"] {
        for _ in 0..each {
            let spread = json!([{"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"my-label": draws.one(&LETTERS)}}}]);
            let labels = json!({"my-label": draws.one(&LETTERS)});
            all.push((labels, json!({"topologySpreadConstraints": spread})));
        }
    }
    for _ in 0..each {
        let labels = json!({"my-affininity": draws.one(&LETTERS)});
        let term =
            json!([{"topologyKey": "topology.kubernetes.io/zone", "labelSelector": {"matchLabels": labels}}]);
        let affinity = json!({"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": term}});
        all.push((labels, json!({"affinity": affinity})));
    }
    for _ in 0..each {
        let labels = json!({"app": "nginx"});
        let term =
            json!([{"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": labels}}]);
        let affinity = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": term}});
        all.push((labels, json!({"affinity": affinity})));
    }
    let pod =
        |(number, (labels, spec)): (usize, (Value, Value))| pod(number, &labels, spec, &draws.requests());
    Workload::new(all.into_iter().enumerate().map(pod).collect(), types(400))
}

/// As many kinds of pods as pods: each has a label of its own, and would have no other with it on its node.
pub(crate) fn kinds(pods: usize) -> Workload {
    each_its_own(pods, |name| {
        let labels = json!({"app": name});
        let term =
            json!([{"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": labels}}]);
        json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": term}}})
    })
}

/// As many kinds of pods as pods: each wants nodes of its own, which the pool makes for anybody.
pub(crate) fn teams(pods: usize) -> Workload {
    let mut workload = each_its_own(pods, |name| json!({"nodeSelector": {"team": name}}));
    workload.pool.requirements.narrow("team", &Values::some());
    workload
}

/// As many kinds of pods as pods: each wants nodes of its own, and none of 63 pools makes any.
pub(crate) fn hopeless(pods: usize) -> Workload {
    let mut workload = each_its_own(pods, |name| json!({"nodeSelector": {"team": name}}));
    let other = |number: usize| {
        let mut pool = workload.pool.clone();
        pool.name = format!("pool-{number}");
        pool.requirements = labels(&[("karpenter.sh/nodepool", &[&pool.name]), ("team", &[&pool.name])]);
        pool
    };
    workload.others = (1..63).map(other).collect();
    workload
}

/// As many kinds of pods as pods: each wants nodes with a label of its own, which nobody gives to any.
pub(crate) fn jobs(pods: usize) -> Workload {
    each_its_own(pods, |name| json!({"nodeSelector": {name: "mine"}}))
}

fn each_its_own(pods: usize, spec: impl Fn(&str) -> Value) -> Workload {
    let mut draws = Draws(SEED);
    let one = |number: usize| {
        let name = format!("app-{number}");
        pod(number, &json!({"app": name}), spec(&name), &draws.requests())
    };
    Workload::new((0..pods).map(one).collect(), types(400))
}

/// Pods that are all the same and would rather be in one zone, each in a zone of its own and each on a node of its own.
pub(crate) fn preferences(pods: usize) -> Workload {
    let mut draws = Draws(SEED);
    let labels = json!({"app": "nginx"});
    let far = |weight: u32, key: &str| json!({"weight": weight, "podAffinityTerm": {"topologyKey": key, "labelSelector": {"matchLabels": labels}}});
    let zone = json!([{"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["test-zone-1"]}]);
    let affinity = json!({
        "nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution":
            [{"weight": 1, "preference": {"matchExpressions": zone}}]},
        "podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution":
            [far(10, "topology.kubernetes.io/zone"), far(1, "kubernetes.io/hostname")]},
    });
    let requests = draws.requests();
    let one = |number| pod(number, &labels, json!({"affinity": affinity}), &requests);
    Workload::new((0..pods).map(one).collect(), types(400))
}

/// Diverse pods on IBM's own machines, spot and on-demand in three zones.
pub(crate) fn ibm(pods: usize) -> Workload {
    Workload::new(diverse(pods).pods, ibm_types())
}

/// Diverse pods beside nodes with as diverse pods on them. Each node has the daemons that it will have.
pub(crate) fn existing(pods: usize) -> Workload {
    let mut all = diverse(pods);
    all.daemons = (0..DAEMONS).filter_map(daemon).map(Arc::new).collect();
    let kind = &all.pool.types[NODE_CPU - 1];
    all.nodes = (0..NODES).map(|at| node(at, kind, &all.daemons)).collect();
    all.bound = diverse(BOUND).pods;
    for (at, pod) in all.bound.iter_mut().enumerate() {
        let node = &mut all.nodes[at * NODES / BOUND];
        pod.metadata.name = Some(format!("bound-{at:05}"));
        pod.metadata.uid = Some(format!("00000000-0000-4000-9000-{at:012}"));
        pod.spec.get_or_insert_default().node_name = Some(node.name.clone());
        if let Ok(read) = Read::read(pod, Reading::Plain) {
            node.used.add(&read.requests);
        }
    }
    all
}

fn daemon(number: usize) -> Option<Read> {
    let labels = json!({"daemon": number.to_string()});
    let pod = pod(
        number,
        &labels,
        json!({}),
        &json!({"cpu": "50m", "memory": "64Mi"}),
    );
    Read::read(&pod, Reading::Daemon).ok()
}

/// A node of this type on demand, with its daemons.
fn node(number: usize, kind: &InstanceType, daemons: &[Arc<Read>]) -> Node {
    let name = format!("node-{number:04}");
    let zone = format!("test-zone-{}", number % 3 + 1);
    let labels = [
        ("kubernetes.io/hostname", name.as_str()),
        ("topology.kubernetes.io/zone", zone.as_str()),
        ("karpenter.sh/capacity-type", "on-demand"),
        ("karpenter.sh/nodepool", "default"),
        ("node.kubernetes.io/instance-type", kind.name.as_str()),
        ("kubernetes.io/arch", "amd64"),
        ("kubernetes.io/os", "linux"),
    ];
    let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned()));
    let mut used = Resources::new();
    for daemon in daemons {
        used.add(&daemon.requests);
    }
    let arrived = |daemon: &Arc<Read>| Arrived {
        of: daemon.clone(),
        requests: daemon.requests.clone(),
    };
    Node {
        labels: labels.into(),
        pool: Some("default".to_owned()),
        capacity: kind.capacity.clone(),
        allocatable: kind.allocatable.clone(),
        used,
        daemons: daemons.iter().map(arrived).collect(),
        name,
        ..Node::default()
    }
}

fn pod(number: usize, labels: &Value, mut spec: Value, requests: &Value) -> Pod {
    spec["containers"] = json!([{"name": "c", "resources": {"requests": requests}}]);
    let pod = json!({
        "metadata": {"name": format!("pod-{number:05}"), "namespace": "default", "labels": labels,
            "uid": format!("00000000-0000-4000-8000-{number:012}"), "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": spec,
    });
    serde_json::from_value(pod).unwrap_or_default()
}

fn pool(types: Vec<InstanceType>) -> Pool {
    let mut requirements = Requirements::new();
    requirements.narrow("karpenter.sh/nodepool", &Values::one_of(["default"]));
    Pool {
        name: "default".to_owned(),
        weight: 0,
        requirements,
        taints: Vec::new(),
        limits: Some(
            Resources::new()
                .with(CPU, 10_000_000_000)
                .with(MEMORY, 10_000_000 * GI),
        ),
        types: Arc::new(types),
    }
}

fn labels(pairs: &[(&str, &[&str])]) -> Requirements {
    let mut all = Requirements::new();
    for (key, values) in pairs {
        all.narrow(key, &Values::one_of(values.iter().copied()));
    }
    all
}

/// Types of one processor more each, with two GiB and ten pods for every processor.
fn types(number: i64) -> Vec<InstanceType> {
    let kind = |cpu: i64| {
        let name = format!("fake-it-{}", cpu - 1);
        let capacity = Resources::new()
            .with(CPU, cpu * 1000)
            .with(MEMORY, 2 * cpu * GI)
            .with(PODS, 10 * cpu);
        let overhead = Resources::new().with(CPU, 100).with(MEMORY, 10 * MI);
        #[expect(clippy::cast_precision_loss, reason = "at most 800 GiB, far below 2^53")]
        let dollars = 0.1 * cpu as f64 + 0.1 * (2 * cpu * GI) as f64 / 1e9;
        let offer = |zone: &str, capacity_type| Offering {
            zone: zone.to_owned(),
            capacity_type,
            price: Price::from_usd(dollars),
            availability: Availability::Available,
        };
        let size = if cpu > 4 { "large" } else { "small" };
        let mut requirements = labels(&[
            ("node.kubernetes.io/instance-type", &[&name]),
            ("kubernetes.io/arch", &["amd64"]),
            ("kubernetes.io/os", &["linux", "windows", "darwin"]),
            ("size", &[size]),
            ("integer", &[&cpu.to_string()]),
        ]);
        if cpu > 4 {
            requirements.narrow("special", &Values::one_of(["optional"]));
        }
        InstanceType {
            requirements,
            allocatable: capacity.minus(&overhead),
            capacity,
            volume_limits: BTreeMap::new(),
            offerings: vec![
                offer("test-zone-1", CapacityType::Spot),
                offer("test-zone-2", CapacityType::Spot),
                offer("test-zone-1", CapacityType::OnDemand),
                offer("test-zone-2", CapacityType::OnDemand),
                offer("test-zone-3", CapacityType::OnDemand),
            ],
            name,
        }
    };
    (1..=number).map(kind).collect()
}

/// IBM's machines as they are built in: what they have less what the kubelet and the system keep.
fn ibm_types() -> Vec<InstanceType> {
    let kind = |profile: &builtin::Profile| {
        let cpu = i64::from(profile.vcpu) * 1000;
        let memory = i64::from(profile.memory_gib) * GI;
        let capacity = Resources::new()
            .with(CPU, cpu)
            .with(MEMORY, memory / 100 * 97)
            .with(PODS, 110);
        let overhead = Resources::new()
            .with(CPU, 100 + cpu / 100)
            .with(MEMORY, 300 * MI + memory / 50);
        let spot = profile.on_demand.times(0.25);
        let offerings = ["us-south-1", "us-south-2", "us-south-3"]
            .into_iter()
            .flat_map(|zone| {
                let offer = |capacity_type, price| Offering {
                    zone: zone.to_owned(),
                    capacity_type,
                    price,
                    availability: Availability::Available,
                };
                let spot = profile.spot.then(|| offer(CapacityType::Spot, spot));
                [offer(CapacityType::OnDemand, Some(profile.on_demand))]
                    .into_iter()
                    .chain(spot)
            });
        InstanceType {
            name: profile.name.to_owned(),
            requirements: labels(&[
                ("node.kubernetes.io/instance-type", &[profile.name]),
                ("kubernetes.io/arch", &["amd64"]),
                ("kubernetes.io/os", &["linux"]),
            ]),
            allocatable: capacity.minus(&overhead),
            capacity,
            volume_limits: BTreeMap::new(),
            offerings: offerings.collect(),
        }
    };
    builtin::profiles()
        .iter()
        .filter(|profile| profile.gpu.is_none())
        .map(kind)
        .collect()
}

/// The workload as JSON: pods as the API server shows them; types with what they have in all, what of it is kept from
/// pods, their labels and their offerings; and the limits of the one pool. Amounts are whole numbers, of processors in
/// thousandths; prices are dollars an hour.
pub(crate) fn to_json(workload: &Workload) -> Value {
    let amounts = |list: &Resources| -> BTreeMap<String, i64> {
        list.iter()
            .map(|(name, amount)| (name.clone(), *amount))
            .collect()
    };
    let kind = |kind: &InstanceType| {
        let labels: BTreeMap<&String, Vec<&String>> = kind
            .requirements
            .iter()
            .map(|(key, values)| (key, values.listed().into_iter().flatten().collect()))
            .collect();
        let offerings: Vec<Value> = kind
            .offerings
            .iter()
            .map(|offering| {
                json!({"zone": offering.zone, "capacityType": offering.capacity_type.as_str(),
                    "price": offering.price.map(Price::usd), "available": offering.is_available()})
            })
            .collect();
        json!({"name": kind.name, "labels": labels, "capacity": amounts(&kind.capacity),
            "overhead": amounts(&kind.capacity.minus(&kind.allocatable)), "offerings": offerings})
    };
    let types: Vec<Value> = workload.pool.types.iter().map(kind).collect();
    let limits = workload.pool.limits.as_ref().map(amounts);
    json!({"pods": workload.pods, "instanceTypes": types,
        "nodePool": {"name": workload.pool.name, "limits": limits}})
}
