//! Deletes a claim, and says why first.

use kube::api::{DeleteParams, Preconditions};
use kube::{Api, ResourceExt};

use super::context::Context;
use super::events::Story;
use crate::api::NodeClaim;

/// What became of a claim that was to be deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Judged {
    /// It is being deleted.
    Deleted,
    /// It has changed since it was judged, or is gone: it is judged anew, if it is there.
    Changed,
}

/// Deletes exactly the claim that was judged, in the version that it was judged in, and not when why cannot be told.
pub(super) async fn delete_claim(context: &Context, claim: &NodeClaim, story: Story) -> kube::Result<Judged> {
    context.events.try_tell(claim, story).await?;
    let as_judged = DeleteParams::default().preconditions(Preconditions {
        uid: claim.uid(),
        resource_version: claim.resource_version(),
    });
    let claims: Api<NodeClaim> = Api::all(context.client.clone());
    match claims.delete(&claim.name_any(), &as_judged).await {
        Ok(_) => Ok(Judged::Deleted),
        Err(kube::Error::Api(status)) if status.is_not_found() || status.is_conflict() => Ok(Judged::Changed),
        Err(error) => Err(error),
    }
}
