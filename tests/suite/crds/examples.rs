//! The manifests in `examples/` can be applied as they are.

use std::fs;
use std::path::Path;

use karpenter_ibm::api::{ConsolidationPolicy, NodePool, NodePoolSpec};
use karpenter_ibm::sim::kube::schema::Schema;
use serde::Deserialize;
use serde_json::Value;

use super::{Kind, Verdict, admit};

fn documents(file: &str) -> Vec<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples").join(file);
    serde_saphyr::from_multiple(&fs::read_to_string(path).unwrap()).unwrap()
}

#[test]
fn every_example_is_valid_and_has_no_unknown_field() {
    let mut seen = Vec::new();
    for entry in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("examples")).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_dir() {
            continue;
        }
        let file = entry.file_name().into_string().unwrap();
        for manifest in documents(&file) {
            if !manifest["apiVersion"].as_str().unwrap().contains("karpenter") {
                continue;
            }
            let kind = Kind::of(&manifest);
            let schema = Schema::compile(&kind.schema()).unwrap();
            assert_eq!(schema.unknown_fields(&manifest), Vec::<String>::new(), "{file}");
            assert_eq!(admit(&schema, &manifest, None), [], "{file}");
            assert_eq!(kind.validate(&manifest, None), Verdict::Accepted, "{file}");
            if kind == Kind::NodePool {
                assert_eq!(
                    NodePool::deserialize(&manifest).unwrap().validate_runtime(),
                    Ok(()),
                    "{file}"
                );
            }
        }
        seen.push(file);
    }
    seen.sort();
    assert_eq!(
        seen,
        [
            "gpu-spot.yaml",
            "nodeclass.yaml",
            "on-demand.yaml",
            "spot-with-on-demand-fallback.yaml",
            "spot.yaml",
            "workload.yaml"
        ]
    );
}

#[test]
fn the_spot_example_means_what_it_meant_when_it_was_written() {
    let spec: NodePoolSpec = NodePool::deserialize(&documents("spot.yaml")[0]).unwrap().spec;
    assert_eq!(
        spec.consolidation_policy(),
        Some(ConsolidationPolicy::WhenEmptyOrUnderutilized)
    );
    assert_eq!(spec.expire_after(), "12h");
}
