//! Whether somebody else would approve what machines ask for, past all that is checked here.
//!
//! kube-controller-manager approves a kubelet's request if the requester may `create` the subresource `nodeclient` of
//! certificatesigningrequests, or `selfnodeclient` for a renewal, and asks exactly that by a SubjectAccessReview. So do
//! we, about the account whose tokens machines have. Clusters of kubeadm bind such rights to their bootstrap tokens,
//! which is no harm; bound to all ServiceAccounts, or to everybody, they would let any holder of one machine's
//! credential be any node.

use k8s_openapi::api::authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use kube::Api;
use kube::api::PostParams;

use crate::controllers::context::Context;

const SUBRESOURCES: [&str; 2] = ["nodeclient", "selfnodeclient"];

/// Asks, counts the answer and warns. What cannot be asked is told, and proves nothing.
pub(super) async fn check(context: &Context) {
    let mut approved = 0;
    for subresource in SUBRESOURCES {
        match would_be_approved(context, subresource).await {
            Ok(false) => {}
            Ok(true) => {
                approved += 1;
                tracing::warn!(
                    account = context.settings.joiner_user(),
                    subresource,
                    "kube-controller-manager would approve any request of machines that join, so that a stolen \
                     credential could become any node: remove the ClusterRoleBinding that lets this account, or a \
                     group it is in, create certificatesigningrequests/{subresource}"
                );
            }
            Err(error) => tracing::warn!(%error, "cannot find out who else approves certificate requests"),
        }
    }
    context.metrics.approved_by_others(approved);
}

async fn would_be_approved(context: &Context, subresource: &str) -> kube::Result<bool> {
    let namespace = &context.settings.namespace;
    let groups = [
        "system:serviceaccounts".to_owned(),
        format!("system:serviceaccounts:{namespace}"),
        "system:authenticated".to_owned(),
    ];
    let review = SubjectAccessReview {
        spec: SubjectAccessReviewSpec {
            user: Some(context.settings.joiner_user()),
            groups: Some(groups.into()),
            resource_attributes: Some(ResourceAttributes {
                group: Some("certificates.k8s.io".to_owned()),
                resource: Some("certificatesigningrequests".to_owned()),
                subresource: Some(subresource.to_owned()),
                verb: Some("create".to_owned()),
                ..ResourceAttributes::default()
            }),
            ..SubjectAccessReviewSpec::default()
        },
        ..SubjectAccessReview::default()
    };
    let reviews: Api<SubjectAccessReview> = Api::all(context.client.clone());
    let answer = reviews.create(&PostParams::default(), &review).await?;
    Ok(answer.status.is_some_and(|status| status.allowed))
}
