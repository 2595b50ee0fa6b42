//! Chance, with an owner: jitter and request ids come from one seeded generator that is passed in.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// A shared seeded generator. Clones draw from the same sequence.
#[derive(Clone, Debug)]
pub struct Entropy(Arc<Mutex<fastrand::Rng>>);

impl Entropy {
    /// The sequence that belongs to `seed`.
    pub fn seeded(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(fastrand::Rng::with_seed(seed))))
    }

    /// A sequence nobody can foresee, for production.
    pub fn from_system() -> Self {
        Self::seeded(fastrand::u64(..))
    }

    /// The next 64 bits.
    pub fn next(&self) -> u64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).u64(..)
    }

    /// Between half of `around` and one and a half times it, so that those who wait do not return in step.
    pub fn jitter(&self, around: Duration) -> Duration {
        let fraction = self.0.lock().unwrap_or_else(PoisonError::into_inner).f64();
        around.mul_f64(0.5 + fraction)
    }

    /// A random (version 4) UUID in its usual text form.
    pub fn uuid(&self) -> String {
        let (high, low) = (self.next(), self.next());
        let high = (high & 0xffff_ffff_ffff_0fff) | 0x4000;
        let low = (low & 0x3fff_ffff_ffff_ffff) | 0x8000_0000_0000_0000;
        format!(
            "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
            high >> 32,
            (high >> 16) & 0xffff,
            high & 0xffff,
            low >> 48,
            low & 0xffff_ffff_ffff
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_seed_one_sequence() {
        let (a, b) = (Entropy::seeded(7), Entropy::seeded(7));
        assert_eq!(a.uuid(), b.uuid());
        assert_ne!(a.uuid(), a.uuid());
    }

    #[test]
    fn jitter_stays_within_half_of_what_it_is_around() {
        let entropy = Entropy::seeded(1);
        for _ in 0..1000 {
            let wait = entropy.jitter(Duration::from_secs(10));
            assert!(
                (Duration::from_secs(5)..Duration::from_secs(15)).contains(&wait),
                "{wait:?}"
            );
        }
    }

    #[test]
    fn uuids_have_the_form_of_version_4() {
        let form = regex::Regex::new("^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$")
            .unwrap();
        let entropy = Entropy::seeded(1);
        for _ in 0..1000 {
            let uuid = entropy.uuid();
            assert!(form.is_match(&uuid), "{uuid}");
        }
    }
}
