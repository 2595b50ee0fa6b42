//! What the conditions of classes and pools say, since when, and of which generation. Pure.

use jiff::Timestamp;

use crate::api::Condition;

/// A condition that was not dated yet.
pub(super) fn said(type_: &str, status: &str, reason: &str, message: String) -> Condition {
    Condition {
        type_: type_.to_owned(),
        status: status.to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message),
        last_transition_time: Timestamp::UNIX_EPOCH.into(),
        observed_generation: None,
    }
}

/// With the generation that was looked at, and with the time since when each holds, where these were said before.
pub(super) fn dated(
    conditions: impl IntoIterator<Item = Condition>,
    before: Option<&Vec<Condition>>,
    generation: Option<i64>,
    now: Timestamp,
) -> Vec<Condition> {
    let date = |mut it: Condition| {
        let mut before = before.into_iter().flatten();
        let same = before.find(|known| known.type_ == it.type_ && known.status == it.status);
        it.last_transition_time = same.map_or_else(|| now.into(), |known| known.last_transition_time);
        it.observed_generation = generation;
        it
    };
    conditions.into_iter().map(date).collect()
}
