//! What is not to be bought for a while: the `UnavailableOffering`s of one moment.

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::api::{CapacityType, Gpus, OfferingKey, UnavailableOffering};

/// Why and until when something is withheld.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hold {
    /// Until when.
    pub until: Timestamp,
    /// Why, in the word of the object: `Preempted`, `Shortage`, `Quota`.
    pub reason: String,
}

/// What is withheld, by key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Withheld(BTreeMap<OfferingKey, Hold>);

impl Withheld {
    /// Nothing is.
    pub fn nothing() -> Self {
        Self::default()
    }

    /// What these objects withhold. One whose key means nothing withholds nothing.
    pub fn of<'a>(objects: impl IntoIterator<Item = &'a UnavailableOffering>) -> Self {
        let hold = |object: &UnavailableOffering| {
            let hold = Hold {
                until: object.spec.until.0,
                reason: object.spec.reason.clone(),
            };
            Some((object.key()?, hold))
        };
        Self(objects.into_iter().filter_map(hold).collect())
    }

    /// The same with one more hold.
    #[must_use]
    pub fn with(mut self, key: OfferingKey, until: Timestamp, reason: &str) -> Self {
        let reason = reason.to_owned();
        self.0.insert(key, Hold { until, reason });
        self
    }

    /// The hold that keeps an offering longest, if one does at `now`.
    pub fn hold(
        &self,
        capacity_type: CapacityType,
        profile: &str,
        zone: &str,
        gpus: Gpus,
        now: Timestamp,
    ) -> Option<&Hold> {
        let keys = OfferingKey::covering(capacity_type, profile, zone, gpus);
        let holds = keys.iter().filter_map(|key| self.0.get(key));
        // The first of equals is the narrowest: of it people can do more.
        holds
            .filter(|hold| hold.until > now)
            .fold(None, |longest: Option<&Hold>, hold| match longest {
                Some(longest) if longest.until >= hold.until => Some(longest),
                _ => Some(hold),
            })
    }

    /// Keys and holds, in order of the keys.
    pub fn iter(&self) -> impl Iterator<Item = (&OfferingKey, &Hold)> {
        self.0.iter()
    }
}

impl FromIterator<(OfferingKey, Hold)> for Withheld {
    fn from_iter<I: IntoIterator<Item = (OfferingKey, Hold)>>(holds: I) -> Self {
        Self(holds.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn the_longest_of_the_holds_that_cover_an_offering_counts() {
        let one = OfferingKey::one(CapacityType::OnDemand, "gx3-16x80x1l4", "us-south-1").unwrap();
        let withheld = Withheld::nothing().with(one, at(100), "Shortage").with(
            OfferingKey::on_demand_gpu(),
            at(200),
            "Quota",
        );
        let hold = |zone: &str, gpus, now| {
            let hold = withheld.hold(CapacityType::OnDemand, "gx3-16x80x1l4", zone, gpus, at(now));
            hold.map(|hold| hold.reason.as_str())
        };
        assert_eq!(hold("us-south-1", Gpus::Present, 0), Some("Quota"));
        assert_eq!(hold("us-south-1", Gpus::Absent, 0), Some("Shortage"));
        assert_eq!(hold("us-south-2", Gpus::Present, 0), Some("Quota"));
        assert_eq!(hold("us-south-2", Gpus::Absent, 0), None);
    }

    #[test]
    fn a_hold_ends_at_its_time_and_not_before() {
        let withheld = Withheld::nothing().with(OfferingKey::all(CapacityType::Spot), at(100), "Quota");
        let holds = |now| {
            let hold = withheld.hold(
                CapacityType::Spot,
                "bxf-4x16",
                "us-south-1",
                Gpus::Absent,
                at(now),
            );
            hold.is_some()
        };
        assert!(holds(99) && !holds(100));
    }
}
