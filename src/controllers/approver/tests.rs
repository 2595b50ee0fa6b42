use k8s_openapi::ByteString;
use proptest::prelude::*;
use serde_json::Value;

use super::*;
use crate::sim::kube::certificates::request::write;
use crate::sim::kube::identity::Keys;
use crate::sim::kube::identity::keys::Key;

const JOINER: &str = "system:serviceaccount:karpenter-ibm:karpenter-ibm-joiner";

/// The request of a kubelet of that name.
fn asked_as(node: &str) -> CertificateSigningRequest {
    with_request(&write(&key(), node, &["system:nodes"], &[]))
}

fn asked() -> CertificateSigningRequest {
    asked_as("system:node:node-a")
}

fn key() -> Key {
    Key::new(Keys::Fixed, "a kubelet")
}

fn with_request(pem: &str) -> CertificateSigningRequest {
    let mut request: CertificateSigningRequest = serde_json::from_value(json!({
        "metadata": {"name": "node-csr-1", "uid": "csr-1", "creationTimestamp": "2026-11-16T10:04:00Z"},
        "spec": {
            "request": "", "signerName": SIGNER, "usages": ["digital signature", "client auth"], "username": JOINER,
            "groups": ["system:serviceaccounts", "system:authenticated"],
            "extra": {"authentication.kubernetes.io/credential-id": ["JTI=token-1"]},
        },
    }))
    .unwrap();
    request.spec.request = ByteString(pem.as_bytes().to_vec());
    request
}

/// A claim whose machine runs and has not joined, in its second attempt.
fn claim() -> NodeClaim {
    claim_with(&json!({}))
}

fn claim_with(metadata: &Value) -> NodeClaim {
    let mut claim = json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": {"name": "node-a", "uid": "claim-1"},
        "spec": {"requirements": [], "nodeClassRef": {"group": "karpenter-ibm.sh", "kind": "IBMNodeClass", "name": "c"}},
        "status": {
            "providerID": "ibm:///us-south/0717_a",
            "allocation": {
                "profile": "bxf-2x8", "zone": "us-south-1", "capacityType": "spot", "subnet": "s", "instanceName": "i",
                "attempt": 2, "since": "2026-11-16T10:00:00Z",
                "credentials": [{"attempt": 1, "jti": "token-0"}, {"attempt": 2, "jti": "token-1"}],
            },
            "conditions": [condition("Launched")],
        },
    });
    for (field, value) in metadata.as_object().unwrap() {
        claim["metadata"][field] = value.clone();
    }
    serde_json::from_value(claim).unwrap()
}

fn condition(name: &str) -> Value {
    json!({"type": name, "status": "True", "lastTransitionTime": "2026-11-16T10:02:00Z"})
}

fn registered() -> NodeClaim {
    let mut claim = claim();
    let conditions = json!([condition("Launched"), condition("Registered")]);
    claim.status.as_mut().unwrap().conditions = serde_json::from_value(conditions).unwrap();
    claim
}

fn judge(request: &CertificateSigningRequest, claim: Option<&NodeClaim>, node: NodeThere) -> Verdict {
    let subject = &subject(request);
    let seen = Seen { subject, claim, node };
    match requester(request, JOINER) {
        Some(requester) => decide(request, &requester, &seen),
        None => Verdict::Leave,
    }
}

fn judged(request: &CertificateSigningRequest) -> Verdict {
    judge(request, Some(&claim()), NodeThere::Absent)
}

fn approved() -> Verdict {
    Verdict::Approve(Grounds::Join {
        jti: "token-1".to_owned(),
    })
}

#[test]
fn the_machine_that_a_claim_waits_for_gets_its_certificate() {
    assert_eq!(judged(&asked()), approved());
    let mut rsa = asked();
    let usages = ["key encipherment", "digital signature", "client auth"];
    rsa.spec.usages = Some(usages.map(str::to_owned).to_vec());
    assert_eq!(judged(&rsa), approved());
}

#[test]
fn a_machine_that_is_faster_than_we_see_it_run_waits() {
    let mut early = claim();
    early.status.as_mut().unwrap().conditions = None;
    assert_eq!(judge(&asked(), Some(&early), NodeThere::Absent), Verdict::Wait);
}

#[test]
fn a_credential_is_good_for_one_request() {
    let used = |mark: &str| claim_with(&json!({"annotations": {names::CERTIFICATE_REQUEST: mark}}));
    let first = used("token-1/csr-1");
    assert_eq!(
        judge(&asked(), Some(&first), NodeThere::Absent),
        approved(),
        "after a crash"
    );
    let mut second = asked();
    second.metadata.uid = Some("csr-2".to_owned());
    let verdict = judge(&second, Some(&first), NodeThere::Absent);
    assert_eq!(verdict, Verdict::Deny(Denial::Used));
    // The same request made anew once the first is gone is another one.
    let verdict = judge(&asked(), Some(&used("token-1/csr-0")), NodeThere::Absent);
    assert_eq!(verdict, Verdict::Deny(Denial::Used));
    let earlier = used("token-0/csr-0");
    assert_eq!(judge(&asked(), Some(&earlier), NodeThere::Absent), approved());
}

#[test]
fn a_request_for_another_name_is_denied() {
    let verdict = judge(&asked_as("system:node:node-b"), None, NodeThere::Absent);
    assert_eq!(verdict, Verdict::Deny(Denial::NoClaim("node-b".to_owned())));
    let mut other = claim_with(&json!({"name": "node-b"}));
    let allocation = other.status.as_mut().unwrap().allocation.as_mut().unwrap();
    allocation.credentials.as_mut().unwrap()[1].jti = "token-2".to_owned();
    let verdict = judge(&asked_as("system:node:node-b"), Some(&other), NodeThere::Absent);
    assert_eq!(
        verdict,
        Verdict::Deny(Denial::OtherCredential),
        "one claim's credential, another's name"
    );
}

#[test]
fn a_node_that_is_there_is_not_replaced() {
    let verdict = judge(&asked(), Some(&claim()), NodeThere::Present);
    assert_eq!(verdict, Verdict::Wait, "until what was left behind is gone");
    for node in [NodeThere::Absent, NodeThere::Present] {
        let verdict = judge(&asked(), Some(&registered()), node);
        assert_eq!(verdict, Verdict::Deny(Denial::Joined));
    }
}

#[test]
fn more_than_the_certificate_of_one_node_is_denied() {
    let malformed = |malformed| Verdict::Deny(Denial::Malformed(malformed));
    let name = "system:node:node-a";
    let table: [(&str, &[&str], &[&str], Malformed); 7] = [
        (name, &["system:nodes"], &["node-a.example"], Malformed::Extras),
        (name, &["system:nodes"], &["10.0.0.1"], Malformed::Extras),
        (name, &["system:masters"], &[], Malformed::Subject),
        (name, &["system:nodes", "system:masters"], &[], Malformed::Subject),
        (name, &[], &[], Malformed::Subject),
        ("system:node:", &["system:nodes"], &[], Malformed::Subject),
        ("jane", &["system:nodes"], &[], Malformed::Subject),
    ];
    for (name, groups, names, expected) in table {
        let request = with_request(&write(&key(), name, groups, names));
        assert_eq!(
            judged(&request),
            malformed(expected),
            "{name} {groups:?} {names:?}"
        );
    }
}

#[test]
fn a_text_that_is_more_than_one_request_is_denied() {
    let good = write(&key(), "system:node:node-a", &["system:nodes"], &[]);
    let texts = [
        format!("{good}{good}"),
        format!("x\n{good}"),
        format!("{good}x"),
        good.replace(" REQUEST", ""),
        String::new(),
    ];
    for text in texts {
        let verdict = judged(&with_request(&text));
        assert_eq!(
            verdict,
            Verdict::Deny(Denial::Malformed(Malformed::Pem)),
            "{text}"
        );
    }
}

#[test]
fn other_uses_are_denied() {
    for usages in [&["server auth", "digital signature"][..], &["client auth"], &[]] {
        let mut request = asked();
        request.spec.usages = Some(usages.iter().map(|&it| it.to_owned()).collect());
        assert_eq!(judged(&request), Verdict::Deny(Denial::Usages), "{usages:?}");
    }
}

#[test]
fn other_signers_other_users_and_what_is_decided_are_left_alone() {
    let mut signer = asked();
    signer.spec.signer_name = "kubernetes.io/kubelet-serving".to_owned();
    assert_eq!(judged(&signer), Verdict::Leave);
    for user in [
        "jane",
        "system:serviceaccount:other:karpenter-ibm-joiner",
        "system:node:node-a",
    ] {
        let mut request = asked();
        request.spec.username = Some(user.to_owned());
        assert_eq!(judged(&request), Verdict::Leave, "{user}");
    }
    let mut decided = asked();
    let denied = json!({"conditions": [{"type": "Denied", "status": "True"}]});
    decided.status = serde_json::from_value(denied).unwrap();
    assert_eq!(judged(&decided), Verdict::Leave);
}

#[test]
fn a_claim_that_goes_gets_no_node() {
    let going = claim_with(&json!({"deletionTimestamp": "2026-11-16T10:05:00Z"}));
    let verdict = judge(&asked(), Some(&going), NodeThere::Absent);
    assert_eq!(verdict, Verdict::Deny(Denial::ClaimLeaves));
}

#[test]
fn a_credential_of_another_cluster_another_attempt_or_none_is_denied() {
    let table = [
        (json!(["JTI=elsewhere"]), Denial::OtherCredential),
        (json!(["JTI=token-0"]), Denial::EarlierAttempt(1)),
        (json!(["JTI="]), Denial::NoCredential),
        (json!(["X509SHA256=token-1"]), Denial::NoCredential),
        (json!(["JTI=token-1", "JTI=token-1"]), Denial::NoCredential),
        (json!([]), Denial::NoCredential),
    ];
    for (ids, expected) in table {
        let mut request = asked();
        let extra = json!({"authentication.kubernetes.io/credential-id": ids});
        request.spec.extra = serde_json::from_value(extra).unwrap();
        assert_eq!(judged(&request), Verdict::Deny(expected), "{ids}");
    }
    let mut nothing = claim();
    nothing.status.as_mut().unwrap().allocation = None;
    let verdict = judge(&asked(), Some(&nothing), NodeThere::Absent);
    assert_eq!(verdict, Verdict::Deny(Denial::OtherCredential));
}

fn renewal(user: &str, subject: &str) -> CertificateSigningRequest {
    let mut request = asked_as(subject);
    request.spec.username = Some(user.to_owned());
    request.spec.groups = Some(vec!["system:nodes".to_owned()]);
    request.spec.extra = None;
    request
}

#[test]
fn a_node_of_ours_renews_its_own_certificate_and_no_other() {
    let own = renewal("system:node:node-a", "system:node:node-a");
    let verdict = |request, claim: &NodeClaim| judge(request, Some(claim), NodeThere::Present);
    assert_eq!(verdict(&own, &registered()), Verdict::Approve(Grounds::Renewal));
    let others = renewal("system:node:node-a", "system:node:node-b");
    assert_eq!(
        verdict(&others, &registered()),
        Verdict::Deny(Denial::OtherCredential)
    );
    assert_eq!(verdict(&own, &claim()), Verdict::Leave, "not yet ours");
    let strange = judge(&own, None, NodeThere::Present);
    assert_eq!(strange, Verdict::Leave, "a node of somebody else");
}

proptest! {
    /// However a request is bent, it is denied, or it is the request of the same node still.
    #[test]
    fn only_the_canonical_form_is_approved(at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let request = asked();
        let mut bent = request.clone();
        let bytes = &mut bent.spec.request.0;
        let at = at.index(bytes.len());
        bytes[at] = byte;
        let verdict = judged(&bent);
        let denied = matches!(verdict, Verdict::Deny(Denial::Malformed(_)));
        let same = subject(&bent) == subject(&request);
        prop_assert!(denied || (same && verdict == approved()), "{verdict:?}");
    }

    /// Of all that can be asked for in good order, one thing is approved.
    #[test]
    fn one_subject_one_group_no_more_names_and_the_uses_of_a_client_are_approved_and_nothing_else(
        name in prop::sample::select(vec!["system:node:node-a", "system:node:node-b", "system:node:", "node-a", "system:masters"]),
        groups in prop::sample::subsequence(vec!["system:nodes", "system:masters", "system:authenticated"], 0..=3),
        names in prop::sample::subsequence(vec!["node-a", "10.0.0.1"], 0..=2),
        usages in prop::sample::subsequence(vec!["client auth", "digital signature", "key encipherment", "server auth"], 0..=4),
    ) {
        let mut request = with_request(&write(&key(), name, &groups, &names));
        request.spec.usages = Some(usages.iter().map(|&it| it.to_owned()).collect());
        let claim = claim();
        let theirs = subject(&request).is_ok_and(|node| node == claim.name_any()).then_some(&claim);
        let verdict = judge(&request, theirs, NodeThere::Absent);
        let canonical = name == "system:node:node-a"
            && groups == ["system:nodes"]
            && names.is_empty()
            && usages.starts_with(&["client auth", "digital signature"])
            && !usages.contains(&"server auth");
        prop_assert_eq!(verdict == approved(), canonical, "{:?}", verdict);
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let mut request = asked();
        request.spec.request = ByteString(bytes);
        prop_assert!(matches!(judged(&request), Verdict::Deny(_)));
    }
}

#[test]
fn a_request_that_waits_is_looked_at_less_often_the_longer_it_has_waited() {
    let seconds = |age| again(Duration::from_secs(age)).as_secs();
    assert_eq!([0, 20, 60, 300, 6000].map(seconds), [2, 2, 6, 30, 60]);
}

#[test]
fn a_request_of_the_future_is_new() {
    let mut request = asked();
    let now: Timestamp = "2026-11-16T10:00:00Z".parse().unwrap();
    let made_at = |text: &str| {
        Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(
            text.parse().unwrap(),
        ))
    };
    request.metadata.creation_timestamp = made_at("2026-11-16T09:59:00Z");
    assert_eq!(age(&request, now), Duration::from_mins(1));
    request.metadata.creation_timestamp = made_at("2026-11-16T10:01:00Z");
    assert_eq!(age(&request, now), Duration::ZERO);
}
