//! What somebody may do, and what a webhook says to it.

use serde_json::json;

use super::cluster::Cluster;
use super::{WIDGET, WIDGETS};

#[test]
fn auth_can_i_answers_by_the_roles_that_there_are() {
    let cluster = Cluster::start();
    assert_eq!(cluster.kubectl("auth can-i delete nodes"), "yes\n");
    assert!(cluster.kubectl("auth whoami").contains("kubernetes-admin"));
    cluster.kubectl("create serviceaccount reader");
    cluster.kubectl("create role read --verb=get,list --resource=pods");
    cluster.kubectl("create rolebinding read --role=read --serviceaccount=default:reader");
    let somebody = "--as=system:serviceaccount:default:reader";
    assert_eq!(
        cluster.kubectl(&format!("auth can-i list pods {somebody}")),
        "yes\n"
    );
    let (answer, _, success) = cluster.run(&format!("auth can-i delete pods {somebody}"));
    assert_eq!((answer.as_str(), success), ("no\n", false));
    let complaint = cluster.refused(&format!("delete pod p {somebody}"));
    assert!(
        complaint.contains("cannot delete resource \"pods\" in API group \"\" in the namespace \"default\""),
        "{complaint}"
    );
    assert!(
        cluster
            .kubectl(&format!("auth can-i --list {somebody}"))
            .contains("[get list]")
    );
}

#[test]
fn what_a_webhook_says_reaches_the_terminal() {
    use axum::Json;
    use axum::routing::post;
    use serde_json::Value;
    let cluster = Cluster::start();
    cluster.apply(WIDGETS);
    let answer = |Json(review): Json<Value>| async move {
        let large = review["request"]["object"]["spec"]["size"] == "large";
        let response = json!({"uid": review["request"]["uid"], "allowed": !large, "warnings": ["small is out of fashion"],
                              "status": {"code": 403, "message": "too large"}});
        Json(json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "response": response}))
    };
    cluster
        .server
        .webhooks()
        .serve_service("default", "judge", axum::Router::new().route("/", post(answer)));
    cluster.apply(
        "
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: judge}
webhooks:
- name: judge.example.com
  admissionReviewVersions: [v1]
  sideEffects: None
  clientConfig: {service: {namespace: default, name: judge}}
  rules: [{apiGroups: [example.com], apiVersions: ['*'], resources: [widgets], operations: [CREATE]}]
",
    );
    let (small, large) = (
        cluster.manifest(WIDGET),
        cluster.manifest(&WIDGET.replace("small", "large")),
    );
    let complaint = cluster.refused(&format!("create -f {large}"));
    assert!(
        complaint.contains("admission webhook \"judge.example.com\" denied the request: too large"),
        "{complaint}"
    );
    let (_, said, success) = cluster.run(&format!("create -f {small}"));
    assert!(
        success && said.contains("Warning: small is out of fashion"),
        "{said}"
    );
}
