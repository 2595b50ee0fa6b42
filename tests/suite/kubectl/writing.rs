//! Verbs that write: apply, create, delete, scale, label, annotate, replace, set, diff.

use serde_json::json;

use super::cluster::Cluster;
use super::{NODE, WIDGET, WIDGETS};

#[test]
fn apply_creates_then_changes_then_leaves_alone() {
    let cluster = Cluster::start();
    assert_eq!(
        cluster.apply(WIDGETS),
        "customresourcedefinition.apiextensions.k8s.io/widgets.example.com created\n"
    );
    assert_eq!(cluster.apply(WIDGET), "widget.example.com/a created\n");
    assert_eq!(cluster.apply(WIDGET), "widget.example.com/a unchanged\n");
    assert_eq!(
        cluster.apply(&WIDGET.replace("small", "large")),
        "widget.example.com/a configured\n"
    );
    assert_eq!(cluster.json("get wd a")["spec"]["size"], "large");
    let deployment = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: a, image: 'x:1'}, {name: b, image: 'y:1'}]}
";
    assert_eq!(cluster.apply(deployment), "deployment.apps/web created\n");
    assert_eq!(cluster.apply(deployment), "deployment.apps/web unchanged\n");
    let changed = deployment
        .replace("y:1", "y:2")
        .replace("{name: a, image: 'x:1'}, ", "");
    assert_eq!(cluster.apply(&changed), "deployment.apps/web configured\n");
    let containers = &cluster.json("get deploy web")["spec"]["template"]["spec"]["containers"];
    assert_eq!(
        (containers.as_array().unwrap().len(), &containers[0]["image"]),
        (1, &json!("y:2"))
    );
}

#[test]
fn apply_on_the_server_refuses_to_take_fields_of_others_unless_forced() {
    let cluster = Cluster::start();
    cluster.apply(WIDGETS);
    let (small, large) = (
        cluster.manifest(WIDGET),
        cluster.manifest(&WIDGET.replace("small", "large")),
    );
    assert_eq!(
        cluster.kubectl(&format!("apply --server-side --field-manager=one -f {small}")),
        "widget.example.com/a serverside-applied\n"
    );
    let complaint = cluster.refused(&format!("apply --server-side --field-manager=two -f {large}"));
    assert!(
        complaint.contains("conflict with \"one\": .spec.size"),
        "{complaint}"
    );
    cluster.kubectl(&format!(
        "apply --server-side --force-conflicts --field-manager=two -f {large}"
    ));
    assert_eq!(cluster.json("get wd a")["spec"]["size"], "large");
}

#[test]
fn apply_of_what_is_not_valid_says_what_is_wrong_with_it() {
    let cluster = Cluster::start();
    cluster.apply(WIDGETS);
    let unknown = cluster.manifest(&WIDGET.replace("size: small", "sizes: small"));
    let complaint = cluster.refused(&format!("apply -f {unknown}"));
    assert!(complaint.contains("unknown field \"spec.sizes\""), "{complaint}");
    let invalid = cluster.manifest(&WIDGET.replace("small", "huge"));
    let complaint = cluster.refused(&format!("apply -f {invalid}"));
    assert!(
        complaint.contains("spec.size: Unsupported value: \"huge\""),
        "{complaint}"
    );
}

#[test]
fn create_sends_what_typed_clients_send_and_the_server_reads_it() {
    let cluster = Cluster::start();
    cluster.kubectl("create namespace n");
    cluster.kubectl("create deployment web --image=nginx:1 --replicas=0 -n n");
    cluster.kubectl("create configmap c --from-literal=k=v -n n");
    cluster.kubectl("create secret generic s --from-literal=k=v -n n");
    cluster.kubectl("create serviceaccount sa -n n");
    cluster.kubectl("create clusterrole r --verb=get --resource=pods");
    cluster.kubectl("create poddisruptionbudget p --selector=app=web --min-available=50% -n n");
    assert_eq!(cluster.json("get deploy web -n n")["spec"]["replicas"], 0);
    assert_eq!(cluster.json("get secret s -n n")["data"]["k"], "dg==");
    assert_eq!(cluster.json("get pdb p -n n")["spec"]["minAvailable"], "50%");
    assert!(cluster.kubectl("create token sa -n n").starts_with("ey"));
    assert!(cluster.refused("create namespace n").contains("AlreadyExists"));
}

#[test]
fn delete_waits_until_the_object_is_gone() {
    let cluster = Cluster::start();
    cluster.apply(WIDGETS);
    cluster.apply(&WIDGET.replace("name: a", "name: a, finalizers: [example.com/hold]"));
    cluster.apply(&WIDGET.replace("name: a", "name: b, labels: {x: z}"));
    // Newer releases go on with the namespace.
    let printed = cluster.kubectl("delete wd -l x=z");
    assert!(
        printed.starts_with("widget.example.com \"b\" deleted"),
        "{printed}"
    );
    let deletion = cluster.begin("delete wd a");
    cluster.kubectl("wait --for=jsonpath={.metadata.deletionTimestamp} wd a --timeout=10s");
    cluster.kubectl("patch wd a --type=json -p '[{\"op\": \"remove\", \"path\": \"/metadata/finalizers\"}]'");
    assert!(deletion.succeeds());
    assert_eq!(cluster.kubectl("get wd -o name"), "");
    cluster.kubectl("create ns n");
    cluster.kubectl("create cm c -n n");
    cluster.kubectl("delete ns n");
    assert!(cluster.refused("get ns n").contains("not found"));
    assert!(cluster.refused("delete wd a").contains("NotFound"));
    assert_eq!(cluster.kubectl("delete wd a --ignore-not-found"), "");
}

#[test]
fn scale_changes_the_replicas_of_built_in_and_custom_kinds() {
    let cluster = Cluster::start();
    cluster.apply(WIDGETS);
    cluster.apply(WIDGET);
    cluster.kubectl("create deployment web --image=nginx:1");
    assert_eq!(
        cluster.kubectl("scale deploy web --replicas=3"),
        "deployment.apps/web scaled\n"
    );
    assert_eq!(cluster.json("get deploy web")["spec"]["replicas"], 3);
    cluster.kubectl("scale wd a --replicas=5 --current-replicas=1");
    assert_eq!(cluster.json("get wd a")["spec"]["replicas"], 5);
    assert!(
        cluster
            .refused("scale wd a --replicas=6 --current-replicas=1")
            .contains("Expected replicas to be 1")
    );
}

#[test]
fn label_and_annotate_add_change_and_remove() {
    let cluster = Cluster::start();
    cluster.apply(WIDGETS);
    cluster.apply(WIDGET);
    cluster.apply(NODE);
    for (object, name) in [("wd a", "widget.example.com/a"), ("node node-a", "node/node-a")] {
        assert_eq!(
            cluster.kubectl(&format!("label {object} x=1")),
            format!("{name} labeled\n")
        );
        assert!(
            cluster
                .refused(&format!("label {object} x=2"))
                .contains("already has a value (1)")
        );
        cluster.kubectl(&format!("label {object} x=2 --overwrite"));
        assert_eq!(
            cluster.kubectl(&format!("annotate {object} note=seen")),
            format!("{name} annotated\n")
        );
        let metadata = &cluster.json(&format!("get {object}"))["metadata"];
        assert_eq!(
            (&metadata["labels"]["x"], &metadata["annotations"]["note"]),
            (&json!("2"), &json!("seen"))
        );
        cluster.kubectl(&format!("label {object} x-"));
        assert_eq!(
            cluster.json(&format!("get {object}"))["metadata"]["labels"]["x"],
            json!(null)
        );
    }
    assert!(
        cluster
            .refused("label node node-a x=no/slash")
            .contains("a valid label must be")
    );
}

#[test]
fn replace_set_and_diff_work_on_what_get_gives() {
    let cluster = Cluster::start();
    cluster.apply(WIDGETS);
    cluster.apply(WIDGET);
    let shown = cluster.kubectl("get wd a -o yaml");
    let changed = cluster.manifest(&shown.replace("size: small", "size: large"));
    let (difference, _, same) = cluster.run(&format!("diff -f {changed}"));
    assert!(!same && difference.contains("+  size: large"), "{difference}");
    assert_eq!(cluster.json("get wd a")["spec"]["size"], "small");
    assert_eq!(
        cluster.kubectl(&format!("replace -f {changed}")),
        "widget.example.com/a replaced\n"
    );
    assert!(
        cluster
            .refused(&format!("replace -f {changed}"))
            .contains("the object has been modified")
    );
    cluster.kubectl("create deployment web --image=nginx:1");
    assert_eq!(
        cluster.kubectl("set image deploy web nginx=nginx:2"),
        "deployment.apps/web image updated\n"
    );
    assert_eq!(cluster.kubectl("get deploy web -o jsonpath={..image}"), "nginx:2");
    assert_eq!(
        cluster.kubectl("create cm c --dry-run=server -o name"),
        "configmap/c\n"
    );
    assert!(cluster.refused("get cm c").contains("not found"));
}
