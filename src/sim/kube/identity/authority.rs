//! The certificate authority of a cluster: issues certificates, and knows its own when a client shows one.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::{Mutex, PoisonError};

use jiff::Timestamp;
use ring::digest;
use x509_parser::prelude::{FromDer, X509Certificate};

use super::der::{self, Criticality, oid};
use super::keys::{Key, Keys, algorithm, pem, sha256_hex};
use super::{CREDENTIAL_ID, User};

/// From when and until when the cluster's own certificates hold. Wide, since the clock of a simulated cluster and
/// that of a client outside need not agree on the year.
const VALID_FROM: &str = "2020-01-01T00:00:00Z";
const VALID_UNTIL: &str = "2100-01-01T00:00:00Z";

/// What the API server is called by those who connect to it.
const SERVING_NAMES: [&str; 8] = [
    "127.0.0.1",
    "::1",
    "10.96.0.1",
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
];

/// A certificate authority.
pub struct Authority {
    key: Key,
    name: Vec<u8>,
    certificate: Vec<u8>,
    /// What is said by certificates whose signature was found good. A kubelet shows the same one with every request, and
    /// checking it takes longer than all the rest of the request.
    genuine: Mutex<BTreeMap<Vec<u8>, Card>>,
}

/// What a certificate says.
#[derive(Clone)]
struct Card {
    /// From when and until when, in seconds.
    holds: RangeInclusive<i64>,
    /// Whether it may be shown by clients.
    for_clients: bool,
    /// Whom it names, if anybody.
    user: Option<User>,
}

/// How many good certificates are remembered: one for each of the largest cluster's nodes.
const GENUINE_MAX: usize = 5000;

/// What a certificate is to say. Everything in DER comes ready-made, from a request or from [`der`].
#[derive(Clone, Debug)]
pub struct Template {
    /// A DER `Name`.
    pub subject: Vec<u8>,
    /// A DER `SubjectPublicKeyInfo`.
    pub public_key: Vec<u8>,
    /// The value of the extension for alternative names, if there are any.
    pub alternative_names: Option<Vec<u8>>,
    /// What it may be used for.
    pub usages: Vec<Usage>,
    /// Since when it holds.
    pub not_before: Timestamp,
    /// Until when it holds.
    pub not_after: Timestamp,
    /// Its number.
    pub serial: Vec<u8>,
}

/// What a certificate may be used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Usage {
    /// A bit of the key usage extension.
    Key(u8),
    /// An identifier of the extended key usage extension.
    Extended(&'static [u8]),
}

impl Usage {
    /// `digital signature`
    pub const SIGN: Self = Self::Key(0);
    /// `client auth`
    pub const CLIENT: Self = Self::Extended(&[0x2b, 6, 1, 5, 5, 7, 3, 2]);
    /// `server auth`
    pub const SERVER: Self = Self::Extended(&[0x2b, 6, 1, 5, 5, 7, 3, 1]);
}

/// A certificate with its key, both as PEM.
#[derive(Clone, Debug)]
pub struct Credential {
    /// The certificate.
    pub certificate: String,
    /// The private key.
    pub key: String,
}

/// Why a client certificate is not believed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Distrust {
    #[error("the certificate cannot be read: {0}")]
    Unreadable(String),
    #[error("the certificate is signed by an unknown authority")]
    UnknownAuthority,
    #[error("the certificate is not valid at {0}")]
    OutOfTime(Timestamp),
    #[error("the certificate is not for clients")]
    NotForClients,
}

impl Authority {
    /// The authority of a new cluster.
    pub fn new(keys: Keys) -> Self {
        let key = Key::new(keys, "certificate authority");
        let name = der::subject("kubernetes", &[]);
        let extensions = [
            der::extension(oid::KEY_USAGE, Criticality::Critical, &der::named_bits([0, 2, 5])),
            der::extension(
                oid::BASIC_CONSTRAINTS,
                Criticality::Critical,
                &der::sequence(&[&[0x01, 0x01, 0xff]]),
            ),
            der::extension(
                oid::SUBJECT_KEY_IDENTIFIER,
                Criticality::Optional,
                &der::octets(&key_identifier(&key)),
            ),
        ];
        let body = Body {
            serial: &[1],
            issuer: &name,
            subject: &name,
            public_key: &key.public_info(),
            not_before: instant(VALID_FROM),
            not_after: instant(VALID_UNTIL),
            extensions: &extensions,
        };
        let certificate = signed(&key, &body.encode());
        Self {
            key,
            name,
            certificate,
            genuine: Mutex::default(),
        }
    }

    /// Its own certificate as PEM.
    pub fn pem(&self) -> String {
        pem("CERTIFICATE", &self.certificate)
    }

    /// Its own certificate as DER.
    pub fn certificate(&self) -> &[u8] {
        &self.certificate
    }

    /// Until when it may sign.
    pub fn not_after(&self) -> Timestamp {
        instant(VALID_UNTIL)
    }

    /// A certificate as DER.
    pub fn issue(&self, template: &Template) -> Vec<u8> {
        let mut extensions = usage_extensions(&template.usages);
        extensions.push(der::extension(
            oid::BASIC_CONSTRAINTS,
            Criticality::Critical,
            &der::sequence(&[]),
        ));
        let issuer = der::sequence(&[&der::tagged(0x80, &key_identifier(&self.key))]);
        extensions.push(der::extension(
            oid::AUTHORITY_KEY_IDENTIFIER,
            Criticality::Optional,
            &issuer,
        ));
        if let Some(names) = &template.alternative_names {
            extensions.push(der::extension(
                oid::SUBJECT_ALTERNATIVE_NAME,
                Criticality::Optional,
                names,
            ));
        }
        let body = Body {
            serial: &template.serial,
            issuer: &self.name,
            subject: &template.subject,
            public_key: &template.public_key,
            not_before: template.not_before,
            not_after: template.not_after,
            extensions: &extensions,
        };
        signed(&self.key, &body.encode())
    }

    /// A certificate for the API server itself, as DER, and its key as PKCS#8.
    pub fn serving(&self, key: &Key) -> Vec<u8> {
        self.issue(&Template {
            subject: der::subject("kube-apiserver", &[]),
            public_key: key.public_info(),
            alternative_names: Some(der::alternative_names(&SERVING_NAMES)),
            usages: vec![Usage::SIGN, Usage::SERVER],
            not_before: instant(VALID_FROM),
            not_after: instant(VALID_UNTIL),
            serial: vec![2],
        })
    }

    /// A client certificate that holds as long as the authority itself.
    pub fn client(&self, key: &Key, name: &str, groups: &[&str]) -> Credential {
        let certificate = self.issue(&Template {
            subject: der::subject(name, groups),
            public_key: key.public_info(),
            alternative_names: None,
            usages: vec![Usage::SIGN, Usage::CLIENT],
            not_before: instant(VALID_FROM),
            not_after: instant(VALID_UNTIL),
            serial: vec![3],
        });
        Credential {
            certificate: pem("CERTIFICATE", &certificate),
            key: key.pem(),
        }
    }

    /// What a certificate says, if this authority has signed it.
    fn read(&self, certificate: &[u8]) -> Result<Card, Distrust> {
        let mut genuine = self.genuine.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(card) = genuine.get(certificate) {
            return Ok(card.clone());
        }
        let unreadable = |error: &dyn std::fmt::Display| Distrust::Unreadable(error.to_string());
        let (_, shown) = X509Certificate::from_der(certificate).map_err(|error| unreadable(&error))?;
        let (_, own) = X509Certificate::from_der(&self.certificate).map_err(|error| unreadable(&error))?;
        let is_genuine = shown.issuer().as_raw() == own.subject().as_raw()
            && shown.verify_signature(Some(own.public_key())).is_ok();
        if !is_genuine {
            return Err(Distrust::UnknownAuthority);
        }
        let card = Card::of(&shown, certificate);
        if genuine.len() < GENUINE_MAX {
            genuine.insert(certificate.to_vec(), card.clone());
        }
        Ok(card)
    }

    /// Whose certificate it is. `None` if it is a good one that names nobody.
    pub fn recognize(&self, certificate: &[u8], now: Timestamp) -> Result<Option<User>, Distrust> {
        let card = self.read(certificate)?;
        if !card.holds.contains(&now.as_second()) {
            return Err(Distrust::OutOfTime(now));
        }
        if !card.for_clients {
            return Err(Distrust::NotForClients);
        }
        Ok(card.user)
    }
}

impl Card {
    fn of(shown: &X509Certificate<'_>, certificate: &[u8]) -> Self {
        let validity = shown.validity();
        // A certificate that does not say what it is for may be used for anything.
        let for_clients = match shown.extended_key_usage() {
            Ok(Some(usage)) => usage.value.client_auth || usage.value.any,
            Ok(None) => true,
            Err(_) => false,
        };
        let subject = shown.subject();
        let name = subject
            .iter_common_name()
            .filter_map(|part| part.as_str().ok())
            .last();
        let user = name.filter(|name| !name.is_empty()).map(|name| {
            let groups = subject.iter_organization().filter_map(|part| part.as_str().ok());
            let groups = groups.chain(["system:authenticated"]).map(str::to_owned);
            let credential = format!("X509SHA256={}", sha256_hex(certificate));
            User {
                name: name.to_owned(),
                uid: String::new(),
                groups: groups.collect(),
                extra: [(CREDENTIAL_ID.to_owned(), vec![credential])].into(),
            }
        });
        Self {
            holds: validity.not_before.timestamp()..=validity.not_after.timestamp(),
            for_clients,
            user,
        }
    }
}

/// The part of a certificate that is signed.
struct Body<'a> {
    serial: &'a [u8],
    issuer: &'a [u8],
    subject: &'a [u8],
    public_key: &'a [u8],
    not_before: Timestamp,
    not_after: Timestamp,
    extensions: &'a [Vec<u8>],
}

impl Body<'_> {
    fn encode(&self) -> Vec<u8> {
        let extensions: Vec<&[u8]> = self.extensions.iter().map(Vec::as_slice).collect();
        let version_3 = der::explicit(0, &der::integer(&[2]));
        let validity = der::sequence(&[&der::time(self.not_before), &der::time(self.not_after)]);
        der::sequence(&[
            &version_3,
            &der::integer(self.serial),
            &algorithm(),
            self.issuer,
            &validity,
            self.subject,
            self.public_key,
            &der::explicit(3, &der::sequence(&extensions)),
        ])
    }
}

fn signed(key: &Key, body: &[u8]) -> Vec<u8> {
    der::sequence(&[body, &algorithm(), &der::bits(&key.sign(body))])
}

fn usage_extensions(usages: &[Usage]) -> Vec<Vec<u8>> {
    let bits: Vec<u8> = usages
        .iter()
        .filter_map(|usage| match usage {
            Usage::Key(bit) => Some(*bit),
            Usage::Extended(_) => None,
        })
        .collect();
    let purposes: Vec<Vec<u8>> = usages
        .iter()
        .filter_map(|usage| match usage {
            Usage::Extended(purpose) => Some(der::object_identifier(purpose)),
            Usage::Key(_) => None,
        })
        .collect();
    let mut extensions = Vec::new();
    if !bits.is_empty() {
        let value = der::named_bits(bits);
        extensions.push(der::extension(oid::KEY_USAGE, Criticality::Critical, &value));
    }
    if !purposes.is_empty() {
        let value = der::sequence(&purposes.iter().map(Vec::as_slice).collect::<Vec<_>>());
        extensions.push(der::extension(
            oid::EXTENDED_KEY_USAGE,
            Criticality::Optional,
            &value,
        ));
    }
    extensions
}

/// The first 20 bytes of the SHA-256 of the public key (RFC 7093).
fn key_identifier(key: &Key) -> Vec<u8> {
    digest::digest(&digest::SHA256, key.public()).as_ref()[..20].to_vec()
}

/// One of the two constants above.
fn instant(text: &str) -> Timestamp {
    text.parse().unwrap_or(Timestamp::UNIX_EPOCH)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: &str = "2026-11-16T10:00:00Z";

    fn template(key: &Key) -> Template {
        Template {
            subject: der::subject("system:node:a", &["system:nodes", "others"]),
            public_key: key.public_info(),
            alternative_names: None,
            usages: vec![Usage::SIGN, Usage::CLIENT],
            not_before: instant("2026-11-16T09:00:00Z"),
            not_after: instant("2026-11-16T11:00:00Z"),
            serial: vec![9],
        }
    }

    #[test]
    fn a_client_is_who_its_certificate_names_in_every_group_it_names() {
        let (authority, key) = (Authority::new(Keys::Fixed), Key::new(Keys::Fixed, "node"));
        let certificate = authority.issue(&template(&key));
        let user = authority.recognize(&certificate, instant(NOW)).unwrap().unwrap();
        assert_eq!(user.name, "system:node:a");
        assert_eq!(user.groups, ["system:nodes", "others", "system:authenticated"]);
        let id = &user.extra[CREDENTIAL_ID][0];
        assert_eq!(id, &format!("X509SHA256={}", sha256_hex(&certificate)));
    }

    #[test]
    fn a_certificate_holds_only_in_its_time_for_its_use_and_from_this_authority() {
        let (authority, key) = (Authority::new(Keys::Fixed), Key::new(Keys::Fixed, "node"));
        let good = authority.issue(&template(&key));
        let at = |text| authority.recognize(&good, instant(text));
        assert!(matches!(at("2026-11-16T11:00:01Z"), Err(Distrust::OutOfTime(_))));
        assert!(matches!(at("2026-11-16T08:59:59Z"), Err(Distrust::OutOfTime(_))));
        assert!(at("2026-11-16T11:00:00Z").is_ok());

        let for_servers = Template {
            usages: vec![Usage::SIGN, Usage::SERVER],
            ..template(&key)
        };
        let shown = authority.recognize(&authority.issue(&for_servers), instant(NOW));
        assert_eq!(shown, Err(Distrust::NotForClients));

        let foreign = Authority::new(Keys::Fresh).issue(&template(&key));
        let shown = authority.recognize(&foreign, instant(NOW));
        assert_eq!(shown, Err(Distrust::UnknownAuthority));

        let mut altered = good;
        let last = altered.len() - 1;
        altered[last] ^= 1;
        let shown = authority.recognize(&altered, instant(NOW));
        assert_eq!(shown, Err(Distrust::UnknownAuthority));
    }

    #[test]
    fn a_certificate_without_a_common_name_is_nobodys() {
        let (authority, key) = (Authority::new(Keys::Fixed), Key::new(Keys::Fixed, "node"));
        let nameless = Template {
            subject: der::subject("", &["system:masters"]),
            ..template(&key)
        };
        assert_eq!(
            authority.recognize(&authority.issue(&nameless), instant(NOW)),
            Ok(None)
        );
    }

    #[test]
    fn the_same_keys_issue_the_same_bytes() {
        let issue = || Authority::new(Keys::Fixed).issue(&template(&Key::new(Keys::Fixed, "node")));
        assert_eq!(issue(), issue());
    }
}
