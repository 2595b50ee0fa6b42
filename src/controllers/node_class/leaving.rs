//! A class that is deleted stays until no NodeClaim uses it, and says who does: machines could not be judged, nor told
//! from a stranger's, without their class. It also stays while machines of ours, or what they left behind, are in its
//! resource group that no other class would show to the sweep.

use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::json;

use super::{Error, group_of, stamp, status, write_status};
use crate::api::{IBMNodeClass, NodeClaim, names};
use crate::cloud::{ClusterId, Leftover, LeftoverKind, Machine, Ours};
use crate::controllers::context::Context;
use crate::controllers::events::{Kind, Story};

/// Of claims, machines and leftovers, how many are named; of more only the number is told.
const NAMED_MAX: usize = 5;

/// Whether a class that is deleted may go.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Leave {
    /// It is gone, as far as we are concerned.
    Gone,
    /// Claims use it still, or machines are left, or something of them.
    Wait,
}

/// What keeps a deleted class.
struct Holdup {
    reason: &'static str,
    message: String,
}

/// Lets a deleted class go, or says why not yet. What could not be read keeps it.
pub(super) async fn leave(
    context: &Context,
    cluster: ClusterId,
    class: &IBMNodeClass,
) -> Result<Leave, Error> {
    if !class
        .finalizers()
        .iter()
        .any(|it| it == names::NODE_CLASS_FINALIZER)
    {
        return Ok(Leave::Gone);
    }
    match holdup(context, cluster, class).await {
        Ok(None) => {
            release(context, class).await?;
            Ok(Leave::Gone)
        }
        Ok(Some(holdup)) => {
            let story = Story {
                kind: Kind::Normal,
                reason: holdup.reason,
                action: "Delete",
                note: holdup.message.clone(),
                transition: "deleted".to_owned(),
            };
            context.events.tell(class, story).await;
            say(context, class, holdup.message).await?;
            Ok(Leave::Wait)
        }
        Err(Error::Cloud(error)) => {
            let fault = format!("{} failed ({})", error.answer().operation, error.kind());
            let message = format!("{fault}: it stays until it is known whether machines of it are left");
            say(context, class, message).await?;
            Err(error.into())
        }
        Err(error) => Err(error),
    }
}

async fn say(context: &Context, class: &IBMNodeClass, message: String) -> Result<(), Error> {
    let status = status::leaving(class, message, context.clock.now());
    write_status(context, class, &status).await
}

/// Claims first: when none is left, whatever machine of ours there is belongs to nobody.
async fn holdup(
    context: &Context,
    cluster: ClusterId,
    class: &IBMNodeClass,
) -> Result<Option<Holdup>, Error> {
    let users = stamp::users(context, &class.name_any()).await?;
    if !users.is_empty() {
        return Ok(Some(Holdup {
            reason: "WaitingForNodeClaims",
            message: waiting_for(&users),
        }));
    }
    let Some(resource_group) = group_of(context, class).await? else {
        return Ok(None);
    };
    let classes: Api<IBMNodeClass> = Api::all(context.client.clone());
    let classes = classes.list(&ListParams::default()).await;
    let classes = classes.map_err(Error::kube("listing the classes"))?.items;
    if is_shown_by_others(&classes, class, &resource_group) {
        return Ok(None);
    }
    let ours = Ours {
        cluster,
        resource_group,
    };
    let machines = context.cloud.list(&ours).await?;
    if !machines.is_empty() {
        return Ok(Some(Holdup {
            reason: "WaitingForMachines",
            message: machines_left(&machines, &ours.resource_group),
        }));
    }
    let mut leftovers = context.cloud.leftovers(&ours).await?;
    // What the sweep would leave where it is, nobody waits for.
    let keeps_boot_volumes = classes.iter().any(|class| class.spec.keeps_boot_volume());
    leftovers.retain(|it| it.kind != LeftoverKind::BootVolume || !keeps_boot_volumes);
    Ok((!leftovers.is_empty()).then(|| Holdup {
        reason: "WaitingForLeftovers",
        message: parts_left(&leftovers, &ours.resource_group),
    }))
}

/// Whether the sweep sees a group all the same, by a class that stays.
fn is_shown_by_others(all: &[IBMNodeClass], class: &IBMNodeClass, group: &str) -> bool {
    all.iter().any(|other| {
        let stays = other.metadata.deletion_timestamp.is_none();
        stays && other.uid() != class.uid() && other.recorded_group() == Some(group)
    })
}

fn waiting_for(users: &[NodeClaim]) -> String {
    let names = users.iter().map(ResourceExt::name_any).collect();
    format!(
        "{} NodeClaims use it still: {}; it goes when they are gone",
        users.len(),
        listed(names)
    )
}

fn machines_left(machines: &[Machine], group: &str) -> String {
    let names = machines.iter().map(|machine| machine.name.clone()).collect();
    format!(
        "{} machines of this cluster are in its resource group {group}: {}; without it nobody would find them, so it \
         goes when they are gone",
        machines.len(),
        listed(names)
    )
}

fn parts_left(leftovers: &[Leftover], group: &str) -> String {
    let names = leftovers.iter().map(|it| format!("{} {}", it.kind, it.name));
    format!(
        "{} parts that machines of this cluster left behind are in its resource group {group}: {}; without it nobody \
         would find them, so it goes when they are gone",
        leftovers.len(),
        listed(names.collect())
    )
}

/// The first few, and how many more there are.
fn listed(mut named: Vec<String>) -> String {
    named.sort();
    let more = named.len().saturating_sub(NAMED_MAX);
    named.truncate(NAMED_MAX);
    let rest = if more > 0 {
        format!(" and {more} more")
    } else {
        String::new()
    };
    format!("{}{rest}", named.join(", "))
}

async fn release(context: &Context, class: &IBMNodeClass) -> Result<(), Error> {
    let kept: Vec<&String> = class
        .finalizers()
        .iter()
        .filter(|it| *it != names::NODE_CLASS_FINALIZER)
        .collect();
    let patch = json!({"metadata": {"resourceVersion": class.resource_version(), "finalizers": kept}});
    let classes: Api<IBMNodeClass> = Api::all(context.client.clone());
    classes
        .patch(&class.name_any(), &PatchParams::default(), &Patch::Merge(patch))
        .await
        .map(drop)
        .map_err(Error::kube("releasing the class"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(name: &str) -> NodeClaim {
        serde_json::from_value(json!({
            "metadata": {"name": name},
            "spec": {"requirements": [], "nodeClassRef": {"group": "g", "kind": "k", "name": "n"}},
        }))
        .unwrap()
    }

    #[test]
    fn the_first_five_claims_are_named_and_the_rest_is_counted() {
        let users: Vec<NodeClaim> = ["g", "b", "a", "c", "f", "e", "d"].map(claim).into();
        assert_eq!(
            waiting_for(&users),
            "7 NodeClaims use it still: a, b, c, d, e and 2 more; it goes when they are gone"
        );
    }
}
