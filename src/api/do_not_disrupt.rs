//! What a pod asks for with `karpenter.sh/do-not-disrupt`.

use std::time::Duration;

use super::duration::parse_go_duration;

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DoNotDisrupt {
    /// Nothing.
    No,
    /// To be left alone.
    Always,
    /// To be left alone for so long after it started.
    For(Duration),
    /// Nobody knows: this is neither `true` nor a time that Go would read, as upstream does. It protects nothing.
    Unreadable(String),
}

impl DoNotDisrupt {
    /// What the annotation's value means.
    pub fn read(written: Option<&str>) -> Self {
        match written {
            None | Some("false") => Self::No,
            Some("true") => Self::Always,
            Some(text) => match parse_go_duration(text).filter(|length| !length.is_zero()) {
                Some(length) => Self::For(length),
                None => Self::Unreadable(text.to_owned()),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_asks_for_rest_always_for_a_time_or_in_words_that_nobody_understands() {
        let unreadable = |text: &str| DoNotDisrupt::Unreadable(text.to_owned());
        for (written, meant) in [
            (None, DoNotDisrupt::No),
            (Some("false"), DoNotDisrupt::No),
            (Some("true"), DoNotDisrupt::Always),
            (Some("1.5h"), DoNotDisrupt::For(Duration::from_mins(90))),
            (Some("soon"), unreadable("soon")),
            (Some("0s"), unreadable("0s")),
            (Some("-5m"), unreadable("-5m")),
            (Some(""), unreadable("")),
        ] {
            assert_eq!(DoNotDisrupt::read(written), meant, "{written:?}");
        }
    }
}
