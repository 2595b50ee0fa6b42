//! The bounds that take too much text for a file, each from both sides.

use karpenter_ibm::sim::kube::schema::Schema;
use serde_json::{Value, json};

use super::{KINDS, Kind, admit, agree};

/// A value that is still accepted, and one that is no longer, at a place in an otherwise valid manifest.
pub(super) struct Bound {
    pub(super) kind: Kind,
    pub(super) pointer: &'static str,
    inside: Value,
    outside: Value,
}

impl Bound {
    pub(super) fn outside(&self) -> Value {
        put(minimal(self.kind), self.pointer, self.outside.clone())
    }
}

/// A manifest with little more than what is required.
fn minimal(kind: Kind) -> Value {
    let class = json!({"group": "karpenter-ibm.sh", "kind": "IBMNodeClass", "name": "default"});
    let condition = json!({
        "type": "Ready", "status": "True", "reason": "Ready", "message": "", "lastTransitionTime": "2026-11-16T00:00:00Z",
    });
    let status = json!({"conditions": [condition]});
    match kind {
        Kind::NodePool => json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "default"}, "status": status,
            "spec": {
                "template": {
                    "metadata": {"labels": {}},
                    "spec": {"requirements": [{"key": "a", "operator": "Exists"}], "nodeClassRef": class},
                },
                "disruption": {"consolidateAfter": "0s", "budgets": [{"nodes": "1"}]},
            },
        }),
        Kind::NodeClaim => json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": {"name": "default"},
            "spec": {"requirements": [{"key": "a", "operator": "Exists"}], "nodeClassRef": class},
            "status": {
                "conditions": [condition],
                "allocation": {
                    "profile": "bxf-4x16", "zone": "us-south-1", "capacityType": "spot", "attempt": 1,
                    "subnet": "0717-0ef923f3-26e4-4b10-9e5d-574c634aef14", "instanceName": "a",
                    "since": "2026-11-16T00:00:00Z", "credentials": [{"attempt": 1, "jti": "a"}],
                },
            },
        }),
        Kind::NodeClass => json!({
            "apiVersion": "karpenter-ibm.sh/v1alpha1", "kind": "IBMNodeClass", "metadata": {"name": "default"},
            "status": status,
            "spec": {
                "region": "us-south", "vpc": "r006-cd031a72-f3d8-46cf-af44-0d76e89cd51e", "image": "a",
                "placementStrategy": {"subnetSelection": {}}, "bootstrap": {}, "kubelet": {},
                "blockDeviceMappings": [{"rootVolume": true, "volumeSpec": {}}],
            },
        }),
        Kind::UnavailableOffering => json!({
            "apiVersion": "karpenter-ibm.sh/v1alpha1", "kind": "UnavailableOffering", "metadata": {"name": "spot.all"},
            "spec": {"key": "spot:*:*", "reason": "Quota", "until": "2026-11-16T01:00:00Z"},
        }),
    }
}

/// Sets a value, making the field if it is absent.
fn put(mut manifest: Value, pointer: &str, value: Value) -> Value {
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    manifest
        .pointer_mut(parent)
        .unwrap_or_else(|| panic!("no {parent}"))[name] = value;
    manifest
}

fn text(length: usize) -> Value {
    json!("a".repeat(length))
}

fn map(count: usize) -> Value {
    (0..count)
        .map(|index| (format!("k{index}"), json!("v")))
        .collect()
}

fn list(count: usize, element: &Value) -> Value {
    vec![element.clone(); count].into()
}

pub(super) fn bounds(kind: Kind) -> Vec<Bound> {
    let mut bounds = match kind {
        Kind::NodePool => pool_bounds(),
        Kind::NodeClaim => claim_bounds(),
        Kind::NodeClass => class_bounds(),
        Kind::UnavailableOffering => return of(kind, offering_bounds()),
    };
    bounds.extend([
        ("/status/conditions/0/type", text(316), text(317)),
        ("/status/conditions/0/reason", text(1024), text(1025)),
        (
            "/status/conditions/0/message",
            json!("é".repeat(32_768)),
            json!("é".repeat(32_769)),
        ),
    ]);
    of(kind, bounds)
}

/// A place, a value that is still accepted there, and one that is no longer.
type Sides = (&'static str, Value, Value);

fn of(kind: Kind, sides: Vec<Sides>) -> Vec<Bound> {
    sides
        .into_iter()
        .map(|(pointer, inside, outside)| Bound {
            kind,
            pointer,
            inside,
            outside,
        })
        .collect()
}

fn pool_bounds() -> Vec<Sides> {
    let requirements = |count| list(count, &json!({"key": "a", "operator": "Exists"}));
    let budgets = |count| list(count, &json!({"nodes": "1"}));
    vec![
        ("/spec/template/metadata/labels", map(100), map(101)),
        ("/spec/template/metadata/labels/team", text(63), text(64)),
        (
            "/spec/template/spec/requirements",
            requirements(100),
            requirements(101),
        ),
        ("/spec/template/spec/requirements/0/key", text(316), text(317)),
        ("/spec/disruption/budgets", budgets(50), budgets(51)),
        (
            "/spec/disruption/budgets/0/reasons",
            json!(["Empty"]),
            list(51, &json!("Empty")),
        ),
    ]
}

fn claim_bounds() -> Vec<Sides> {
    let requirements = |count| list(count, &json!({"key": "a", "operator": "Exists"}));
    vec![
        ("/spec/requirements", requirements(100), requirements(101)),
        ("/spec/requirements/0/key", text(316), text(317)),
        ("/status/allocation/instanceName", text(63), text(64)),
        ("/status/allocation/credentials/0/jti", text(128), text(129)),
    ]
}

fn class_bounds() -> Vec<Sides> {
    let region = |length: usize| json!(format!("us-{}", "a".repeat(length - 3)));
    let zone = |length: usize| json!(format!("us-south-{}", "1".repeat(length - 9)));
    let ids = |length: usize| json!([regional_id(length)]);
    let server = |length: usize| json!(format!("https://{}", "a".repeat(length - 8)));
    let certificate = |length: usize| {
        let (open, close) = ("-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----");
        json!(format!("{open}{}{close}", "A".repeat(length - 52)))
    };
    let repository = |length| json!({"address": server(length), "key": server(20)});
    let armored = |length: usize| {
        format!(
            "-----BEGIN PGP PUBLIC KEY BLOCK-----\n{}",
            "A".repeat(length - 37)
        )
    };
    let signed = |length| json!({"address": server(20), "key": armored(length)});
    let dns = |length: usize| json!([format!("::{}", "a".repeat(length - 2))]);
    vec![
        ("/spec/userData", text(65_536), text(65_537)),
        // 32,768 characters of two bytes each.
        (
            "/spec/userData",
            json!("é".repeat(32_768)),
            json!("é".repeat(32_769)),
        ),
        ("/spec/userDataAppend", text(65_536), text(65_537)),
        (
            "/spec/userDataAppend",
            json!("é".repeat(32_768)),
            json!("é".repeat(32_769)),
        ),
        ("/spec/bootstrap/clusterEndpoint", server(512), server(513)),
        (
            "/spec/bootstrap/clusterCA",
            certificate(16_384),
            certificate(16_385),
        ),
        ("/spec/bootstrap/repository", repository(512), repository(513)),
        ("/spec/bootstrap/repository", signed(16_384), signed(16_385)),
        ("/spec/kubelet/clusterDNS", dns(45), dns(46)),
        ("/spec/tags", map(100), map(101)),
        (
            "/spec/placementStrategy/subnetSelection/requiredTags",
            map(100),
            map(101),
        ),
        ("/spec/region", region(63), region(64)),
        ("/spec/zone", zone(63), zone(64)),
        ("/spec/image", text(63), text(64)),
        ("/spec/blockDeviceMappings/0/deviceName", text(63), text(64)),
        (
            "/spec/blockDeviceMappings/0/volumeSpec/profile",
            text(63),
            text(64),
        ),
        ("/spec/securityGroups", ids(64), ids(65)),
        ("/spec/sshKeys", ids(64), ids(65)),
    ]
}

fn offering_bounds() -> Vec<Sides> {
    let key = |length: usize| json!(format!("spot:{}:us-south-1", "a".repeat(length - 16)));
    vec![
        ("/spec/reason", text(128), text(129)),
        // No object has a name this long, so the name cannot fit; only the length is new on the other side.
        ("/spec/key", json!("spot:*:*"), key(257)),
    ]
}

/// `r`, digits, and a UUID, in so many characters.
fn regional_id(length: usize) -> String {
    format!(
        "r{}-cd031a72-f3d8-46cf-af44-0d76e89cd51e",
        "0".repeat(length - 38)
    )
}

#[test]
fn both_sides_of_every_bound_are_judged_alike() {
    for kind in KINDS {
        let schema = Schema::compile(&kind.schema()).unwrap();
        for bound in bounds(kind) {
            let inside = put(minimal(kind), bound.pointer, bound.inside.clone());
            assert_eq!(admit(&schema, &inside, None), [], "{kind:?} {}", bound.pointer);
            assert_ne!(
                admit(&schema, &bound.outside(), None),
                [],
                "{kind:?} {}",
                bound.pointer
            );
            for manifest in [inside, bound.outside()] {
                agree(kind, &schema, &manifest, None)
                    .unwrap_or_else(|error| panic!("{}: {error}", bound.pointer));
            }
        }
    }
}
