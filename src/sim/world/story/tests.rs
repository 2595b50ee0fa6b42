use bytes::Bytes;
use http::Method;

use super::*;
use crate::sim::history::Edge;

const REPLICA: Who = Who::Replica { number: 0, life: 0 };

fn asked(who: &Who, edge: Edge, method: Method, target: &str, body: &str) -> Entry {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    Entry {
        at: Duration::from_millis(63_500),
        who: who.clone(),
        what: What::Request(Request {
            number: 1,
            edge,
            method,
            path: path.to_owned(),
            query: query.to_owned(),
            hash: 0,
            body: Bytes::copy_from_slice(body.as_bytes()),
        }),
    }
}

fn answered(who: &Who, status: Option<u16>, carried_out: CarriedOut, body: &str) -> Entry {
    Entry {
        at: Duration::from_secs(64),
        who: who.clone(),
        what: What::Answer(Answer {
            number: 1,
            carried_out,
            status,
            retry_after: None,
            hash: 0,
            body: Bytes::copy_from_slice(body.as_bytes()),
        }),
    }
}

fn told(who: &Who, edge: Edge, method: Method, target: &str, body: &str) -> Vec<String> {
    let done = answered(who, Some(200), CarriedOut::Yes, "{}");
    tell(&[asked(who, edge, method, target, body), done])
}

#[test]
fn an_order_whose_answer_is_lost_says_both() {
    let body = r#"{"name":"kib-1","profile":{"name":"bxf-4x16"},"zone":{"name":"us-south-1"}}"#;
    let order = asked(&REPLICA, Edge::Cloud, Method::POST, "/v1/instances", body);
    let lost = answered(&REPLICA, None, CarriedOut::Yes, "");
    assert_eq!(
        tell(&[order, lost]),
        [
            "  1:04.000  replica 0 orders machine kib-1: bxf-4x16 in us-south-1; the answer is lost, though it was done"
        ]
    );
}

#[test]
fn a_machine_found_by_its_name_is_told_and_a_search_in_vain_is_not() {
    let look = || {
        asked(
            &REPLICA,
            Edge::Cloud,
            Method::GET,
            "/v1/instances?limit=1&name=kib-1",
            "",
        )
    };
    let found = r#"{"instances":[{"id":"0717_a","status":"running"}]}"#;
    let found = answered(&REPLICA, Some(200), CarriedOut::Yes, found);
    assert_eq!(
        tell(&[look(), found]),
        ["  1:04.000  replica 0 finds machine kib-1 by its name: 0717_a, running"]
    );
    let none = answered(&REPLICA, Some(200), CarriedOut::Yes, r#"{"instances":[]}"#);
    assert!(tell(&[look(), none]).is_empty());
}

#[test]
fn the_steps_of_a_claim_are_told_apart() {
    let claim = "/apis/karpenter.sh/v1/nodeclaims/a";
    let status = "/apis/karpenter.sh/v1/nodeclaims/a/status";
    let cases = [
        (
            claim,
            r#"{"metadata":{"finalizers":["karpenter.sh/termination"]}}"#,
            "takes nodeclaims/a into its care",
        ),
        (claim, r#"{"metadata":{"finalizers":[]}}"#, "lets nodeclaims/a go"),
        (
            claim,
            r#"[{"op":"test","path":"/metadata/finalizers/0"},{"op":"remove","path":"/metadata/finalizers/0"}]"#,
            "lets nodeclaims/a go",
        ),
        (
            status,
            r#"{"status":{"allocation":{"profile":"p","zone":"z"}}}"#,
            "means to buy p in z for nodeclaims/a",
        ),
        (
            status,
            r#"{"status":{"allocation":{"profile":"p","zone":"z","instanceID":"i"}}}"#,
            "writes down that nodeclaims/a holds machine i",
        ),
        (
            status,
            r#"{"status":{"providerID":"ibm:///r/i","conditions":[{"type":"Launched","status":"True"}]}}"#,
            "says that nodeclaims/a is launched as ibm:///r/i (Launched)",
        ),
    ];
    for (target, body, sentence) in cases {
        let lines = told(&REPLICA, Edge::Kube, Method::PATCH, target, body);
        assert_eq!(lines, [format!("  1:04.000  replica 0 {sentence}")]);
    }
}

#[test]
fn a_refusal_and_a_lie_are_told() {
    let claim = "/apis/karpenter.sh/v1/nodeclaims/a";
    let delete = || asked(&REPLICA, Edge::Kube, Method::DELETE, claim, "");
    let refused = answered(&REPLICA, Some(409), CarriedOut::Yes, "");
    assert!(tell(&[delete(), refused])[0].ends_with("deletes nodeclaims/a; refused with 409"));
    let lie = answered(&REPLICA, Some(500), CarriedOut::Yes, "");
    assert!(tell(&[delete(), lie])[0].ends_with("; told 500, though it was done"));
    let lost = answered(&REPLICA, None, CarriedOut::No, "");
    assert!(tell(&[delete(), lost])[0].ends_with("; it is lost on the way"));
}

#[test]
fn leases_reads_and_statuses_of_others_go_untold() {
    let kubelet = Who::Actor("kubelet");
    let lease = "/apis/coordination.k8s.io/v1/namespaces/x/leases/a";
    assert!(told(&REPLICA, Edge::Kube, Method::PUT, lease, "{}").is_empty());
    assert!(told(&REPLICA, Edge::Kube, Method::GET, "/api/v1/pods", "").is_empty());
    assert!(
        told(
            &kubelet,
            Edge::Kube,
            Method::PATCH,
            "/api/v1/nodes/a/status",
            "{}"
        )
        .is_empty()
    );
    let node = r#"{"metadata":{"name":"a"}}"#;
    assert_eq!(
        told(&kubelet, Edge::Kube, Method::POST, "/api/v1/nodes", node),
        ["  1:04.000  the kubelet registers node a"]
    );
}

#[test]
fn a_later_life_is_named() {
    let life = Who::Replica { number: 1, life: 2 };
    let entry = Entry {
        at: Duration::from_secs(1),
        who: life,
        what: What::Turn("crashed after effect 3".to_owned()),
    };
    assert_eq!(
        tell(&[entry]),
        ["  0:01.000  replica 1 (life 3) crashed after effect 3"]
    );
}

#[test]
fn what_is_refused_again_and_again_is_told_once_and_a_violation_in_its_place() {
    let evict = |number: u64| {
        let mut entries = [
            asked(
                &REPLICA,
                Edge::Kube,
                Method::POST,
                &format!("/api/v1/namespaces/shop/pods/web-{}/eviction", number % 31),
                "{}",
            ),
            answered(&REPLICA, Some(404), CarriedOut::Yes, ""),
        ];
        for entry in &mut entries {
            entry.at = Duration::from_secs(10 * number);
            match &mut entry.what {
                What::Request(request) => request.number = number,
                What::Answer(answer) => answer.number = number,
                _ => {}
            }
        }
        entries
    };
    let entries: Vec<Entry> = (0..243).flat_map(evict).collect();
    let violation = |seconds: u64| Violation {
        id: "S9",
        at: Duration::from_secs(seconds),
        message: "a pod was evicted too early".to_owned(),
    };
    let violations: Vec<Violation> = (1..6).map(violation).collect();
    assert_eq!(
        tell_with(&entries, &violations),
        [
            "  0:00.000  replica 0 evicts pods/web-0; refused with 404",
            "  0:00.000  … 242 more like it until 40:20.000, 31 different ones in all",
            "  0:01.000  VIOLATED S9: a pod was evicted too early",
            "  0:01.000  … 4 times more until 0:05.000",
        ]
    );
}

#[test]
fn what_was_done_is_told_of_each_object_and_faults_are_alike_by_their_name() {
    let fault = |second: u64| Entry {
        at: Duration::from_secs(second),
        who: Who::World,
        what: What::Fault {
            name: "c18-page-loses-item",
            detail: format!("instances.list {second}"),
        },
    };
    let faults: Vec<Entry> = (0..9).map(fault).collect();
    assert_eq!(tell(&faults).len(), 2);
    let claim = |number: u64| {
        let path = format!("/apis/karpenter.sh/v1/nodeclaims/a-{number}");
        let mut asked = asked(&REPLICA, Edge::Kube, Method::DELETE, &path, "");
        asked.at = Duration::from_secs(64);
        [asked, answered(&REPLICA, Some(200), CarriedOut::Yes, "{}")]
    };
    let deleted: Vec<Entry> = (0..9).flat_map(claim).collect();
    assert_eq!(tell(&deleted).len(), 9);
}
