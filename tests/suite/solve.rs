//! `karpenter-ibm solve`: plans from files, by the binary.

use std::io::Write;
use std::process::Output;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

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

/// Checks that a file is bad input, and that all of these words are in what is said of it.
fn refused(text: &str, words: &[&str]) {
    let output = solve(text, &[]);
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(output.stdout.is_empty(), "{}", stdout(&output));
    for word in words {
        assert!(said.contains(word), "{word:?} is not in: {said}");
    }
}

#[test]
fn a_pool_that_the_controller_refuses_is_bad_input() {
    let limited = POOL.replace("{cpu: \"64\"}", "{cpu: \"-1\"}");
    refused(
        &format!("{limited}{CLASS}"),
        &["NodePool default", "spec.limits[cpu]", "less than 0"],
    );
    let taint = "{key: team, value: red, effect: NoSchedule}";
    let twice = POOL.replace(taint, &format!("{taint}, {taint}"));
    refused(&format!("{twice}{CLASS}"), &["NodePool default", "taint"]);
}

#[test]
fn a_pool_whose_budget_begins_nobody_knows_when_is_warned_of_and_planned_with() {
    let budgets = "[{nodes: \"1\", schedule: 99 99 * * *, duration: 1h}]";
    let disruption = format!("spec:\n  disruption: {{consolidateAfter: 0s, budgets: {budgets}}}\n  limits");
    let unread = POOL.replace("spec:\n  limits", &disruption);
    let output = solve(&format!("{unread}{CLASS}{}", pod("a", "")), &[]);
    let (said, told) = (stdout(&output), stderr(&output));
    assert!(output.status.success(), "{said} {told}");
    assert!(said.contains("1 node to buy"), "{said}");
    let warned = "NodePool default is not valid, but makes nodes: spec.disruption.budgets[0].schedule: ";
    assert!(told.contains(warned), "{told}");
}

#[test]
fn a_pool_of_another_provider_is_passed_over_although_its_class_has_the_name_of_ours() {
    let ours = "{group: karpenter-ibm.sh, kind: IBMNodeClass, name: default}";
    let foreign = POOL.replace(
        ours,
        "{group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}",
    );
    for class in [CLASS, ""] {
        let output = solve(&format!("{foreign}{class}{}", pod("a", "")), &[]);
        let (said, told) = (stdout(&output), stderr(&output));
        assert_eq!(output.status.code(), Some(1), "{said} {told}");
        assert!(said.contains("0 nodes to buy"), "{said}");
        assert!(
            told.contains(
                "NodePool default is passed over: its class is of kind EC2NodeClass of karpenter.k8s.aws"
            ),
            "{told}"
        );
    }
}

#[test]
fn a_pool_that_makes_no_nodes_now_is_among_the_reasons() {
    let going = CLASS.replace(
        "metadata: {name: default}",
        "metadata: {name: default, deletionTimestamp: 2026-11-16T10:00:00Z}",
    );
    let output = solve(&format!("{POOL}{going}{}", pod("a", "")), &[]);
    let said = stdout(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        said.contains("no place for default/a:\nNodePool default: IBMNodeClass default is being deleted"),
        "{said}"
    );
}

/// A pod as a cluster tells it has hundreds of fields: 800 of these have more than the 250,000 that a reader of YAML takes
/// for a bomb unless it is told otherwise.
#[test]
fn a_dump_of_many_pods_is_read_as_json_and_as_yaml() {
    let env: Vec<Value> = (0..70)
        .map(|at| json!({"name": format!("A{at}"), "value": "x"}))
        .collect();
    let pod = |at: usize| {
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": format!("p{at}")}, "spec": {
            "tolerations": [{"operator": "Exists"}],
            "containers": [{"name": "c", "env": env, "resources": {"requests": {"cpu": "10m"}}}],
        }})
    };
    let items: Vec<Value> = (0..800).map(pod).collect();
    let list = json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string();
    let supply = format!("{POOL}{CLASS}");
    let both = solve(&format!("{supply}{list}"), &[]);
    assert!(both.status.success(), "as YAML: {}", stderr(&both));

    let alone = solve(&list, &[]);
    assert_eq!(alone.status.code(), Some(1), "as JSON: {}", stderr(&alone));
    assert!(
        stderr(&alone).contains("800 of 800 pods have no place"),
        "{}",
        stderr(&alone)
    );
    let several = solve(
        &format!("{list}\n{}", json!({"kind": "Node", "metadata": {"name": "n"}})),
        &[],
    );
    assert_eq!(
        several.status.code(),
        Some(1),
        "two of JSON: {}",
        stderr(&several)
    );
}

#[test]
fn more_pods_than_a_plan_is_for_are_refused_with_the_workload_and_the_maximum() {
    let template = "selector: {}, template: {spec: {containers: [{name: c}]}}";
    for (kind, field) in [
        ("Deployment", "replicas"),
        ("StatefulSet", "replicas"),
        ("Job", "parallelism"),
    ] {
        let workload = |name: &str, number: &str| {
            format!(
                "{{kind: {kind}, metadata: {{name: {name}}}, spec: {{{field}: {number}, {template}}}}}\n---\n"
            )
        };
        let named = format!("{kind} web: spec.{field}");
        refused(&workload("web", "2000000000"), &[&named, "2000000000", "100000"]);
        let together = workload("other", "1") + &workload("web", "100000");
        refused(&together, &[&named, "100001"]);
    }
}

#[test]
fn what_is_written_twice_is_refused_with_both_places() {
    let pod = pod("a", "");
    refused(
        &format!("{pod}{pod}"),
        &["document 2, Pod a: ", "in /", "document 1, Pod a"],
    );
    refused(
        &format!("{POOL}{CLASS}{POOL}"),
        &["document 3, NodePool default: ", "document 1, NodePool default"],
    );
    let item = "{kind: Pod, metadata: {name: a}}";
    refused(
        &format!("{{kind: List, items: [{item}, {item}]}}"),
        &["item 2, Pod a: ", "item 1, Pod a"],
    );
    let set = "{kind: StatefulSet, metadata: {name: a}, spec: {selector: {}, template: {}}}";
    refused(
        &format!("{set}\n---\n{{kind: Pod, metadata: {{name: a-0}}}}"),
        &["document 2, Pod a-0: ", "document 1, StatefulSet a"],
    );
}

#[test]
fn what_has_one_name_in_several_namespaces_or_kinds_is_there_each_time() {
    let template =
        "selector: {}, template: {spec: {containers: [{name: c, resources: {requests: {cpu: \"1\"}}}]}}";
    let workload = |kind: &str, namespace: &str| {
        format!(
            "{{kind: {kind}, metadata: {{name: web, namespace: {namespace}}}, spec: {{{template}}}}}\n---\n"
        )
    };
    let three = workload("Deployment", "a") + &workload("StatefulSet", "a") + &workload("Deployment", "b");
    let output = solve(&three, &[]);
    assert!(
        stderr(&output).contains("3 of 3 pods have no place"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn a_change_is_looked_for_for_the_first_kinds_of_pods_without_a_place_and_the_others_are_counted() {
    let big = |at: usize| {
        let cpu = 2000 + at;
        pod(&format!("p{at}"), "").replace("cpu: \"3\"", &format!("cpu: \"{cpu}\""))
    };
    let pods: String = (0..23).map(big).collect();
    let output = solve(&format!("{POOL}{CLASS}{pods}"), &[]);
    let said = stdout(&output);
    assert_eq!(said.matches("no place for ").count(), 23, "{said}");
    assert_eq!(
        said.matches("to get in at NodePool default: ").count(),
        20,
        "{said}"
    );
    assert!(
        said.ends_with("what would let in pods of 3 more kinds was not looked at"),
        "{said}"
    );
}

#[test]
fn fewer_values_than_a_pool_asks_for_will_do_if_the_policy_says_so() {
    let asked =
        "{key: node.kubernetes.io/instance-type, operator: In, values: [cxf-2x4, cxf-4x8], minValues: 2}";
    let pool = POOL.replace("requirements: [", &format!("requirements: [{asked}, "));
    let text = format!("{pool}{CLASS}{}", pod("a", ""));
    let strict = solve(&text, &[]);
    assert_eq!(strict.status.code(), Some(1), "{}", stdout(&strict));
    assert!(
        stdout(&strict).contains("minValues asks for 2"),
        "{}",
        stdout(&strict)
    );
    let relaxed = solve(&text, &["--min-values-policy", "BestEffort"]);
    assert!(relaxed.status.success(), "{}", stderr(&relaxed));
    assert!(stdout(&relaxed).contains("cxf-4x8"), "{}", stdout(&relaxed));
}

#[test]
fn a_volume_where_nothing_is_sold_is_named_as_the_reason() {
    let volume = "{apiVersion: v1, kind: PersistentVolume, metadata: {name: v}, spec: {capacity: {storage: 1Gi}, \
                  accessModes: [ReadWriteOnce], csi: {driver: d, volumeHandle: v}, \
                  claimRef: {namespace: default, name: c}, nodeAffinity: {required: {nodeSelectorTerms: \
                  [{matchExpressions: [{key: topology.kubernetes.io/zone, operator: In, values: [eu-de-1]}]}]}}}, \
                  status: {phase: Bound}}\n---\n\
                  {apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: c, \
                  annotations: {pv.kubernetes.io/bind-completed: \"yes\"}}, \
                  spec: {volumeName: v, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}, \
                  status: {phase: Bound}}\n---\n";
    let mounts = ", volumes: [{name: v, persistentVolumeClaim: {claimName: c}}]";
    let output = solve(&format!("{POOL}{CLASS}{volume}{}", pod("a", mounts)), &[]);
    let said = stdout(&output);
    assert!(
        said.contains("NodePool default: its volumes need label topology.kubernetes.io/zone in [eu-de-1]"),
        "{said} {}",
        stderr(&output)
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
