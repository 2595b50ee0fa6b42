//! A replica every plan of which is looked at a second time.

use std::sync::Arc;

use futures::FutureExt;
use karpenter_ibm::audit;
use karpenter_ibm::operator::{Factory, Settings, factory_of};
use tokio::sync::mpsc;

/// The operator as it is; a plan that is not legal ends the test.
pub(super) fn factory(settings: Settings) -> Factory {
    Arc::new(move |edges| {
        let (found, mut findings) = mpsc::unbounded_channel();
        let watched = factory_of(
            settings.clone(),
            |edges| edges,
            move |mut context| {
                let found = found.clone();
                context.compute = context.compute.then(move |snapshot, plan| {
                    for finding in audit::plan(snapshot, &plan) {
                        _ = found.send(finding.to_string());
                    }
                    plan
                });
                context
            },
        );
        let replica = watched(edges);
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
