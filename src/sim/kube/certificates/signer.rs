//! The signers of a cluster: which approved requests they fulfil, and how.
//!
//! On a real cluster the controller manager does this a moment after the approval; here the certificate is there
//! when the approval is answered, as a second write.

use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::request::Pkcs10;
use super::{Condition, conditions};
use crate::clock;
use crate::sim::kube::identity::authority::{Authority, Template, Usage};
use crate::sim::kube::identity::keys::pem;
use crate::sim::kube::kind::TableKey;
use crate::sim::kube::object;
use crate::sim::kube::server::ApiServer;
use crate::sim::kube::store::ObjectKey;

/// The longest that a certificate holds, and how long it does unless the request says otherwise:
/// `--cluster-signing-duration`.
const LIFETIME_MAX: Duration = Duration::from_hours(8760);
/// No certificate holds shorter.
const LIFETIME_MIN: Duration = Duration::from_mins(10);
/// Certificates begin to hold this long ago, for clocks that lag.
const BACKDATE: Duration = Duration::from_mins(5);
/// From this lifetime on the end is backdated too.
const SHORT: Duration = Duration::from_hours(8);

/// Who signs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Signer {
    /// Client certificates of kubelets.
    KubeletClient,
    /// Serving certificates of kubelets.
    KubeletServing,
    /// Client certificates of anybody.
    Client,
}

impl Signer {
    fn named(name: &str) -> Option<Self> {
        match name {
            "kubernetes.io/kube-apiserver-client-kubelet" => Some(Self::KubeletClient),
            "kubernetes.io/kubelet-serving" => Some(Self::KubeletServing),
            "kubernetes.io/kube-apiserver-client" => Some(Self::Client),
            _ => None,
        }
    }

    /// Why it does not sign such a request.
    fn objection(self, request: &Pkcs10, usages: &[&str]) -> Option<String> {
        match self {
            Self::Client => client_objection(usages),
            Self::KubeletClient | Self::KubeletServing => self.kubelet_objection(request, usages),
        }
    }

    fn kubelet_objection(self, request: &Pkcs10, usages: &[&str]) -> Option<String> {
        if request.organizations != ["system:nodes"] {
            return Some("subject organization is not system:nodes".to_owned());
        }
        let names = request.names;
        let serving = self == Self::KubeletServing;
        let unwanted = [
            (!serving && names.dns > 0, "DNS subjectAltNames are not allowed"),
            (names.email > 0, "Email subjectAltNames are not allowed"),
            (!serving && names.ip > 0, "IP subjectAltNames are not allowed"),
            (names.uri > 0, "URI subjectAltNames are not allowed"),
            (
                serving && names.dns + names.ip == 0,
                "DNS or IP subjectAltName is required",
            ),
            (
                !request.common_name.starts_with("system:node:"),
                "subject common name does not begin with system:node:",
            ),
        ];
        if let Some((_, why)) = unwanted.into_iter().find(|(is_so, _)| *is_so) {
            return Some(why.to_owned());
        }
        let purpose = if serving { "server auth" } else { "client auth" };
        let mut sorted = usages.to_vec();
        sorted.sort_unstable();
        sorted.dedup();
        let mut wanted = vec!["digital signature", "key encipherment", purpose];
        wanted.sort_unstable();
        let without: Vec<&str> = wanted
            .iter()
            .copied()
            .filter(|usage| *usage != "key encipherment")
            .collect();
        (sorted != wanted && sorted != without)
            .then(|| format!("usages did not match [{}]", wanted.join(" ")))
    }
}

fn client_objection(usages: &[&str]) -> Option<String> {
    let allowed = ["digital signature", "key encipherment", "client auth"];
    if let Some(other) = usages.iter().find(|usage| !allowed.contains(usage)) {
        return Some(format!("invalid usage for client certificate: {other}"));
    }
    (!usages.contains(&"client auth"))
        .then(|| "missing required usage for client certificate: client auth".to_owned())
}

/// Signs a request that was approved, if it is for one of the cluster's own signers and not signed yet.
pub fn fulfil(server: &ApiServer, name: &str) {
    let now = server.clock().now();
    let written = {
        let mut state = server.state();
        let table = TableKey::of("certificates.k8s.io", "certificatesigningrequests");
        let stored = state.store.get(&table, &ObjectKey::new("", name));
        let kind = state.registry.find(&table.group, "v1", &table.plural);
        let signed = stored.and_then(|stored| {
            let authority = &server.identity().authority;
            signed(authority, stored.value(), now)
        });
        kind.zip(signed)
            .map(|(kind, signed)| state.store.put(&kind, signed))
    };
    if written.is_some() {
        server.announce();
    }
}

/// The request with its certificate, or with the reason why it gets none. `None` if it is not its turn.
fn signed(authority: &Authority, mut csr: Value, now: Timestamp) -> Option<Value> {
    let signer = Signer::named(csr["spec"]["signerName"].as_str()?)?;
    let has = |condition: Condition| conditions(&csr, condition).any(|found| found["status"] == "True");
    let is_waiting = has(Condition::Approved) && !has(Condition::Denied) && !has(Condition::Failed);
    if !is_waiting || csr["status"]["certificate"].is_string() {
        return None;
    }
    let request = Pkcs10::of(&csr).ok()?;
    let usages: Vec<&str> = list(&csr["spec"]["usages"]).filter_map(Value::as_str).collect();
    if let Some(why) = signer.objection(&request, &usages) {
        let at = Timestamp::from_second(now.as_second()).unwrap_or(now).to_string();
        let failed = json!({"type": "Failed", "status": "True", "reason": "SignerValidationFailure",
                            "message": why, "lastUpdateTime": at, "lastTransitionTime": at});
        let all = csr["status"]["conditions"].as_array_mut()?;
        all.push(failed);
        return Some(csr);
    }
    let lifetime = lifetime(csr["spec"]["expirationSeconds"].as_u64());
    let backdated = now.checked_sub(BACKDATE).unwrap_or(now);
    let not_after = clock::later(if lifetime < SHORT { now } else { backdated }, lifetime);
    let certificate = authority.issue(&Template {
        usages: usages.iter().filter_map(|usage| usage_named(usage)).collect(),
        subject: request.subject,
        public_key: request.public_key,
        alternative_names: request.alternative_names,
        not_before: backdated,
        not_after: not_after.min(authority.not_after()),
        serial: serial(object::uid(&csr)),
    });
    let text = BASE64_STANDARD.encode(pem("CERTIFICATE", &certificate));
    object::object_mut(&mut csr["status"]).insert("certificate".to_owned(), text.into());
    Some(csr)
}

fn lifetime(seconds: Option<u64>) -> Duration {
    seconds.map_or(LIFETIME_MAX, |seconds| {
        Duration::from_secs(seconds).clamp(LIFETIME_MIN, LIFETIME_MAX)
    })
}

/// The serial number of a certificate: the uid of its request, which has one certificate at most.
fn serial(uid: &str) -> Vec<u8> {
    let digits: String = uid.chars().filter(char::is_ascii_hexdigit).collect();
    let number = u128::from_str_radix(&digits, 16).unwrap_or(1);
    number.to_be_bytes().to_vec()
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// Every usage that a request may name, and what it is in a certificate.
pub const USAGES: [(&str, Usage); 23] = [
    ("any", Usage::Extended(&[0x55, 0x1d, 0x25, 0])),
    ("cert sign", Usage::Key(5)),
    ("client auth", Usage::CLIENT),
    ("code signing", Usage::Extended(&[0x2b, 6, 1, 5, 5, 7, 3, 3])),
    ("content commitment", Usage::Key(1)),
    ("crl sign", Usage::Key(6)),
    ("data encipherment", Usage::Key(3)),
    ("decipher only", Usage::Key(8)),
    ("digital signature", Usage::SIGN),
    ("email protection", Usage::Extended(&[0x2b, 6, 1, 5, 5, 7, 3, 4])),
    ("encipher only", Usage::Key(7)),
    ("ipsec end system", Usage::Extended(&[0x2b, 6, 1, 5, 5, 7, 3, 5])),
    ("ipsec tunnel", Usage::Extended(&[0x2b, 6, 1, 5, 5, 7, 3, 6])),
    ("ipsec user", Usage::Extended(&[0x2b, 6, 1, 5, 5, 7, 3, 7])),
    ("key agreement", Usage::Key(4)),
    ("key encipherment", Usage::Key(2)),
    (
        "microsoft sgc",
        Usage::Extended(&[0x2b, 6, 1, 4, 1, 0x82, 0x37, 10, 3, 3]),
    ),
    (
        "netscape sgc",
        Usage::Extended(&[0x60, 0x86, 0x48, 1, 0x86, 0xf8, 0x42, 4, 1]),
    ),
    ("ocsp signing", Usage::Extended(&[0x2b, 6, 1, 5, 5, 7, 3, 9])),
    ("s/mime", Usage::Extended(&[0x2b, 6, 1, 5, 5, 7, 3, 4])),
    ("server auth", Usage::SERVER),
    ("signing", Usage::SIGN),
    ("timestamping", Usage::Extended(&[0x2b, 6, 1, 5, 5, 7, 3, 8])),
];

fn usage_named(name: &str) -> Option<Usage> {
    USAGES
        .iter()
        .find(|(its, _)| *its == name)
        .map(|(_, usage)| *usage)
}

#[cfg(test)]
mod tests {
    use x509_parser::prelude::{FromDer, X509Certificate};

    use super::*;
    use crate::sim::kube::certificates::request::write;
    use crate::sim::kube::identity::Keys;
    use crate::sim::kube::identity::keys::Key;

    const CLIENT: &str = "kubernetes.io/kube-apiserver-client-kubelet";
    const SERVING: &str = "kubernetes.io/kubelet-serving";
    const ANYBODY: &str = "kubernetes.io/kube-apiserver-client";

    fn now() -> Timestamp {
        "2026-11-16T10:00:00Z".parse().unwrap()
    }

    fn approved(signer: &str, request: &str, usages: &[&str]) -> Value {
        json!({"spec": {"signerName": signer, "request": BASE64_STANDARD.encode(request), "usages": usages},
               "status": {"conditions": [{"type": "Approved", "status": "True"}]}})
    }

    fn request(name: &str, groups: &[&str], names: &[&str]) -> String {
        write(&Key::new(Keys::Fixed, "kubelet"), name, groups, names)
    }

    fn fulfilled(csr: Value) -> Option<Value> {
        signed(&Authority::new(Keys::Fixed), csr, now())
    }

    /// What becomes of an approved request: nothing wrong, or the signer's objection.
    fn objection(signer: &str, request: &str, usages: &[&str]) -> Option<String> {
        let csr = fulfilled(approved(signer, request, usages)).unwrap();
        let failed = conditions(&csr, Condition::Failed).next();
        let message = failed.map(|failed| failed["message"].as_str().unwrap().to_owned());
        assert_eq!(csr["status"]["certificate"].is_string(), message.is_none());
        message
    }

    #[test]
    fn kubelets_are_certified_as_kubelets_only() {
        let node = |names: &[&str]| request("system:node:a", &["system:nodes"], names);
        let client: &[&str] = &["digital signature", "client auth"];
        let client_rsa: &[&str] = &["client auth", "key encipherment", "digital signature"];
        let server: &[&str] = &["digital signature", "key encipherment", "server auth"];
        let masters = request("system:node:a", &["system:nodes", "system:masters"], &[]);
        let table = [
            (CLIENT, node(&[]), client, None),
            (CLIENT, node(&[]), client_rsa, None),
            (CLIENT, node(&[]), server, Some("usages did not match")),
            (
                CLIENT,
                node(&["a"]),
                client,
                Some("DNS subjectAltNames are not allowed"),
            ),
            (
                CLIENT,
                node(&["10.0.0.1"]),
                client,
                Some("IP subjectAltNames are not allowed"),
            ),
            (
                CLIENT,
                request("jane", &["system:nodes"], &[]),
                client,
                Some("common name"),
            ),
            (CLIENT, masters, client, Some("organization")),
            (SERVING, node(&["a", "10.0.0.1"]), server, None),
            (
                SERVING,
                node(&[]),
                server,
                Some("DNS or IP subjectAltName is required"),
            ),
            (SERVING, node(&["a"]), client, Some("usages did not match")),
        ];
        for (signer, request, usages, expected) in table {
            let said = objection(signer, &request, usages);
            assert_eq!(said.is_some(), expected.is_some(), "{signer} {usages:?} {said:?}");
            let said = said.unwrap_or_default();
            assert!(said.contains(expected.unwrap_or_default()), "{said}");
        }
    }

    #[test]
    fn anybody_is_certified_as_a_client() {
        let jane = request("jane", &["team"], &[]);
        assert_eq!(
            objection(ANYBODY, &jane, &["digital signature", "client auth"]),
            None
        );
        let said = |usages: &[&str]| objection(ANYBODY, &jane, usages).unwrap();
        assert!(said(&["server auth"]).contains("invalid usage"));
        assert!(said(&["digital signature"]).contains("missing required usage"));
    }

    #[test]
    fn only_an_approved_request_for_a_known_signer_is_signed_and_only_once() {
        let node = request("system:node:a", &["system:nodes"], &[]);
        let good = approved(CLIENT, &node, &["digital signature", "client auth"]);
        for (path, value) in [
            ("/status/conditions", json!([])),
            (
                "/status/conditions",
                json!([{"type": "Approved", "status": "True"}, {"type": "Denied", "status": "True"}]),
            ),
            (
                "/status/conditions",
                json!([{"type": "Approved", "status": "True"}, {"type": "Failed", "status": "True"}]),
            ),
            ("/spec/signerName", json!("example.com/mine")),
        ] {
            let mut csr = good.clone();
            *csr.pointer_mut(path).unwrap() = value.clone();
            assert_eq!(fulfilled(csr), None, "{path} {value}");
        }
        let signed = fulfilled(good).unwrap();
        assert_eq!(fulfilled(signed), None);
    }

    #[test]
    fn a_certificate_holds_as_long_as_was_asked_for_within_limits() {
        let lifetime = |seconds: Option<u64>| {
            let node = request("system:node:a", &["system:nodes"], &[]);
            let mut csr = approved(CLIENT, &node, &["digital signature", "client auth"]);
            csr["spec"]["expirationSeconds"] = json!(seconds);
            let signed = fulfilled(csr).unwrap();
            let text = BASE64_STANDARD
                .decode(signed["status"]["certificate"].as_str().unwrap())
                .unwrap();
            let (_, block) = x509_parser::pem::parse_x509_pem(&text).unwrap();
            let (_, certificate) = X509Certificate::from_der(&block.contents).unwrap();
            let validity = certificate.validity();
            let since = now().as_second();
            (
                validity.not_before.timestamp() - since,
                validity.not_after.timestamp() - since,
            )
        };
        assert_eq!(lifetime(Some(3600)), (-300, 3600));
        assert_eq!(lifetime(Some(8 * 3600)), (-300, 8 * 3600 - 300));
        assert_eq!(lifetime(None), (-300, 8760 * 3600 - 300));
        assert_eq!(lifetime(Some(1 << 31)), (-300, 8760 * 3600 - 300));
    }
}
