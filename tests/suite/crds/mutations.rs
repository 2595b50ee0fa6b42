//! Random mutations of valid manifests: the CRD and `validate` agree on every one.

use std::sync::LazyLock;

use karpenter_ibm::sim::kube::schema::Schema;
use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::{Value, json};

use super::corpus::cases;
use super::{KINDS, Kind, agree};

/// A kind with its compiled schema and its valid manifests.
struct Seed {
    kind: Kind,
    schema: Schema,
    manifests: Vec<Value>,
}

fn seeds() -> Vec<Seed> {
    KINDS
        .into_iter()
        .map(|kind| Seed {
            kind,
            schema: Schema::compile(&kind.schema()).unwrap(),
            manifests: cases(kind)
                .into_iter()
                .filter(|case| case.blames.is_none())
                .map(|case| case.object)
                .collect(),
        })
        .collect()
}

thread_local! {
    static SEEDS: Vec<Seed> = seeds();
}

/// Texts that some grammar takes and others do not, or that sit at the edge of one.
static TEXTS: LazyLock<Vec<String>> = LazyLock::new(|| {
    let mut texts: Vec<String> = [
        "",
        " ",
        "a",
        "A",
        "-",
        "a-",
        "a b",
        "a/b",
        "a:b",
        "ä",
        "é\u{301}",
        "0",
        "1",
        "-1",
        "+1",
        "1.5",
        "1e3",
        "1e1.5",
        "10%",
        "100%",
        "101%",
        "12h",
        "720h",
        "1h30m",
        "1d",
        "0s",
        "Never",
        "never",
        "True",
        "true",
        "Unknown",
        "In",
        "NotIn",
        "Exists",
        "DoesNotExist",
        "Gt",
        "Lt",
        "Gte",
        "Lte",
        "NoSchedule",
        "NoExecute",
        "Empty",
        "Drifted",
        "WhenEmpty",
        "WhenUnderutilized",
        "Balanced",
        "@daily",
        "* * * * *",
        "*\u{2003}*\u{2003}*\u{2003}*\u{2003}*",
        "a\nb",
        "a\n",
        "karpenter.sh/nodepool",
        "karpenter.sh/capacity-type",
        "karpenter.sh/x",
        "kubernetes.io/hostname",
        "mykarpenter.sh",
        "spot",
        "on-demand",
        "spot:*:*",
        "on-demand:gpu:*",
        "spot.all",
        "us-south",
        "us-south-1",
        "eu-de-1",
        "amd64",
        "sdp",
        "general-purpose",
        "ubuntu",
        "24",
        "2026-11-16T00:00:00Z",
        "2026-11-16",
        "2026-11-16T00:00:00+01:00",
        "1Gi",
        "1 Gi",
        "r006-cd031a72-f3d8-46cf-af44-0d76e89cd51e",
        "0717-cd031a72-f3d8-46cf-af44-0d76e89cd51e",
        "0717_cd031a72-f3d8-46cf-af44-0d76e89cd51e",
        "crn:v1:a:b:c:d:e:f:g:h",
        "bxf-4x16",
        "0.5",
        "0.10",
        "example.com/A",
    ]
    .map(str::to_owned)
    .to_vec();
    texts.extend([62, 63, 64, 65, 128, 129, 316, 317].map(|length| "a".repeat(length)));
    texts
});

const NUMBERS: [i64; 22] = [
    -1,
    0,
    1,
    2,
    9,
    10,
    11,
    50,
    51,
    99,
    100,
    101,
    250,
    251,
    16_000,
    16_001,
    64_000,
    64_001,
    2_147_483_647,
    2_147_483_648,
    i64::MAX,
    i64::MIN,
];

#[derive(Clone, Debug)]
enum Mutation {
    Remove,
    Null,
    Text(Index),
    Number(Index),
    Float(f64),
    Bool(bool),
    EmptyList,
    EmptyMap,
    /// Repeats the first element of a list.
    Repeat(usize),
    /// Adds a field with a text.
    Add(Index, Index),
    /// Takes over what another valid manifest has at a place of the same name.
    Graft(Index, Index),
}

fn mutation() -> impl Strategy<Value = Mutation> {
    prop_oneof![
        2 => Just(Mutation::Remove),
        1 => Just(Mutation::Null),
        8 => any::<Index>().prop_map(Mutation::Text),
        4 => any::<Index>().prop_map(Mutation::Number),
        1 => prop_oneof![Just(0.5), Just(2.0), Just(-1.0), Just(1e19), Just(1e15)].prop_map(Mutation::Float),
        1 => any::<bool>().prop_map(Mutation::Bool),
        1 => Just(Mutation::EmptyList),
        1 => Just(Mutation::EmptyMap),
        2 => prop_oneof![Just(2usize), Just(10), Just(11), Just(50), Just(51), Just(100), Just(101)].prop_map(Mutation::Repeat),
        3 => (any::<Index>(), any::<Index>()).prop_map(|(key, value)| Mutation::Add(key, value)),
        4 => (any::<Index>(), any::<Index>()).prop_map(|(manifest, place)| Mutation::Graft(manifest, place)),
    ]
}

/// The pointers of everything below `spec` and `status`.
fn places(value: &Value, pointer: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for (name, below) in fields {
                let pointer = format!("{pointer}/{}", name.replace('~', "~0").replace('/', "~1"));
                if pointer.starts_with("/spec")
                    || pointer.starts_with("/status")
                    || pointer == "/metadata/name"
                {
                    found.push(pointer.clone());
                }
                places(below, &pointer, found);
            }
        }
        Value::Array(elements) => {
            for (index, below) in elements.iter().enumerate() {
                found.push(format!("{pointer}/{index}"));
                places(below, &format!("{pointer}/{index}"), found);
            }
        }
        _ => {}
    }
}

fn mutate(manifest: &mut Value, at: Index, mutation: &Mutation, seed: &Seed) {
    let mut found = Vec::new();
    places(manifest, "", &mut found);
    if found.is_empty() {
        return;
    }
    let pointer = at.get(&found).clone();
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    if matches!(mutation, Mutation::Remove) {
        match manifest.pointer_mut(parent).unwrap() {
            Value::Object(fields) => drop(fields.remove(&name.replace("~1", "/").replace("~0", "~"))),
            Value::Array(elements) => drop(elements.remove(name.parse().unwrap())),
            _ => unreachable!("a place is in an object or an array"),
        }
        return;
    }
    // A name is a text whatever else happens: a real API server settles that before any schema.
    if pointer == "/metadata/name" && !matches!(mutation, Mutation::Text(_)) {
        return;
    }
    let value = manifest.pointer_mut(&pointer).unwrap();
    match mutation {
        Mutation::Remove => unreachable!("done above"),
        Mutation::Null => *value = Value::Null,
        Mutation::Text(index) => *value = json!(index.get(&TEXTS)),
        Mutation::Number(index) => *value = json!(index.get(&NUMBERS)),
        Mutation::Float(float) => *value = json!(float),
        Mutation::Bool(bool) => *value = json!(bool),
        // serde reads a struct from a list as well; no API server hands one out, so only lists become lists.
        Mutation::EmptyList if value.is_array() => *value = json!([]),
        Mutation::EmptyMap => *value = json!({}),
        Mutation::Repeat(count) => {
            if let Some(elements) = value.as_array_mut()
                && let Some(first) = elements.first().cloned()
            {
                elements.resize(*count, first);
            }
        }
        Mutation::Add(key, text) => {
            if let Some(fields) = value.as_object_mut() {
                fields.insert(key.get(&TEXTS).clone(), json!(text.get(&TEXTS)));
            }
        }
        Mutation::Graft(manifest, place) => {
            let other = manifest.get(&seed.manifests);
            let mut found = Vec::new();
            places(other, "", &mut found);
            found.retain(|pointer| pointer.rsplit('/').next() == Some(name));
            if !found.is_empty() {
                *value = other.pointer(place.get::<String>(&found)).unwrap().clone();
            }
        }
        Mutation::EmptyList => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn crd_and_validate_agree_on_mutated_manifests(
        kind in 0..KINDS.len(),
        manifest in any::<Index>(),
        mutations in prop::collection::vec((any::<Index>(), mutation()), 1..4),
    ) {
        SEEDS.with(|seeds| {
            let seed = &seeds[kind];
            let mut manifest = manifest.get(&seed.manifests).clone();
            for (at, mutation) in &mutations {
                mutate(&mut manifest, *at, mutation, seed);
            }
            agree(seed.kind, &seed.schema, &manifest, None).map_err(TestCaseError::fail)
        })?;
    }

    #[test]
    fn crd_and_validate_agree_on_mutated_updates(
        kind in 0..KINDS.len(),
        manifest in any::<Index>(),
        mutations in prop::collection::vec((any::<Index>(), mutation()), 1..3),
    ) {
        SEEDS.with(|seeds| {
            let seed = &seeds[kind];
            let old = manifest.get(&seed.manifests);
            let mut new = old.clone();
            for (at, mutation) in &mutations {
                mutate(&mut new, *at, mutation, seed);
            }
            agree(seed.kind, &seed.schema, &new, Some(old)).map_err(TestCaseError::fail)
        })?;
    }
}
