//! The grammars of the API's strings, each written once: the schema carries the text, validation the compiled form.
//!
//! The texts are Go regular expressions, since an API server evaluates them. The two syntaxes differ for what is used
//! here in one point: Go's `\s` is ASCII only, so it is spelt out before compiling.

use std::sync::LazyLock;

use regex::Regex;

use super::violation::{Field, Violations};

/// A grammar: its text and its compiled form.
pub(super) struct Pattern {
    pub(super) text: &'static str,
    regex: LazyLock<Option<Regex>>,
}

impl Pattern {
    pub(super) fn matches(&self, value: &str) -> bool {
        // `None` only if the text is not a regular expression, which a test rules out; nothing matches it then.
        self.regex.as_ref().is_some_and(|regex| regex.is_match(value))
    }

    /// Blames `field` unless `value` follows the grammar.
    pub(super) fn check(&self, value: &str, field: Field<'_>, violations: &mut Violations) {
        if !self.matches(value) {
            violations.blame(field, format!("{value:?} does not match {}", self.text));
        }
    }
}

macro_rules! patterns {
    ($($(#[$doc:meta])* $name:ident = $text:expr;)*) => {
        $(
            $(#[$doc])*
            pub(super) static $name: Pattern = Pattern {
                text: $text,
                regex: LazyLock::new(|| Regex::new(&$text.replace(r"\s", r"[\t\n\f\r ]")).ok()),
            };
        )*
        #[cfg(test)]
        const ALL: &[&Pattern] = &[$(&$name),*];
    };
}

patterns! {
    /// A label key with or without a domain, also a taint's key and value.
    QUALIFIED_NAME = r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*(\/))?([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$";
    /// A label value.
    LABEL_VALUE = r"^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$";
    /// A duration in whole hours, minutes and seconds.
    DURATION = r"^([0-9]+(s|m|h))+$";
    /// A duration or `Never`.
    EXPIRY = r"^(([0-9]+(s|m|h))+|Never)$";
    /// How long a budget lasts; cron knows no seconds, but Go prints `0s`.
    BUDGET_DURATION = r"^((([0-9]+(h|m))|([0-9]+h[0-9]+m))(0s)?)$";
    /// When a budget begins: cron, or one of its names.
    BUDGET_SCHEDULE = r"^(@(annually|yearly|monthly|weekly|daily|midnight|hourly))|((.+)\s(.+)\s(.+)\s(.+)\s(.+))$";
    /// How many nodes a budget allows: a number or a percentage.
    BUDGET_NODES = r"^((100|[0-9]{1,2})%|[0-9]+)$";
    /// A quantity, as generated CRDs have it.
    QUANTITY = r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$";
    /// An API group.
    API_GROUP = r"^[^/]*$";
    /// A condition type.
    CONDITION_TYPE = r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$";
    /// A reason in CamelCase.
    REASON = r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$";
    /// A reason in CamelCase, or none.
    OPTIONAL_REASON = r"^([A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?|)$";
    /// A region of IBM Cloud: `us-south`.
    REGION = r"^[a-z]{2}-[a-z]+$";
    /// A zone of IBM Cloud: `us-south-1`.
    ZONE = r"^[a-z]{2}-[a-z]+-[0-9]+$";
    /// The id of a regional resource (VPC, security group, key): `r006-` and a UUID.
    REGIONAL_ID = r"^r[0-9]+-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$";
    /// The id of a resource that may be zonal (subnet, dedicated host): four characters and a UUID.
    ZONAL_ID = r"^[0-9a-z]{4}-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$";
    /// The id of an instance: as a zonal id, but with an underscore.
    INSTANCE_ID = r"^[0-9a-z]{4}_[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$";
    /// The name of a VPC resource.
    RESOURCE_NAME = r"^([a-z]|[a-z][-a-z0-9]*[a-z0-9])$";
    /// The id of a trusted profile.
    TRUSTED_PROFILE = r"^Profile-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$";
    /// The id or name of an image.
    IMAGE = r"^[a-z0-9-]+$";
    /// A word in lower case.
    LOWER_WORD = r"^[a-z]+$";
    /// Decimal digits.
    DIGITS = r"^[0-9]+$";
    /// The key of a `key:value` tag. Global Tagging takes letters, digits, space, `_`, `-`, `.` and `:`, no `/`.
    TAG_KEY = r"^[A-Za-z0-9_.-]([A-Za-z0-9_. -]*[A-Za-z0-9_.-])?$";
    /// A whole tag, or the value of a `key:value` one.
    TAG = r"^[A-Za-z0-9_.:-]([A-Za-z0-9_.: -]*[A-Za-z0-9_.:-])?$";
    /// The CRN of a resource: ten parts, the last of them not empty.
    CRN = r"^crn:v1(:[^:]*){7}:[^:]+$";
    /// The name of a machine profile: `bxf-4x16`.
    PROFILE = r"^[a-z][a-z0-9]*(-[a-z0-9]+)*$";
    /// A key of an `UnavailableOffering`.
    OFFERING_KEY = r"^((spot|on-demand):(\*:\*|[a-z][a-z0-9]*(-[a-z0-9]+)*:[a-z]{2}-[a-z]+-[0-9]+)|on-demand:gpu:\*)$";
    /// An amount of something that a kubelet reserves: never negative, and small enough to be added up.
    AMOUNT = r"^[0-9]{1,15}(\.[0-9]{1,9})?(m|k|[MGT]|[KMGT]i)?$";
    /// When a kubelet evicts: a share of the whole, or an amount.
    THRESHOLD = r"^(100%|[0-9]{1,2}(\.[0-9]{1,9})?%|[0-9]{1,15}(\.[0-9]{1,9})?(m|k|[MGT]|[KMGT]i)?)$";
    /// An address, of either kind; which ones exist is for the kubelet to judge.
    ADDRESS = r"^([0-9]{1,3}(\.[0-9]{1,3}){3}|[0-9A-Fa-f.]*:[0-9A-Fa-f:.]+)$";
    /// Where an API server is: nothing but a host, or an address in brackets, and a port.
    SERVER_URL = r"^https://([A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?$";
    /// An address of something to fetch, without a user, a query or a fragment.
    HTTPS_URL = r"^https://[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?(:[0-9]{1,5})?(/[A-Za-z0-9._~:+%/-]*)?$";
    /// An armored public key, or where there is one.
    PACKAGE_KEY = r"^(-----BEGIN PGP PUBLIC KEY BLOCK-----\r?\n[A-Za-z0-9+/=:.,;()<>@ _\r\n-]+|https://[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?(:[0-9]{1,5})?(/[A-Za-z0-9._~:+%/-]*)?)$";
    /// Certificates as PEM, and white space between them.
    CERTIFICATES = r"^(-----BEGIN CERTIFICATE-----[A-Za-z0-9+/=\r\n]+-----END CERTIFICATE-----[\r\n]*)+$";
    /// A positive amount of dollars without needless zeros.
    PRICE = r"^([1-9][0-9]{0,9}(\.[0-9]{0,8}[1-9])?|0\.[0-9]{0,8}[1-9])$";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pattern_compiles() {
        for pattern in ALL {
            assert!(pattern.regex.is_some(), "{}", pattern.text);
        }
    }

    #[test]
    fn white_space_is_ascii_as_in_go() {
        assert!(BUDGET_SCHEDULE.matches("0 9 * * 1-5"));
        assert!(!BUDGET_SCHEDULE.matches("0\u{2003}9\u{2003}*\u{2003}*\u{2003}1"));
    }

    #[test]
    fn a_tag_has_no_slash() {
        assert!(TAG.matches("team:a b_c-d.e"));
        for wrong in ["a/b", "ä", " a", "a ", "", "a,b"] {
            assert!(!TAG.matches(wrong), "{wrong}");
        }
        assert!(!TAG_KEY.matches("a:b"));
    }
}
