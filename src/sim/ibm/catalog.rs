//! Global Catalog: the tree of services, plans, deployments and profiles. No authentication.
//!
//! ```text
//! is.instance ─┬─ plan per profile (flex, third generation and later, GPU) ── deployment per region
//!              └─ plan gen2-instance (all second-generation profiles) ── composite deployment per profile and region
//! instance.profile entries name their plan in metadata.other.profile.measures
//! ```
//!
//! The tree is the same in all simulators; only what was withdrawn from one of them differs.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use serde_json::{Value, json};

use super::ask::{Answer, Ask};
use super::errors::Refusal;
use super::geography;
use super::ids;
use super::state::State;
use crate::ibm::builtin::{self, Profile, Region};

/// The plan of all second-generation profiles.
pub(super) const GEN2_PLAN: &str = "a736a57f-0584-474f-8411-55dc7d9dc811";
/// The service all plans belong to.
const SERVICE: &str = "is.instance";

/// One entry of the catalogue.
pub(super) enum Entry {
    Service,
    /// The plan of a profile, or of the whole second generation.
    Plan(Option<&'static Profile>),
    Deployment(Deployment),
    Profile(&'static Profile),
}

/// A plan in a region.
#[derive(Clone, Copy)]
pub(super) struct Deployment {
    pub(super) region: &'static Region,
    pub(super) of: Priced,
}

/// What a deployment's price is about.
#[derive(Clone, Copy)]
pub(super) enum Priced {
    /// A profile with a plan of its own.
    Profile(&'static Profile),
    /// A profile of the second generation, priced by its parts.
    Composite(&'static Profile),
    /// The second-generation plan itself, whose quantities mean nothing.
    Generic,
}

/// All entries by id.
pub(super) fn tree() -> &'static BTreeMap<String, Entry> {
    static TREE: OnceLock<BTreeMap<String, Entry>> = OnceLock::new();
    TREE.get_or_init(|| {
        let mut tree = BTreeMap::from([
            (SERVICE.to_owned(), Entry::Service),
            (GEN2_PLAN.into(), Entry::Plan(None)),
        ]);
        for profile in builtin::profiles() {
            tree.insert(profile.name.into(), Entry::Profile(profile));
            if !is_gen2(profile) {
                tree.insert(plan_of(profile), Entry::Plan(Some(profile)));
            }
        }
        for region in &builtin::REGIONS {
            let generic = Deployment {
                region,
                of: Priced::Generic,
            };
            tree.insert(
                deployment_id(GEN2_PLAN, region.name, "generic"),
                Entry::Deployment(generic),
            );
            for profile in builtin::profiles() {
                plant(&mut tree, profile, region);
            }
        }
        tree
    })
}

/// Adds the deployments of a profile in a region, if it has hardware there.
fn plant(tree: &mut BTreeMap<String, Entry>, profile: &'static Profile, region: &'static Region) {
    if geography::zones_with(profile, region.name).is_empty() {
        return;
    }
    if !is_gen2(profile) {
        let id = deployment_id(&plan_of(profile), region.name, profile.name);
        tree.insert(
            id,
            Entry::Deployment(Deployment {
                region,
                of: Priced::Profile(profile),
            }),
        );
        return;
    }
    // The real catalogue has some composites twice, with equal prices.
    let copies = if profile.name == "bx2-2x8" { 2 } else { 1 };
    for copy in 0..copies {
        let hash = short_hash(&format!("{}/{}/{copy}", profile.name, region.name));
        let deployment = Deployment {
            region,
            of: Priced::Composite(profile),
        };
        tree.insert(format!("{GEN2_PLAN}:{hash}"), Entry::Deployment(deployment));
    }
}

/// Whether the profile is priced by its parts.
pub(super) fn is_gen2(profile: &Profile) -> bool {
    profile.series.contains('2')
}

/// The id of a profile's plan.
pub(super) fn plan_of(profile: &Profile) -> String {
    if is_gen2(profile) {
        GEN2_PLAN.into()
    } else {
        ids::stable_uuid(profile.name)
    }
}

fn deployment_id(plan: &str, region: &str, name: &str) -> String {
    format!("{plan}:{region}{}", short_hash(&format!("{name}/{region}")))
}

fn short_hash(text: &str) -> String {
    format!("{:016x}", ids::fingerprint(text))[8..].to_owned()
}

/// `GET /api/v1/`: entries by kind or by words.
#[expect(clippy::unnecessary_wraps, reason = "the type of a handler")]
pub(super) fn list(state: &mut State, ask: &Ask) -> Result<Answer, Refusal> {
    let everything = ask.query("q").is_some();
    let entries = tree()
        .iter()
        .filter(|(_, entry)| everything || matches!(entry, Entry::Service));
    Ok(answer(state, ask, entries))
}

/// `GET /api/v1/{id}`
pub(super) fn get(state: &mut State, ask: &Ask) -> Result<Answer, Refusal> {
    let (id, entry) = find(state, ask.param("id"))?;
    Ok(Answer::ok(body(
        id,
        entry,
        ask.query("include").unwrap_or_default(),
    )))
}

/// `GET /api/v1/{id}/{kind}`: the children of an entry. A plan is found by its id, not by its name.
pub(super) fn children(state: &mut State, ask: &Ask) -> Result<Answer, Refusal> {
    let (parent, kind) = (ask.param("id"), ask.param("kind"));
    let (_, entry) = find(state, parent)?;
    if matches!(entry, Entry::Profile(_)) {
        return Err(Refusal::not_found("catalog entry", parent));
    }
    let of_plan = |id: &str| id.split_once(':').is_some_and(|(plan, _)| plan == parent);
    let own = tree().iter().filter(|(id, child)| match (entry, child) {
        (Entry::Service, Entry::Plan(_)) => kind == "plan" || kind == "*",
        (Entry::Plan(_), Entry::Deployment(_)) => (kind == "deployment" || kind == "*") && of_plan(id),
        _ => false,
    });
    Ok(answer(state, ask, own))
}

/// The entry of that id, unless it was withdrawn.
pub(super) fn find(state: &State, id: &str) -> Result<(&'static str, &'static Entry), Refusal> {
    tree()
        .get_key_value(id)
        .filter(|(_, entry)| visible(state, entry))
        .map(|(id, entry)| (id.as_str(), entry))
        .ok_or_else(|| Refusal::not_found("catalog entry", id))
}

fn visible(state: &State, entry: &Entry) -> bool {
    profile_of(entry).is_none_or(|profile| !state.removed_profiles.contains(profile.name))
}

fn profile_of(entry: &Entry) -> Option<&'static Profile> {
    match entry {
        Entry::Plan(profile) => *profile,
        Entry::Profile(profile)
        | Entry::Deployment(Deployment {
            of: Priced::Profile(profile) | Priced::Composite(profile),
            ..
        }) => Some(profile),
        _ => None,
    }
}

fn answer<'a>(state: &State, ask: &Ask, entries: impl Iterator<Item = (&'a String, &'a Entry)>) -> Answer {
    const LIMIT_DEFAULT: usize = 50;
    const LIMIT_MAX: usize = 200;
    let number = |name: &str, default: usize| ask.query(name).and_then(|n| n.parse().ok()).unwrap_or(default);
    let (offset, limit) = (
        number("_offset", 0),
        number("_limit", LIMIT_DEFAULT).clamp(1, LIMIT_MAX),
    );
    let include = ask.query("include").unwrap_or_default();
    let words = ask.query("q").unwrap_or_default();
    let all: Vec<_> = entries
        .filter(|(id, entry)| visible(state, entry) && matches(words, id, entry))
        .collect();
    let resources: Vec<Value> = all
        .iter()
        .skip(offset)
        .take(limit)
        .map(|(id, entry)| body(id, entry, include))
        .collect();
    let href = |offset: usize| {
        format!("https://globalcatalog.cloud.ibm.com/api/v1/?_offset={offset}&_limit={limit}")
    };
    let mut page = json!({
        "offset": offset, "limit": limit, "count": all.len(), "resource_count": resources.len(),
        "first": href(0), "last": href(all.len().saturating_sub(1) / limit * limit), "resources": resources,
    });
    if offset + limit < all.len() {
        page["next"] = json!(href(offset + limit));
    }
    Answer::ok(page)
}

/// Words are joined by "and"; `kind:` means the kind, other words occur in the id, name or tags.
fn matches(words: &str, id: &str, entry: &Entry) -> bool {
    words.split_whitespace().all(|word| match word.split_once(':') {
        Some(("kind", wanted)) => kind(entry) == wanted,
        Some(("name", wanted)) => name(entry) == wanted,
        Some(("id", wanted)) => id == wanted,
        _ => id.contains(word) || name(entry).contains(word) || location(entry) == Some(word),
    })
}

fn kind(entry: &Entry) -> &'static str {
    match entry {
        Entry::Service => "iaas",
        Entry::Plan(_) => "plan",
        Entry::Deployment(_) => "deployment",
        Entry::Profile(_) => "instance.profile",
    }
}

fn location(entry: &Entry) -> Option<&'static str> {
    if let Entry::Deployment(deployment) = entry {
        Some(deployment.region.name)
    } else {
        None
    }
}

fn name(entry: &Entry) -> String {
    match entry {
        Entry::Service => SERVICE.into(),
        Entry::Plan(None) => "gen2-instance".into(),
        Entry::Plan(Some(profile)) | Entry::Profile(profile) => profile.name.into(),
        Entry::Deployment(Deployment {
            region,
            of: Priced::Composite(profile),
        }) => {
            format!("{}-{}", profile.name, region.name)
        }
        Entry::Deployment(deployment) => deployment.region.name.into(),
    }
}

fn body(id: &str, entry: &Entry, include: &str) -> Value {
    let tags: &[&str] = match entry {
        Entry::Deployment(Deployment {
            of: Priced::Composite(_),
            ..
        }) => &["is.composite"],
        _ => &[],
    };
    let mut body = json!({
        "id": id, "catalog_crn": format!("crn:v1:bluemix:public:globalcatalog::::{}:{id}", kind(entry)),
        "name": name(entry), "kind": kind(entry), "active": true, "disabled": false, "tags": tags,
        "url": format!("https://globalcatalog.cloud.ibm.com/api/v1/{id}"),
        "geo_tags": location(entry).into_iter().collect::<Vec<_>>(),
        "overview_ui": { "en": { "display_name": name(entry) } },
    });
    if include.is_empty() {
        return body;
    }
    if let Some(region) = location(entry) {
        body["metadata"] = json!({ "deployment": { "location": region }, "rc_compatible": true });
    }
    if let Entry::Profile(profile) = entry {
        body["metadata"] = json!({ "other": { "profile": measures(profile) } });
    }
    body
}

/// Which plan a profile is sold under, and how much of each meter it uses.
fn measures(profile: &Profile) -> Value {
    let meters = if is_gen2(profile) {
        let mut meters = vec![meter("VCPU", profile.vcpu), meter("MEMORY", profile.memory_gib)];
        meters.extend(
            profile
                .disks
                .map(|(count, size)| meter("IS_STORAGE", count * size)),
        );
        meters.extend(profile.gpu.as_ref().map(|gpu| meter("GPU", gpu.count)));
        meters
    } else {
        vec![meter("INSTANCE_MULTI_TENANT", 1)]
    };
    let plan = plan_of(profile);
    let dedicated = vec![meter("INSTANCE_DEDICATED_HOST", 1)];
    json!({
        "name": profile.name, "family": profile.family,
        "measures": [{ "component": "instance", "deployments": [
            { "type": "dedicated-host", "plan": plan, "meters": dedicated },
            { "type": "multi-tenant", "plan": plan, "meters": meters },
        ] }],
    })
}

fn meter(unit: &str, quantity: u32) -> Value {
    json!({ "unit": unit, "quantity": quantity.to_string() })
}
