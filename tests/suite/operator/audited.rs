//! A replica every plan of which is looked at a second time.

use std::sync::Arc;

use futures::FutureExt;
use karpenter_ibm::audit;
use karpenter_ibm::operator::{self, Context, Edges, Factory, Settings};
use tokio::sync::mpsc;

/// The operator as it is; a plan that is not legal ends the test.
pub(crate) fn factory(settings: Settings) -> Factory {
    factory_of(settings, |edges| edges, |context| context)
}

/// A variant of it, with other edges and another context. What is looked at is what comes of its plans in the end.
pub(crate) fn factory_of(
    settings: Settings,
    edges: impl Fn(Edges) -> Edges + Send + Sync + 'static,
    change: impl Fn(Context) -> Context + Send + Sync + 'static,
) -> Factory {
    let (edges, change) = (Arc::new(edges), Arc::new(change));
    Arc::new(move |given| {
        let (found, mut findings) = mpsc::unbounded_channel();
        let (edges, change) = (edges.clone(), change.clone());
        let watched = operator::factory_of(
            settings.clone(),
            move |given| edges(given),
            move |context| {
                let (mut context, found) = (change(context), found.clone());
                let policy = context.settings.planning.min_values;
                context.compute = context.compute.then(move |snapshot, plan| {
                    for finding in audit::plan_under(policy, snapshot, &plan) {
                        _ = found.send(finding.to_string());
                    }
                    plan
                });
                context
            },
        );
        let replica = watched(given);
        async move {
            // A panic where the plan is made would be caught there, and taken for a mistake of the operator.
            let alarm = async {
                if let Some(finding) = findings.recv().await {
                    panic!("a plan is not legal: {finding}");
                }
                drop(watched);
            };
            tokio::select! {
                biased;
                () = alarm => {}
                () = replica => {}
            }
        }
        .boxed()
    })
}
