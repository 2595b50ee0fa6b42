//! What an object counts for in a quota: by kind, as the evaluators of a real server have it.

use serde_json::Value;

use crate::quantity::Quantity;
use crate::sim::kube::builtin::amounts::{Amounts, of_pod};
use crate::sim::kube::builtin::fields::{each, text};
use crate::sim::kube::builtin::{label_selector, qos};
use crate::sim::kube::kind::{Kind, Scope};
use crate::sim::kube::object;

const CLASS_INFIX: &str = ".storageclass.storage.k8s.io/";

/// Kinds that are counted under a name of their own, too.
const ALIASED: [&str; 4] = [
    "configmaps",
    "resourcequotas",
    "replicationcontrollers",
    "secrets",
];

/// The name under which the objects of a kind are counted: `count/deployments.apps`.
pub(super) fn count_name(kind: &Kind) -> String {
    match kind.group.as_str() {
        "" => format!("count/{}", kind.plural),
        group => format!("count/{}.{group}", kind.plural),
    }
}

fn core(kind: &Kind) -> &str {
    if kind.group.is_empty() { &kind.plural } else { "" }
}

/// Whether objects of a kind count for a resource.
pub(super) fn concerns(kind: &Kind, resource: &str) -> bool {
    const POD: [&str; 10] = [
        "pods",
        "cpu",
        "memory",
        "ephemeral-storage",
        "requests.cpu",
        "requests.memory",
        "requests.ephemeral-storage",
        "limits.cpu",
        "limits.memory",
        "limits.ephemeral-storage",
    ];
    if kind.scope == Scope::Cluster {
        return false;
    }
    let counted = resource == count_name(kind);
    counted
        || match core(kind) {
            "pods" => {
                let asked = resource.strip_prefix("requests.").unwrap_or(resource);
                let extended = resource.starts_with("requests.") && is_extended(asked);
                POD.contains(&resource) || asked.starts_with("hugepages-") || extended
            }
            "services" => matches!(
                resource,
                "services" | "services.nodeports" | "services.loadbalancers"
            ),
            "persistentvolumeclaims" => {
                let general = resource
                    .split_once(CLASS_INFIX)
                    .map_or(resource, |(_, general)| general);
                matches!(general, "persistentvolumeclaims" | "requests.storage")
            }
            plural => ALIASED.contains(&plural) && resource == plural,
        }
}

/// Whether a resource is somebody else's than Kubernetes'.
fn is_extended(resource: &str) -> bool {
    resource.contains('/') && !resource.contains("kubernetes.io/")
}

/// What an object counts for.
pub(super) fn of(kind: &Kind, object: &Value) -> Amounts {
    let mut usage = Amounts::default();
    let mut count = |name: &str, amount: i64| {
        usage.0.insert(name.to_owned(), Quantity::from_units(amount));
    };
    count(&count_name(kind), 1);
    match core(kind) {
        "pods" if is_over(object) => {}
        "pods" => usage.add(&of_pod_spec(&object["spec"])),
        "services" => {
            let ports = i64::try_from(each(&object["spec"], "ports").count()).unwrap_or(i64::MAX);
            let (balanced, node_ports) = match text(&object["spec"], "type") {
                "NodePort" => (0, ports),
                "LoadBalancer" if object["spec"]["allocateLoadBalancerNodePorts"] == false => {
                    let open = each(&object["spec"], "ports").filter(|port| port["nodePort"].is_u64());
                    (1, i64::try_from(open.count()).unwrap_or(i64::MAX))
                }
                "LoadBalancer" => (1, ports),
                _ => (0, 0),
            };
            count("services", 1);
            count("services.loadbalancers", balanced);
            count("services.nodeports", node_ports);
        }
        "persistentvolumeclaims" => usage.add(&of_claim(object)),
        plural if ALIASED.contains(&plural) => count(plural, 1),
        _ => {}
    }
    usage
}

/// A pod that is done takes nothing.
fn is_over(pod: &Value) -> bool {
    matches!(text(&pod["status"], "phase"), "Succeeded" | "Failed")
}

fn of_pod_spec(spec: &Value) -> Amounts {
    let (mut requests, limits) = (of_pod(spec, "requests"), of_pod(spec, "limits"));
    requests.add(&Amounts::of(&spec["overhead"]));
    let mut usage = of_container(&requests, &limits);
    usage.0.insert("pods".to_owned(), Quantity::from_units(1));
    usage
}

/// Requests and limits under the names that quotas have for them.
pub(super) fn of_container(requests: &Amounts, limits: &Amounts) -> Amounts {
    const COMMON: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];
    let mut usage = Amounts::default();
    for (name, amount) in &requests.0 {
        let common = COMMON.contains(&name.as_str()) || name.starts_with("hugepages-");
        if common {
            usage.0.insert(name.clone(), *amount);
        }
        if common || is_extended(name) {
            usage.0.insert(format!("requests.{name}"), *amount);
        }
    }
    for (name, amount) in &limits.0 {
        if COMMON.contains(&name.as_str()) {
            usage.0.insert(format!("limits.{name}"), *amount);
        }
    }
    usage
}

fn of_claim(claim: &Value) -> Amounts {
    let mut usage = Amounts::default();
    let requested = Amounts::of(&claim["spec"]["resources"]["requests"]);
    let allocated = Amounts::of(&claim["status"]["allocatedResources"]);
    let class = text(&claim["spec"], "storageClassName");
    let mut count = |name: &str, amount: Quantity| {
        usage.0.insert(name.to_owned(), amount);
        if !class.is_empty() {
            usage.0.insert(format!("{class}{CLASS_INFIX}{name}"), amount);
        }
    };
    count("persistentvolumeclaims", Quantity::from_units(1));
    if let Some(storage) = requested.0.get("storage") {
        let most = allocated
            .0
            .get("storage")
            .map_or(*storage, |known| *known.max(storage));
        let whole = i128::from(most.units_ceil()) * 1_000_000_000;
        count("requests.storage", Quantity::from_nanos(whole, most.notation()));
    }
    usage
}

/// Whether an object is of all the scopes of a quota. Only pods have scopes.
pub(super) fn is_in_scope(kind: &Kind, quota: &Value, object: &Value) -> bool {
    let spec = &quota["spec"];
    let named = each(spec, "scopes").map(|scope| (scope.as_str().unwrap_or_default(), None));
    let selected = each(&spec["scopeSelector"], "matchExpressions")
        .map(|expression| (text(expression, "scopeName"), Some(expression)));
    named
        .chain(selected)
        .all(|(scope, expression)| core(kind) == "pods" && pod_is_in(scope, expression, object))
}

fn pod_is_in(scope: &str, expression: Option<&Value>, pod: &Value) -> bool {
    let spec = &pod["spec"];
    let ends = spec["activeDeadlineSeconds"]
        .as_i64()
        .is_some_and(|seconds| seconds >= 0);
    match scope {
        "Terminating" => ends,
        "NotTerminating" => !ends,
        "BestEffort" => qos::class(spec) == "BestEffort",
        "NotBestEffort" => qos::class(spec) != "BestEffort",
        "PriorityClass" => has_class(text(spec, "priorityClassName"), expression),
        "CrossNamespacePodAffinity" => looks_elsewhere(&spec["affinity"]),
        _ => false,
    }
}

fn has_class(class: &str, expression: Option<&Value>) -> bool {
    let Some(expression) = expression.filter(|expression| expression["operator"] != "Exists") else {
        return !class.is_empty();
    };
    let labels = Some(("PriorityClass".to_owned(), class.to_owned())).filter(|_| !class.is_empty());
    let selector = serde_json::json!({"matchExpressions": [{
        "key": "PriorityClass", "operator": expression["operator"], "values": expression["values"]}]});
    label_selector::selects(&selector, &labels.into_iter().collect())
}

/// Whether a pod wants to be near to, or far from, pods of other namespaces.
fn looks_elsewhere(affinity: &Value) -> bool {
    let is_elsewhere = |term: &Value| {
        each(term, "namespaces").next().is_some() || !object::at(term, "namespaceSelector").is_null()
    };
    ["podAffinity", "podAntiAffinity"].iter().any(|side| {
        let required = each(&affinity[side], "requiredDuringSchedulingIgnoredDuringExecution");
        let preferred = each(&affinity[side], "preferredDuringSchedulingIgnoredDuringExecution");
        required
            .chain(preferred.map(|weighted| &weighted["podAffinityTerm"]))
            .any(is_elsewhere)
    })
}
