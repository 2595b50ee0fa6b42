//! A class that is deleted stays until no NodeClaim uses it, and says who does: machines could not be judged, nor told
//! from a stranger's, without their class.

use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::json;

use super::{Error, stamp, status, write_status};
use crate::api::{IBMNodeClass, NodeClaim, names};
use crate::controllers::context::Context;
use crate::controllers::events::{Kind, Story};

/// Claims that are named; of more only the number is told.
const NAMED_MAX: usize = 5;

/// Whether a class that is deleted may go.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Leave {
    /// It is gone, as far as we are concerned.
    Gone,
    /// Claims use it still.
    Wait,
}

/// Lets a deleted class go, or says why not yet.
pub(super) async fn leave(context: &Context, class: &IBMNodeClass) -> Result<Leave, Error> {
    if !class
        .finalizers()
        .iter()
        .any(|it| it == names::NODE_CLASS_FINALIZER)
    {
        return Ok(Leave::Gone);
    }
    let users = stamp::users(context, &class.name_any()).await?;
    if users.is_empty() {
        release(context, class).await?;
        return Ok(Leave::Gone);
    }
    let message = waiting_for(&users);
    let story = Story {
        kind: Kind::Normal,
        reason: "WaitingForNodeClaims",
        action: "Delete",
        note: message.clone(),
        transition: "deleted".to_owned(),
    };
    context.events.tell(class, story).await;
    let status = status::leaving(class, message, context.clock.now());
    write_status(context, class, &status).await?;
    Ok(Leave::Wait)
}

fn waiting_for(users: &[NodeClaim]) -> String {
    let mut named: Vec<String> = users.iter().map(ResourceExt::name_any).collect();
    named.sort();
    let more = named.len().saturating_sub(NAMED_MAX);
    named.truncate(NAMED_MAX);
    let rest = if more > 0 {
        format!(" and {more} more")
    } else {
        String::new()
    };
    format!(
        "{} NodeClaims use it still: {}{rest}; it goes when they are gone",
        users.len(),
        named.join(", ")
    )
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
