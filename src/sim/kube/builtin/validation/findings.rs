//! What is found wrong, as it is collected.

use serde_json::{Value, json};

use super::words;
use crate::quantity::Quantity;
use crate::sim::kube::schema::Cause;

/// The mistakes of one object.
#[derive(Debug, Default)]
pub(super) struct Findings(pub(super) Vec<Cause>);

impl Findings {
    pub(super) fn invalid(&mut self, at: &str, value: &Value, detail: impl std::fmt::Display) {
        self.0.push(Cause::invalid(at, value, detail));
    }

    pub(super) fn required(&mut self, at: &str, detail: &str) {
        self.0.push(Cause::required(at, detail));
    }

    pub(super) fn forbidden(&mut self, at: &str, detail: &str) {
        self.0.push(Cause::forbidden(at, detail));
    }

    pub(super) fn duplicate(&mut self, at: &str, value: &Value) {
        self.0.push(Cause::duplicate(at, value));
    }

    pub(super) fn not_found(&mut self, at: &str, value: &Value) {
        self.0.push(Cause::not_found(at, value));
    }

    /// The value must be one of these; absence is none.
    pub(super) fn one_of(&mut self, at: &str, value: &Value, allowed: &[&str]) {
        if !allowed.iter().any(|allowed| value == allowed) {
            let allowed: Vec<Value> = allowed.iter().map(|text| json!(text)).collect();
            self.0.push(Cause::not_supported(at, value, &allowed));
        }
    }

    /// The same where the field may be absent.
    pub(super) fn optional_one_of(&mut self, at: &str, value: &Value, allowed: &[&str]) {
        if !value.is_null() {
            self.one_of(at, value, allowed);
        }
    }

    /// The value must be as this kind of word is; every objection is a mistake of its own.
    pub(super) fn word(&mut self, at: &str, value: &Value, judge: fn(&str) -> Vec<&'static str>) {
        for objection in judge(value.as_str().unwrap_or_default()) {
            self.invalid(at, value, objection);
        }
    }

    /// A number, if it is there, is at least so much.
    pub(super) fn at_least(&mut self, at: &str, value: &Value, least: i64) {
        if value.as_i64().is_some_and(|number| number < least) {
            self.invalid(
                at,
                value,
                format_args!("must be greater than or equal to {least}"),
            );
        }
    }

    /// A port number.
    pub(super) fn port(&mut self, at: &str, value: &Value) {
        if !value
            .as_i64()
            .is_some_and(|number| (1..=65_535).contains(&number))
        {
            self.invalid(at, value, "must be between 1 and 65535, inclusive");
        }
    }

    /// A port by number or name.
    pub(super) fn port_or_name(&mut self, at: &str, value: &Value) {
        if value.is_string() {
            self.word(at, value, words::port_name);
        } else {
            self.port(at, value);
        }
    }

    /// A whole number or a share, at least nothing and at most everything.
    pub(super) fn count_or_share(&mut self, at: &str, value: &Value) {
        let Some(text) = value.as_str() else {
            self.at_least(at, value, 0);
            return;
        };
        let share = text.strip_suffix('%');
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        match share.filter(|share| digits(share)).and_then(|share| share.parse::<i64>().ok()) {
            None => self.invalid(
                at,
                value,
                "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%')",
            ),
            Some(percent) if percent > 100 => self.invalid(at, value, "must not be greater than 100%"),
            Some(_) => {}
        }
    }

    /// Labels by key and value.
    pub(super) fn labels(&mut self, at: &str, labels: &Value) {
        for (key, value) in labels.as_object().into_iter().flatten() {
            self.word(at, &json!(key), words::qualified_name);
            self.word(at, value, words::label_value);
        }
    }

    /// A label selector inside an object.
    pub(super) fn selector(&mut self, at: &str, selector: &Value) {
        self.labels(&format!("{at}.matchLabels"), &selector["matchLabels"]);
        let expressions = selector["matchExpressions"].as_array().into_iter().flatten();
        for (index, expression) in expressions.enumerate() {
            let at = format!("{at}.matchExpressions[{index}]");
            let values = expression["values"].as_array().map_or(0, Vec::len);
            match expression["operator"].as_str().unwrap_or_default() {
                "In" | "NotIn" if values == 0 => {
                    self.required(
                        &format!("{at}.values"),
                        "must be specified when `operator` is 'In' or 'NotIn'",
                    );
                }
                "Exists" | "DoesNotExist" if values > 0 => self.forbidden(
                    &format!("{at}.values"),
                    "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
                ),
                "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
                _ => self.invalid(
                    &format!("{at}.operator"),
                    &expression["operator"],
                    "not a valid selector operator",
                ),
            }
            self.word(&format!("{at}.key"), &expression["key"], words::qualified_name);
            for (index, value) in expression["values"].as_array().into_iter().flatten().enumerate() {
                self.word(&format!("{at}.values[{index}]"), value, words::label_value);
            }
        }
    }

    /// Whether a selector is one: what comes of matching by it depends on that.
    pub(super) fn selector_holds(selector: &Value) -> bool {
        let mut own = Self::default();
        own.selector("", selector);
        own.0.is_empty()
    }
}

/// An amount, zero if it is none.
pub(super) fn amount(value: &Value) -> Quantity {
    let text = value.as_str().and_then(|text| text.parse().ok());
    text.unwrap_or(Quantity::ZERO)
}
