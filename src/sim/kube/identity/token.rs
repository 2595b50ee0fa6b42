//! ServiceAccount tokens: signed claims about who somebody is and until when.
//!
//! What the claims mean for the objects they name is judged in [`mod@super::authenticate`]; here they are only written,
//! read and held against the clock.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use jiff::Timestamp;
use ring::signature::{ED25519, UnparsedPublicKey};
use serde::{Deserialize, Serialize};

use super::keys::{Key, Keys};

/// Who issues the tokens, and for whom they are unless the request says otherwise.
pub const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";

/// How far clocks may disagree before a token counts as expired or not yet valid: what the JWT library of a real
/// server allows.
pub const LEEWAY_SECONDS: i64 = 60;

/// What a token says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claims {
    /// For whom it is.
    pub aud: Vec<String>,
    /// Until when it holds.
    pub exp: i64,
    /// When it was issued.
    pub iat: i64,
    /// By whom.
    pub iss: String,
    /// Its own id.
    pub jti: String,
    /// What else Kubernetes wants to know.
    #[serde(rename = "kubernetes.io")]
    pub kubernetes: Binding,
    /// Since when it holds.
    pub nbf: i64,
    /// `system:serviceaccount:<namespace>:<name>`
    pub sub: String,
}

/// The objects that a token lives and dies with.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Binding {
    /// The namespace of all of them.
    pub namespace: String,
    /// The account.
    pub serviceaccount: Reference,
    /// The pod that uses it, if it is for one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<Reference>,
    /// The node of that pod, or the node that it is bound to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<Reference>,
    /// The secret that it is bound to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<Reference>,
}

/// An object by name and identity.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reference {
    /// Its name.
    pub name: String,
    /// Its uid; empty for the node of a pod that does not exist.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub uid: String,
}

#[derive(Debug, Serialize, Deserialize)]
struct Header {
    alg: String,
    kid: String,
}

/// Why a token is not believed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Distrust {
    #[error("invalid bearer token")]
    Invalid,
    #[error("service account token has expired")]
    Expired,
    #[error("service account token is not valid yet")]
    NotYetValid,
    #[error("token audiences {shown:?} is invalid for the target audiences {wanted:?}")]
    OtherAudience {
        /// For whom it is.
        shown: Vec<String>,
        /// For whom it should be.
        wanted: Vec<String>,
    },
    #[error("service account token has been invalidated")]
    Invalidated,
}

/// How many tokens are remembered; each is about a kilobyte.
const REMEMBERED_MAX: usize = 1000;

/// Writes and reads tokens.
pub struct Signer {
    key: Key,
    /// Tokens whose signature was checked. Their time is checked each time.
    known: Mutex<BTreeMap<String, Claims>>,
}

impl Signer {
    /// The signer of a new cluster.
    pub fn new(keys: Keys) -> Self {
        Self {
            key: Key::new(keys, "service account tokens"),
            known: Mutex::default(),
        }
    }

    /// A token.
    pub fn sign(&self, claims: &Claims) -> String {
        let header = Header {
            alg: "EdDSA".to_owned(),
            kid: self.key_id(),
        };
        let message = format!("{}.{}", encoded(&header), encoded(claims));
        let signature = BASE64_URL_SAFE_NO_PAD.encode(self.key.sign(message.as_bytes()));
        format!("{message}.{signature}")
    }

    /// What a token says, if it is ours, holds now and is for one of the audiences. The second answer is for which.
    pub fn read(
        &self,
        token: &str,
        now: Timestamp,
        audiences: &[String],
    ) -> Result<(Claims, Vec<String>), Distrust> {
        let claims = self.known(token).ok_or(Distrust::Invalid)?;
        let now = now.as_second();
        if now - LEEWAY_SECONDS > claims.exp {
            return Err(Distrust::Expired);
        }
        if now + LEEWAY_SECONDS < claims.nbf {
            return Err(Distrust::NotYetValid);
        }
        let common = |audience: &&String| audiences.contains(*audience);
        let meant: Vec<String> = claims.aud.iter().filter(common).cloned().collect();
        if meant.is_empty() {
            return Err(Distrust::OtherAudience {
                shown: claims.aud,
                wanted: audiences.to_vec(),
            });
        }
        Ok((claims, meant))
    }

    fn known(&self, token: &str) -> Option<Claims> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(claims) = known.get(token) {
            return Some(claims.clone());
        }
        let claims = self.ours(token)?;
        if known.len() >= REMEMBERED_MAX {
            known.clear();
        }
        known.insert(token.to_owned(), claims.clone());
        Some(claims)
    }

    fn ours(&self, token: &str) -> Option<Claims> {
        let (message, signature) = token.rsplit_once('.')?;
        let (header, claims) = message.split_once('.')?;
        let header: Header = decoded(header)?;
        if header.alg != "EdDSA" || header.kid != self.key_id() {
            return None;
        }
        let signature = BASE64_URL_SAFE_NO_PAD.decode(signature).ok()?;
        UnparsedPublicKey::new(&ED25519, self.key.public())
            .verify(message.as_bytes(), &signature)
            .ok()?;
        decoded::<Claims>(claims).filter(|claims| claims.iss == ISSUER)
    }

    fn key_id(&self) -> String {
        let digest = ring::digest::digest(&ring::digest::SHA256, &self.key.public_info());
        BASE64_URL_SAFE_NO_PAD.encode(digest.as_ref())
    }
}

fn encoded(part: &impl Serialize) -> String {
    // Strings and numbers only: this cannot fail.
    let json = serde_json::to_vec(part).unwrap_or_default();
    BASE64_URL_SAFE_NO_PAD.encode(json)
}

fn decoded<T: serde::de::DeserializeOwned>(part: &str) -> Option<T> {
    let json = BASE64_URL_SAFE_NO_PAD.decode(part).ok()?;
    serde_json::from_slice(&json).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_794_823_200;

    fn claims() -> Claims {
        Claims {
            aud: vec![ISSUER.to_owned(), "vault".to_owned()],
            exp: NOW + 600,
            iat: NOW,
            nbf: NOW,
            iss: ISSUER.to_owned(),
            jti: "id".to_owned(),
            sub: "system:serviceaccount:a:b".to_owned(),
            kubernetes: Binding {
                namespace: "a".to_owned(),
                ..Binding::default()
            },
        }
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn read(token: &str, second: i64, audience: &str) -> Result<Claims, Distrust> {
        let signer = Signer::new(Keys::Fixed);
        let answer = signer.read(token, at(second), &[audience.to_owned()]);
        answer.map(|(claims, _)| claims)
    }

    #[test]
    fn a_token_says_what_it_was_told_to() {
        let token = Signer::new(Keys::Fixed).sign(&claims());
        assert_eq!(read(&token, NOW, ISSUER), Ok(claims()));
        assert_eq!(token, Signer::new(Keys::Fixed).sign(&claims()));
    }

    #[test]
    fn a_token_holds_for_its_time_and_a_minute_of_disagreement() {
        let token = Signer::new(Keys::Fixed).sign(&claims());
        let exp = NOW + 600;
        assert!(read(&token, exp + LEEWAY_SECONDS, ISSUER).is_ok());
        assert_eq!(
            read(&token, exp + LEEWAY_SECONDS + 1, ISSUER),
            Err(Distrust::Expired)
        );
        assert!(read(&token, NOW - LEEWAY_SECONDS, ISSUER).is_ok());
        assert_eq!(
            read(&token, NOW - LEEWAY_SECONDS - 1, ISSUER),
            Err(Distrust::NotYetValid)
        );
    }

    #[test]
    fn a_token_for_others_is_refused() {
        let token = Signer::new(Keys::Fixed).sign(&claims());
        assert!(read(&token, NOW, "vault").is_ok());
        assert!(matches!(
            read(&token, NOW, "else"),
            Err(Distrust::OtherAudience { .. })
        ));
    }

    #[test]
    fn a_token_of_another_key_another_issuer_or_another_content_is_refused() {
        let signer = Signer::new(Keys::Fixed);
        let token = signer.sign(&claims());
        assert_eq!(
            read(&Signer::new(Keys::Fresh).sign(&claims()), NOW, ISSUER),
            Err(Distrust::Invalid)
        );
        let foreign = Claims {
            iss: "https://elsewhere".to_owned(),
            ..claims()
        };
        assert_eq!(read(&signer.sign(&foreign), NOW, ISSUER), Err(Distrust::Invalid));
        let parts: Vec<&str> = token.split('.').collect();
        let promoted = Claims {
            sub: "system:serviceaccount:kube-system:root".to_owned(),
            ..claims()
        };
        let forged = format!("{}.{}.{}", parts[0], encoded(&promoted), parts[2]);
        assert_eq!(read(&forged, NOW, ISSUER), Err(Distrust::Invalid));
        let unsigned = format!(
            "{}.{}.",
            BASE64_URL_SAFE_NO_PAD.encode(r#"{"alg":"none"}"#),
            parts[1]
        );
        assert_eq!(read(&unsigned, NOW, ISSUER), Err(Distrust::Invalid));
        assert_eq!(read("nonsense", NOW, ISSUER), Err(Distrust::Invalid));
    }
}
