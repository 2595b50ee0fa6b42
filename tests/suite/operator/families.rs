//! Machines of the other family of operating systems: an image of Red Hat.

use std::time::Duration;

use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use super::{World, chart, joining, while_working};

const RED_HAT: &str = "ibm-redhat-9-6-minimal-amd64-3";

impl World {
    /// The machine of a claim boots until its Node is ready for work.
    async fn boot_until_ready(&self, name: &str) {
        let (machine, _booted) = joining::boot_bought(self, name).await;
        while_working(machine, async {
            self.until("registered", Duration::from_mins(5), async || {
                self.is_true(name, "Registered").await
            })
            .await;
            self.until("its kubelet is ready", Duration::from_mins(2), async || {
                let status = joining::node(self, name).await.unwrap().status;
                let conditions = status.and_then(|it| it.conditions).unwrap_or_default();
                conditions
                    .iter()
                    .any(|it| it.type_ == "Ready" && it.status == "True")
            })
            .await;
            // As the node lifecycle controller would, of which there is none here.
            let taints = Patch::Merge(json!({"spec": {"taints": null}}));
            let untainted = self.nodes().patch(name, &PatchParams::default(), &taints).await;
            untainted.unwrap();
            self.until("ready", Duration::from_mins(2), async || {
                self.is_true(name, "Ready").await
            })
            .await;
        })
        .await;
    }

    /// A class with that image, until it is ready; what it says then.
    async fn boots_red_hat(&self, bootstrap: Value) -> String {
        let change = json!({"image": RED_HAT, "bootstrap": bootstrap});
        self.change_class("default", &change).await;
        self.until("the image is resolved", Duration::from_mins(1), async || {
            let class = self.classes().get("default").await.unwrap();
            let image = class.status.and_then(|it| it.resolved_image);
            image.is_some_and(|it| it.name == RED_HAT)
        })
        .await;
        let class = self.until_judged("default", "True", Duration::from_mins(1)).await;
        class.readiness().unwrap().message.clone().unwrap_or_default()
    }
}

#[tokio::test(start_paused = true)]
async fn a_red_hat_image_that_brings_kubelet_and_containerd_becomes_a_ready_node() {
    let world = World::new();
    while_working(chart::replica(&world), async {
        let said = world.boots_red_hat(json!({"repository": {}})).await;
        assert!(!said.contains("containerd"), "{said}");
        world.claim("a").await;
        world.until_launched("a").await;
        let [machine] = world.living().try_into().unwrap();
        let document = machine.user_data.unwrap();
        assert!(!document.contains("/var/lib/karpenter-ibm/install"), "{document}");
        world.boot_until_ready("a").await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_red_hat_image_that_lacks_them_is_told_to_install_packages_of_its_own_kind() {
    let world = World::new();
    while_working(chart::replica(&world), async {
        let said = world.boots_red_hat(json!({})).await;
        assert!(said.contains("which have no containerd"), "{said}");
        world.claim("a").await;
        world.until_launched("a").await;
        let [machine] = world.living().try_into().unwrap();
        let document = machine.user_data.unwrap();
        assert!(document.contains("/var/lib/karpenter-ibm/packages.repo"));
        assert!(document.contains("dnf -y install"));
        assert!(!document.contains("apt-get"));
        world.boot_until_ready("a").await;
    })
    .await;
}
