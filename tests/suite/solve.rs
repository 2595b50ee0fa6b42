//! `karpenter-ibm solve`: plans from files, by the binary.

use std::io::Write;
use std::process::Output;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::cli::{binary, stderr};

const POOL: &str = r#"
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: default}
spec:
  limits: {cpu: "64"}
  template:
    spec:
      taints: [{key: team, value: red, effect: NoSchedule}]
      requirements: [{key: karpenter.sh/capacity-type, operator: In, values: [spot]}]
      nodeClassRef: {group: karpenter-ibm.sh, kind: IBMNodeClass, name: default}
---
"#;

const CLASS: &str = "
apiVersion: karpenter-ibm.sh/v1alpha1
kind: IBMNodeClass
metadata: {name: default}
spec: {region: us-south, vpc: r006-cd031a72-f3d8-46cf-af44-0d76e89cd51e, imageSelector: {os: ubuntu, majorVersion: \"24\"}}
---
";

/// A pod that tolerates the pool's taint, with more of a spec.
fn pod(name: &str, more: &str) -> String {
    format!(
        "{{apiVersion: v1, kind: Pod, metadata: {{name: {name}}}, spec: {{tolerations: [{{operator: Exists}}], \
         containers: [{{name: c, resources: {{requests: {{cpu: \"3\", memory: 4Gi}}}}}}]{more}}}}}\n---\n"
    )
}

/// Runs the command on a file with this text.
fn solve(text: &str, more: &[&str]) -> Output {
    static WRITTEN: AtomicUsize = AtomicUsize::new(0);
    let number = WRITTEN.fetch_add(1, Ordering::Relaxed);
    let file = std::env::temp_dir().join(format!(
        "karpenter-ibm-solve-{}-{number}.yaml",
        std::process::id()
    ));
    std::fs::File::create(&file)
        .unwrap()
        .write_all(text.as_bytes())
        .unwrap();
    let args: Vec<&str> = ["solve", "-f", file.to_str().unwrap()]
        .iter()
        .chain(more)
        .copied()
        .collect();
    let output = binary(&args, &[]).output().unwrap();
    std::fs::remove_file(file).unwrap();
    output
}

fn stdout(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stdout);
    let squeezed = text
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
    squeezed.collect::<Vec<_>>().join("\n")
}

#[test]
fn a_plan_is_a_table_with_its_price() {
    let output = solve(&format!("{POOL}{CLASS}{}", pod("a", "")), &[]);
    let said = stdout(&output);
    assert!(output.status.success(), "{said} {}", stderr(&output));
    assert!(
        said.starts_with("NODEPOOL TYPE ZONE CAPACITY PRICE/H OR TYPES PODS\n"),
        "{said}"
    );
    assert!(said.contains("default cxf-4x8 us-south-1 spot $0.0"), "{said}");
    assert!(said.contains("default/a"), "{said}");
    assert!(said.ends_with("an hour"), "{said}");
    assert!(said.contains("\n1 node to buy, $0."), "{said}");
}

#[test]
fn workloads_are_expanded_and_daemons_take_their_share() {
    let template = "selector: {}, template: {spec: {tolerations: [{operator: Exists}], containers: [{name: c, resources: {requests: {cpu: 500m}}}]}}";
    let large = template.replace("500m", "1500m");
    let workloads = format!(
        "{{apiVersion: apps/v1, kind: Deployment, metadata: {{name: web}}, spec: {{replicas: 2, {template}}}}}\n---\n\
         {{apiVersion: batch/v1, kind: Job, metadata: {{name: once}}, spec: {{parallelism: 1, {template}}}}}\n---\n\
         {{apiVersion: apps/v1, kind: StatefulSet, metadata: {{name: db}}, spec: {{replicas: 1, {template}}}}}\n---\n\
         {{apiVersion: apps/v1, kind: DaemonSet, metadata: {{name: log, namespace: kube-system}}, spec: {{{large}}}}}\n---\n\
         {{apiVersion: v1, kind: ConfigMap, metadata: {{name: web}}}}\n"
    );
    let output = solve(&format!("{POOL}{CLASS}{workloads}"), &[]);
    let said = stdout(&output);
    assert!(output.status.success(), "{said} {}", stderr(&output));
    for pod in ["default/web-0", "default/web-1", "default/once-0", "default/db-0"] {
        assert!(said.contains(pod), "no {pod} in {said}");
    }
    assert!(
        said.contains("-4x"),
        "2 cpu and the daemon need more than 2: {said}"
    );
    assert!(!said.contains("log"), "nothing is bought for a daemon: {said}");
    assert!(stderr(&output).contains("ConfigMap web"), "{}", stderr(&output));
}

#[test]
fn nodes_that_are_there_are_filled_first() {
    let node = "{apiVersion: v1, kind: Node, metadata: {name: there}, \
                status: {allocatable: {cpu: \"4\", memory: 16Gi, pods: \"20\"}}}\n---\n";
    let output = solve(&format!("{POOL}{CLASS}{node}{}", pod("a", "")), &[]);
    let said = stdout(&output);
    assert_eq!(said, "NODE PODS\nthere default/a\n\n0 nodes to buy, $0 an hour");
}

/// The controller does not buy for such a pod either: it never leaves its node.
#[test]
fn nothing_is_bought_for_a_pod_that_a_budget_holds_on_a_node_that_goes() {
    let claim = "{apiVersion: karpenter.sh/v1, kind: NodeClaim, metadata: {name: going, labels: {karpenter.sh/nodepool: default}, \
                 deletionTimestamp: 2026-11-16T10:00:00Z}, spec: {requirements: [], \
                 nodeClassRef: {group: karpenter-ibm.sh, kind: IBMNodeClass, name: default}}}\n---\n";
    let held = "{apiVersion: v1, kind: Pod, metadata: {name: web, labels: {app: web}, \
                ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: web, uid: web, controller: true}]}, \
                spec: {nodeName: going, tolerations: [{operator: Exists}], \
                containers: [{name: c, resources: {requests: {cpu: \"3\"}}}]}, status: {phase: Running}}\n---\n";
    let budget = |most: &str| {
        format!(
            "{{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {{name: web}}, \
             spec: {{maxUnavailable: {most}, selector: {{matchLabels: {{app: web}}}}}}}}\n"
        )
    };
    for (most, nodes) in [("0", "0 nodes to buy"), ("1", "1 node to buy")] {
        let output = solve(&format!("{POOL}{CLASS}{claim}{held}{}", budget(most)), &[]);
        let said = stdout(&output);
        assert!(said.contains(nodes), "{most} may go: {said} {}", stderr(&output));
        assert!(stderr(&output).is_empty(), "{}", stderr(&output));
    }
}

#[test]
fn a_pod_without_a_place_is_told_why_and_what_would_help() {
    let text = format!(
        "{POOL}{CLASS}{}",
        "{apiVersion: v1, kind: Pod, metadata: {name: big}, spec: {containers: [{name: c, resources: {requests: {cpu: \"2000\"}}}]}}"
    );
    let output = solve(&text, &[]);
    let said = stdout(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("no place for default/big:"), "{said}");
    assert!(
        said.contains("NodePool default: taint team=red:NoSchedule is not tolerated"),
        "{said}"
    );
    assert!(
        said.contains("to get in at NodePool default: let the pod tolerate the taint team=red:NoSchedule; let the pod ask for"),
        "{said}"
    );
    assert!(
        stderr(&output).contains("1 of 1 pods have no place"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn bad_input_names_file_document_and_field() {
    let class_elsewhere = CLASS.replace("us-south", "us-mars");
    let cases: [(&str, &[&str]); 7] = [
        ("a: [", &["it is no YAML"]),
        ("{apiVersion: v1}", &["document 1", "kind", "missing"]),
        (
            "{kind: Pod, metadata: {}}",
            &["document 1", "metadata.name", "missing"],
        ),
        (
            "{kind: Pod, metadata: {name: a}}\n---\n{kind: Pod, metadata: {name: b}, spec: {containers: [{name: c, ports: [{containerPort: x}]}]}}",
            &["document 2, Pod b", "spec.containers[0].ports[0].containerPort"],
        ),
        (
            POOL,
            &[
                "document 1, NodePool default",
                "spec.template.spec.nodeClassRef.name",
                "no IBMNodeClass default",
            ],
        ),
        (
            "{apiVersion: karpenter.sh/v1, kind: NodePool, metadata: {name: p}, spec: {template: {spec: {nodeClassRef: \
             {group: karpenter-ibm.sh, kind: IBMNodeClass, name: d}, requirements: [{key: a, operator: Maybe}]}}}}",
            &["NodePool p", "spec.template.spec.requirements[0].operator"],
        ),
        (
            &class_elsewhere,
            &["IBMNodeClass default", "spec.region", "us-mars"],
        ),
    ];
    for (text, words) in cases {
        let output = solve(text, &[]);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("karpenter-ibm-solve-"), "the file is named: {said}");
        for word in words {
            assert!(said.contains(word), "{word:?} is not in: {said}");
        }
        assert!(output.stdout.is_empty());
    }
    let missing = binary(&["solve", "-f", "/nonexistent.yaml"], &[])
        .output()
        .unwrap();
    assert_eq!(missing.status.code(), Some(2));
    assert!(
        stderr(&missing).contains("/nonexistent.yaml"),
        "{}",
        stderr(&missing)
    );
}

#[test]
fn the_examples_make_a_plan() {
    let examples = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/");
    let file = |name: &str| format!("{examples}{name}");
    let args = [file("spot.yaml"), file("nodeclass.yaml"), file("workload.yaml")];
    let args: Vec<&str> = ["solve"]
        .into_iter()
        .chain(args.iter().flat_map(|file| ["-f", file.as_str()]))
        .collect();
    let output = binary(&args, &[]).output().unwrap();
    let said = stdout(&output);
    assert!(output.status.success(), "{said} {}", stderr(&output));
    assert!(
        said.contains("default/web-0") && said.contains(" spot $"),
        "{said}"
    );
}
