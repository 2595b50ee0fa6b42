//! Watches that are cut, late, doubled, coalesced or sent back in time, and cached reads from the past.

use std::time::Duration;

use fastrand::Rng;

use super::{KubeFault, KubeKind};
use crate::api::names::{GROUP, IBM_GROUP};
use crate::sim::kube::ApiServer;
use crate::sim::kube::kind::TableKey;
use crate::sim::kube::watching::{Delivery, Ending, Forgetting, Hold, Reads, RuleId, Who};

/// The kinds whose changes are told in another order than they happened.
const SHUFFLED: [&str; 4] = ["nodeclaims", "nodes", "ibmnodeclasses", "pods"];
/// How far back a lagging server is at most: minutes in a small cluster.
const REVISIONS_BACK_MAX: u64 = 300;
/// How long pages are at most while the next one is forgotten: what drawn worlds have would fit into one as clients ask
/// for it.
const PAGE_ITEMS: std::ops::RangeInclusive<usize> = 1..=4;

/// Turns a fault of watches on for a user: the rules by which it meets somebody, to be lifted at its end. `None` if it is
/// none of these.
pub fn start(server: &ApiServer, user: &str, fault: &KubeFault, rng: &mut Rng) -> Option<Vec<RuleId>> {
    let control = server.watching();
    let who = who(user, fault.resource.as_deref());
    let revision = server.state().store.revision();
    let rules = match fault.kind {
        KubeKind::WatchClosed => vec![control.end(who, Ending::Closed)],
        KubeKind::WatchExpired => vec![control.end(who, Ending::Expired)],
        KubeKind::BookmarksOnly => {
            let reads = Reads::Live;
            vec![control.hold_back(who, Hold { revision, reads })]
        }
        KubeKind::PagesForgotten => {
            let forgetting = Forgetting {
                items_max: rng.usize(PAGE_ITEMS),
                percent: fault.percent,
                times: fault.times,
                rng: rng.fork(),
            };
            let rule = control.forget_pages(who.clone(), forgetting);
            // So that there are lists.
            control.end(who, Ending::Expired);
            vec![rule]
        }
        KubeKind::TimeTravel => {
            let past = revision.saturating_sub(rng.u64(1..=REVISIONS_BACK_MAX)).max(1);
            let hold = Hold {
                revision: past,
                reads: Reads::Stale,
            };
            let rule = control.hold_back(who.clone(), hold);
            control.end(who, Ending::Expired);
            vec![rule]
        }
        KubeKind::Lag => vec![control.deliver(who, Delivery::Late(fault.delay))],
        KubeKind::Coalesced => vec![control.deliver(who, Delivery::Coalesced(fault.delay))],
        KubeKind::Duplicates => vec![control.deliver(who, Delivery::Twice)],
        KubeKind::Reordered => reorder(server, user, fault.delay, rng),
        _ => return None,
    };
    Some(rules)
}

/// Whether a fault of that kind is about what watches tell, so that it meets nobody where nobody watches.
pub fn is_about_watches(kind: KubeKind) -> bool {
    matches!(
        kind,
        KubeKind::WatchClosed
            | KubeKind::WatchExpired
            | KubeKind::BookmarksOnly
            | KubeKind::Lag
            | KubeKind::Coalesced
            | KubeKind::Duplicates
    )
}

/// Each kind is late by a time of its own.
fn reorder(server: &ApiServer, user: &str, most: Duration, rng: &mut Rng) -> Vec<RuleId> {
    let delays = SHUFFLED.iter().map(|plural| (plural, most.mul_f64(rng.f64())));
    delays
        .map(|(plural, delay)| {
            let who = who(user, Some(plural));
            server.watching().deliver(who, Delivery::Late(delay))
        })
        .collect()
}

fn who(user: &str, resource: Option<&str>) -> Who {
    Who {
        user: Some(user.to_owned()),
        table: resource.map(table),
    }
}

/// Where a resource that the operator watches is stored.
pub fn table(plural: &str) -> TableKey {
    let group = match plural {
        "nodepools" | "nodeclaims" => GROUP,
        "ibmnodeclasses" | "unavailableofferings" => IBM_GROUP,
        "leases" => "coordination.k8s.io",
        "poddisruptionbudgets" => "policy",
        "daemonsets" => "apps",
        "csinodes" | "storageclasses" => "storage.k8s.io",
        "certificatesigningrequests" => "certificates.k8s.io",
        _ => "",
    };
    TableKey::of(group, plural)
}
