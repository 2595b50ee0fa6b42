//! The manifests in `examples/`, applied as they are, each field known to the API server.

use std::fs;
use std::path::Path;
use std::time::Duration;

use karpenter_ibm::api::NodePool;
use kube::api::{DynamicObject, Patch, PatchParams, ValidationDirective};
use kube::core::{ApiResource, GroupVersionKind, TypeMeta};
use kube::{Api, ResourceExt};

use super::{World, while_working};

/// The example of the document that asked for spot machines, to the letter.
const FIRST_WISH: &str = r#"apiVersion: karpenter.sh/v1
kind: NodePool
metadata:
  name: spot
spec:
  template:
    spec:
      requirements:
        - key: karpenter.sh/capacity-type
          operator: In
          values: ["spot"]
      nodeClassRef:
        group: karpenter-ibm.sh
        kind: IBMNodeClass
        name: default
  disruption:
    consolidationPolicy: WhenUnderutilized
    consolidateAfter: 10s
    expireAfter: 12h
"#;

fn example(file: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples").join(file);
    fs::read_to_string(path).unwrap()
}

impl World {
    /// Applies every document of a text, as `kubectl apply --server-side --validate=strict` does.
    async fn apply(&self, text: &str) -> Vec<DynamicObject> {
        let mut applied = Vec::new();
        for object in serde_saphyr::from_multiple::<DynamicObject>(text).unwrap() {
            let types: &TypeMeta = object.types.as_ref().unwrap();
            let kind = ApiResource::from_gvk(&GroupVersionKind::try_from(types).unwrap());
            let objects: Api<DynamicObject> =
                if object.types.as_ref().unwrap().api_version.contains("karpenter") {
                    Api::all_with(self.kube.admin(), &kind)
                } else {
                    Api::default_namespaced_with(self.kube.admin(), &kind)
                };
            let mut params = PatchParams::apply("somebody").force();
            params.field_validation = Some(ValidationDirective::Strict);
            let name = object.name_any();
            let answer = objects.patch(&name, &params, &Patch::Apply(&object)).await;
            applied.push(answer.unwrap_or_else(|error| panic!("{name}: {error}")));
        }
        applied
    }
}

#[tokio::test(start_paused = true)]
async fn every_example_is_applied_by_an_api_server_that_knows_every_field() {
    let world = World::new();
    world.unclassed().await;
    for (file, count) in [
        ("nodeclass.yaml", 1),
        ("spot.yaml", 1),
        ("on-demand.yaml", 1),
        ("spot-with-on-demand-fallback.yaml", 2),
        ("gpu-spot.yaml", 1),
        ("workload.yaml", 2),
    ] {
        assert_eq!(world.apply(&example(file)).await.len(), count, "{file}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_first_wish_is_applied_to_the_letter_and_is_the_spot_example() {
    assert_eq!(example("spot.yaml"), FIRST_WISH);
    let world = World::new();
    world.apply(FIRST_WISH).await;
    let pools: Api<NodePool> = Api::all(world.kube.admin());
    let pool = pools.get("spot").await.unwrap();
    assert_eq!(pool.validate_runtime(), Ok(()));
    assert_eq!(pool.spec.expire_after(), "12h");
}

#[tokio::test(start_paused = true)]
async fn the_example_class_is_ready_once_its_ids_are_those_of_the_account() {
    let world = World::new();
    let account = world.cloud.account();
    let class = example("nodeclass.yaml")
        .replace("r006-cd031a72-f3d8-46cf-af44-0d76e89cd51e", &account.vpc)
        .replace(
            "r006-2f6c3b1a-7b8e-4a52-9c8d-1f0e5d3c2b1a",
            &account.security_group,
        )
        .replace("r006-5d9f8c7b-1a2b-4c3d-8e4f-5a6b7c8d9e0f", &account.key);
    world.unclassed().await;
    world.apply(&class).await;
    while_working(world.replica(), async {
        let class = world
            .until_judged("default", "True", Duration::from_mins(1))
            .await;
        let status = class.status.unwrap();
        assert_eq!(status.resolved_image_id, Some(account.image));
        assert_eq!(status.resolved_subnets.unwrap().len(), 3);
        world.claim("a").await;
        world.until_launched("a").await;
        let [machine] = world.living().try_into().unwrap();
        assert_eq!(machine.boot_volume_gb, 100);
        assert!(
            machine.tags.contains("managed-by:karpenter-ibm"),
            "{:?}",
            machine.tags
        );
    })
    .await;
}
