//! The private keys of a cluster, all of them Ed25519.
//!
//! Its signatures need no random number: with fixed keys, a token or certificate with the same content is the same
//! text in every run, which the deterministic world depends on.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use ring::digest;
use ring::rand::{SecureRandom, SystemRandom};
use ring::signature::{Ed25519KeyPair, KeyPair};

use super::der;

/// Where the keys of a cluster come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Keys {
    /// The same in every process and known to everyone: for worlds that only exist in memory.
    #[default]
    Fixed,
    /// Drawn from the operating system: for everything that listens.
    Fresh,
}

/// A private key.
pub struct Key {
    seed: [u8; 32],
    pair: Ed25519KeyPair,
}

impl Key {
    /// The key for one purpose of one cluster.
    pub fn new(keys: Keys, purpose: &str) -> Self {
        match keys {
            Keys::Fixed => Self::of(digest::digest(&digest::SHA256, purpose.as_bytes()).as_ref()),
            Keys::Fresh => Self::drawn(),
        }
    }

    #[expect(
        clippy::expect_used,
        reason = "a system without random numbers cannot serve TLS either"
    )]
    fn drawn() -> Self {
        let mut seed = [0; 32];
        SystemRandom::new()
            .fill(&mut seed)
            .expect("the operating system gives random numbers");
        Self::of(&seed)
    }

    #[expect(
        clippy::expect_used,
        reason = "both callers give 32 bytes, and any 32 bytes are a key"
    )]
    fn of(bytes: &[u8]) -> Self {
        let pair = Ed25519KeyPair::from_seed_unchecked(bytes).expect("a seed has 32 bytes");
        let mut seed = [0; 32];
        seed.copy_from_slice(bytes);
        Self { seed, pair }
    }

    /// The signature of a message.
    pub fn sign(&self, message: &[u8]) -> Vec<u8> {
        self.pair.sign(message).as_ref().to_vec()
    }

    /// The public key, 32 bytes.
    pub fn public(&self) -> &[u8] {
        self.pair.public_key().as_ref()
    }

    /// The public key as a DER `SubjectPublicKeyInfo`.
    pub fn public_info(&self) -> Vec<u8> {
        der::sequence(&[&algorithm(), &der::bits(self.public())])
    }

    /// The private key as a DER PKCS#8 document.
    pub fn pkcs8(&self) -> Vec<u8> {
        let seed = der::octets(&der::octets(&self.seed));
        der::sequence(&[&der::integer(&[0]), &algorithm(), &seed])
    }

    /// The key that [`Key::pem`] has written.
    pub fn parse(pem: &str) -> Option<Self> {
        let body: String = pem.lines().filter(|line| !line.starts_with("-----")).collect();
        let document = BASE64_STANDARD.decode(body).ok()?;
        let key = document.last_chunk::<SEED_BYTES>().map(|seed| Self::of(seed))?;
        (key.pkcs8() == document).then_some(key)
    }

    /// The private key as PEM.
    pub fn pem(&self) -> String {
        pem("PRIVATE KEY", &self.pkcs8())
    }
}

/// How many bytes a seed has. It is the last part of the PKCS#8 document that this module writes.
const SEED_BYTES: usize = 32;

/// The DER name of the algorithm.
pub fn algorithm() -> Vec<u8> {
    der::sequence(&[&der::object_identifier(der::oid::ED25519)])
}

/// A DER document as PEM.
pub fn pem(label: &str, document: &[u8]) -> String {
    let encoded = BASE64_STANDARD.encode(document);
    let mut lines = vec![format!("-----BEGIN {label}-----")];
    let mut rest = encoded.as_str();
    while !rest.is_empty() {
        let (line, after) = rest.split_at(rest.len().min(64));
        lines.push(line.to_owned());
        rest = after;
    }
    lines.push(format!("-----END {label}-----\n"));
    lines.join("\n")
}

/// The lower-case hex digits of a SHA-256.
pub fn sha256_hex(data: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digest = digest::digest(&digest::SHA256, data);
    let halves = digest.as_ref().iter().flat_map(|byte| [byte >> 4, byte & 0xf]);
    halves.map(|half| char::from(DIGITS[usize::from(half)])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fixed_keys_are_the_same_each_time_and_different_for_each_purpose() {
        let key = |purpose| Key::new(Keys::Fixed, purpose).public().to_vec();
        assert_eq!(key("a"), key("a"));
        assert_ne!(key("a"), key("b"));
    }

    #[test]
    fn fresh_keys_are_never_the_same() {
        let key = || Key::new(Keys::Fresh, "a").public().to_vec();
        assert_ne!(key(), key());
    }

    #[test]
    fn a_private_key_can_be_read_by_others() {
        let key = Key::new(Keys::Fixed, "a");
        let read = Ed25519KeyPair::from_pkcs8_maybe_unchecked(&key.pkcs8()).unwrap();
        assert_eq!(read.public_key().as_ref(), key.public());
    }
}
