//! Random sequences of requests over a few names, sent to both in lockstep.
//!
//! One seed, one sequence. A difference prints the seed and the requests about its object that led to it.
//! `CONFORMANCE_SEED` runs more of them: a seed, or `FIRST..LAST`.

use std::env;

use fastrand::Rng;
use serde_json::{Value, json};

use super::Lab;
use super::objects::{With, config, lease, node, pod, version_of};
use super::widgets::widget;

/// Sequences that are always run, each with requests of every sort.
const SEEDS: [u64; 6] = [1, 2, 3, 4, 5, 6];
/// Requests of a sequence: enough that every pair of actions meets on every kind.
const REQUESTS: usize = 150;

const PLURALS: [&str; 5] = ["configmaps", "pods", "podtemplates", "leases", "widgets"];
const NAMES: [&str; 3] = ["a", "b", "c"];

fn fresh(rng: &mut Rng, plural: &str, name: &str) -> Value {
    let object = match plural {
        "configmaps" => config(name).with("data", data(rng)),
        // One without a node that is being deleted is soon collected, too.
        "pods" => pod(name).with("spec/nodeName", json!("$ns-n")),
        "podtemplates" => json!({"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": name},
            "template": {"metadata": {"labels": labels(rng)}, "spec": {"containers": [{"name": "main", "image": "none"}]}}}),
        "leases" => lease(name).with("spec/holderIdentity", choose(rng, &[json!("a"), json!("b")])),
        _ => widget(name).with("spec", widget_spec(rng)),
    };
    let (field, value) = match rng.u8(..4) {
        0 => ("metadata/labels", labels(rng)),
        1 => ("metadata/finalizers", finalizers(rng)),
        _ => ("", Value::Null),
    };
    // Left out rather than null: what is applied as null to a custom object is shown as null by a real server.
    let object = if value.is_null() {
        object
    } else {
        object.with(field, value)
    };
    match (plural, rng.u8(..4)) {
        ("widgets", 0) => object.with("status", json!({"phase": "New", "replicas": 2})),
        ("pods", 0) => object.with("status", json!({"phase": "Running"})),
        _ => object,
    }
}

fn choose(rng: &mut Rng, values: &[Value]) -> Value {
    values[rng.usize(..values.len())].clone()
}

fn data(rng: &mut Rng) -> Value {
    choose(
        rng,
        &[
            json!({}),
            json!({"k": "1"}),
            json!({"k": "2", "l": "1"}),
            json!({"m": ""}),
            json!({"k": 1}),
            json!(null),
        ],
    )
}

fn labels(rng: &mut Rng) -> Value {
    choose(
        rng,
        &[
            json!({"app": "x"}),
            json!({"app": "y", "tier": "z"}),
            json!({"a b": "c"}),
            json!(null),
        ],
    )
}

/// Never an empty list, nor empty labels: a real server counts a new version of what it then shows as before.
fn finalizers(rng: &mut Rng) -> Value {
    choose(
        rng,
        &[
            json!(["example.com/a"]),
            json!(["example.com/a", "example.com/b"]),
            json!(null),
            json!(["bad"]),
        ],
    )
}

fn widget_spec(rng: &mut Rng) -> Value {
    choose(
        rng,
        &[
            json!({"size": 1}),
            json!({"size": 7, "color": "red"}),
            json!({"size": 70, "color": "red"}),
            json!({"size": 2, "parts": [{"name": "x"}, {"name": "y", "count": 4}]}),
            json!({"size": 2, "parts": [{"name": "y"}], "tags": ["p", "q"]}),
            json!({"size": 3, "origin": "here", "replicas": 2}),
            json!({"size": 3, "typo": true, "nested": {}}),
            json!({"color": "red"}),
        ],
    )
}

/// A merge patch of something that the kind has.
fn merge(rng: &mut Rng, plural: &str) -> Value {
    let of_kind = match plural {
        "configmaps" => json!({"data": data(rng)}),
        "pods" => json!({"spec": {"activeDeadlineSeconds": rng.u8(..3)}}),
        "podtemplates" => json!({"template": {"spec": {"nodeSelector": labels(rng)}}}),
        "leases" => json!({"spec": {"leaseDurationSeconds": rng.u8(..3)}}),
        _ => json!({"spec": widget_spec(rng)}),
    };
    match rng.u8(..6) {
        0 => json!({"metadata": {"labels": labels(rng)}}),
        1 => json!({"metadata": {"finalizers": finalizers(rng)}}),
        2 => json!({"metadata": {"annotations": {"note": choose(rng, &[json!("x"), json!(null)])}}}),
        _ => of_kind,
    }
}

fn operations(rng: &mut Rng) -> Value {
    choose(
        rng,
        &[
            json!([{"op": "add", "path": "/metadata/labels", "value": {"app": "j"}}]),
            json!([{"op": "remove", "path": "/metadata/labels/app"}]),
            json!([{"op": "test", "path": "/metadata/labels/app", "value": "x"}]),
            json!([{"op": "remove", "path": "/metadata/finalizers"}]),
            json!([{"op": "add", "path": "/metadata/finalizers/-", "value": "example.com/j"}]),
            json!([{"op": "replace", "path": "/data/k", "value": "j"}]),
            json!([{"op": "replace", "path": "/spec/size", "value": 5}]),
            json!([{"op": "test", "path": "/spec/size", "value": 5}, {"op": "replace", "path": "/spec/size", "value": 200}]),
        ],
    )
}

/// Sends one request of whatever sort.
async fn step(lab: &mut Lab, rng: &mut Rng) {
    let plural = PLURALS[rng.usize(..PLURALS.len())];
    let name = NAMES[rng.usize(..NAMES.len())];
    let path = format!("{plural}/{name}");
    let kept = format!("{plural}{name}");
    let stale = |rng: &mut Rng, object: Value| match rng.u8(..3) {
        0 => object.with("metadata/resourceVersion", version_of(&kept)),
        _ => object,
    };
    let query = choose(rng, &[json!(""), json!(""), json!(""), json!("?dryRun=All")]);
    let query = query.as_str().unwrap();
    let request = match rng.u8(..24) {
        0..=4 => {
            let object = fresh(rng, plural, name);
            lab.post(&format!("{plural}{query}"), &object).keep(&kept)
        }
        5..=7 => {
            let object = fresh(rng, plural, name);
            let object = stale(rng, object);
            lab.put(&format!("{path}{query}"), &object)
        }
        8 => {
            // Without labels: a real server ignores them here, but writes down who sent them.
            let object = fresh(rng, plural, name).with("metadata", json!({"name": name}));
            let object = stale(rng, object);
            lab.put(&format!("{path}/status{query}"), &object)
        }
        9..=11 => {
            let patch = merge(rng, plural);
            let patch = stale(rng, patch);
            lab.merge_patch(&format!("{path}{query}"), &patch)
        }
        12 => {
            let patch = merge(rng, plural);
            lab.strategic_patch(&format!("{path}{query}"), &patch)
        }
        13 | 14 => lab.json_patch(&format!("{path}{query}"), &operations(rng)),
        15..=17 => {
            let manager = ["one", "two"][rng.usize(..2)];
            let force = ["", "?force=true"][rng.usize(..2)];
            let object = fresh(rng, plural, name);
            lab.apply(manager, &format!("{path}{force}"), &object)
        }
        18 | 19 => lab.get(&path).keep(&kept),
        20 => lab.get(&format!("{plural}?labelSelector=app")),
        21 => lab.delete_with(&path, &json!({"gracePeriodSeconds": rng.u8(..2), "preconditions": {"uid": format!("${kept}.metadata.uid")}})),
        22 => lab.delete_with(&path, &json!({"propagationPolicy": "Background"})),
        _ => lab.delete(&format!("{path}{query}")),
    };
    request.compare().await;
}

async fn sequence(seed: u64) {
    let mut lab = Lab::with_widgets("random").await;
    // A pod on a node that does not exist is soon collected.
    lab.post("nodes", &node("n")).is("201").await;
    let mut rng = Rng::with_seed(seed);
    while lab.requests() < REQUESTS {
        step(&mut lab, &mut rng).await;
        if !lab.is_content() {
            lab.tell_how(&format!("seed {seed}"));
            return;
        }
    }
}

fn chosen() -> Vec<u64> {
    let text = env::var("CONFORMANCE_SEED").unwrap_or_default();
    let (first, last) = text.split_once("..").unwrap_or((&text, &text));
    let number = |text: &str| text.parse::<u64>();
    match (number(first), number(last)) {
        (Ok(first), Ok(last)) => (first..=last).collect(),
        _ if text.is_empty() => Vec::new(),
        _ => panic!("CONFORMANCE_SEED is {text}, which is neither a seed nor FIRST..LAST"),
    }
}

#[tokio::test]
async fn any_sequence_of_requests_is_answered_alike() {
    for seed in SEEDS.into_iter().chain(chosen()) {
        sequence(seed).await;
    }
}
