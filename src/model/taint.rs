//! Taints of nodes and what tolerates them.

use std::fmt;

use k8s_openapi::api::core::v1 as core;

use crate::api;
use crate::api::names::UNREGISTERED_TAINT;

/// Keeps pods that do not tolerate it off a node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Taint {
    /// Its name.
    pub key: String,
    /// Its value, which may be empty.
    pub value: String,
    /// What it does.
    pub effect: Effect,
}

/// What a taint does to pods that do not tolerate it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Effect {
    /// They are not placed.
    NoSchedule,
    /// They rather go elsewhere.
    PreferNoSchedule,
    /// They are not placed, and removed.
    NoExecute,
}

/// Covers certain taints.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Toleration {
    /// The taint's name; every name if absent.
    pub key: Option<String>,
    /// The taint's value; every value if absent.
    pub value: Option<String>,
    /// The taint's effect; every effect if absent.
    pub effect: Option<Effect>,
}

/// How taints that only prefer are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Preferring {
    /// Like the others.
    Counts,
    /// As if tolerated.
    Ignored,
}

/// Taints with which nodes begin, and which go by themselves. What is planned for a node that is not ready for work yet
/// need not tolerate them.
const EPHEMERAL: [(&str, &str, Effect); 5] = [
    ("node.kubernetes.io/not-ready", "", Effect::NoSchedule),
    ("node.kubernetes.io/not-ready", "", Effect::NoExecute),
    ("node.kubernetes.io/unreachable", "", Effect::NoSchedule),
    (
        "node.cloudprovider.kubernetes.io/uninitialized",
        "true",
        Effect::NoSchedule,
    ),
    (UNREGISTERED_TAINT, "", Effect::NoExecute),
];
/// Taints under this name belong to the node readiness controller, which takes them off.
const READINESS_PREFIX: &str = "readiness.k8s.io/";
/// The taint that stands for `spec.unschedulable`.
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

impl Effect {
    /// The effect of this name, if there is one.
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "NoSchedule" => Some(Self::NoSchedule),
            "PreferNoSchedule" => Some(Self::PreferNoSchedule),
            "NoExecute" => Some(Self::NoExecute),
            _ => None,
        }
    }
}

impl fmt::Display for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

impl fmt::Display for Taint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let equals = if self.value.is_empty() { "" } else { "=" };
        write!(f, "{}{equals}{}:{}", self.key, self.value, self.effect)
    }
}

impl Taint {
    /// A taint.
    pub fn new(key: &str, value: &str, effect: Effect) -> Self {
        Self {
            key: key.to_owned(),
            value: value.to_owned(),
            effect,
        }
    }

    /// What a cordoned node is taken to carry.
    pub fn unschedulable() -> Self {
        Self::new(UNSCHEDULABLE, "", Effect::NoSchedule)
    }

    /// That of a NodePool or a NodeClaim; `None` if its effect is unknown.
    pub fn from_api(taint: &api::Taint) -> Option<Self> {
        let value = taint.value.as_deref().unwrap_or_default();
        Some(Self::new(&taint.key, value, Effect::parse(&taint.effect)?))
    }

    /// That of a Node; `None` if its effect is unknown.
    pub fn from_node(taint: &core::Taint) -> Option<Self> {
        let value = taint.value.as_deref().unwrap_or_default();
        Some(Self::new(&taint.key, value, Effect::parse(&taint.effect)?))
    }

    /// Whether it is one with which nodes begin, and that goes by itself.
    pub fn is_ephemeral(&self) -> bool {
        self.key.starts_with(READINESS_PREFIX)
            || EPHEMERAL.contains(&(self.key.as_str(), self.value.as_str(), self.effect))
    }
}

impl Toleration {
    /// That of a pod; `None` if it covers nothing, since its operator or effect is unknown.
    pub fn from_pod(toleration: &core::Toleration) -> Option<Self> {
        let text = |field: &Option<String>| field.clone().filter(|text| !text.is_empty());
        let effect = match text(&toleration.effect) {
            Some(name) => Some(Effect::parse(&name)?),
            None => None,
        };
        let key = text(&toleration.key);
        let value = match toleration.operator.as_deref().unwrap_or_default() {
            "Exists" => None,
            // Without a key only `Exists` is valid.
            "" | "Equal" if key.is_some() => Some(toleration.value.clone().unwrap_or_default()),
            // `Lt` and `Gt` are behind a gate of the API server that is off by default.
            _ => return None,
        };
        Some(Self { key, value, effect })
    }

    /// Everything with one effect.
    pub fn of_effect(effect: Effect) -> Self {
        Self {
            key: None,
            value: None,
            effect: Some(effect),
        }
    }

    /// Whether it covers a taint.
    pub fn covers(&self, taint: &Taint) -> bool {
        self.key.as_ref().is_none_or(|key| *key == taint.key)
            && self.value.as_ref().is_none_or(|value| *value == taint.value)
            && self.effect.is_none_or(|effect| effect == taint.effect)
    }
}

/// The first taint that is not tolerated.
pub fn untolerated<'a>(
    taints: &'a [Taint],
    tolerations: &[Toleration],
    preferring: Preferring,
) -> Option<&'a Taint> {
    taints
        .iter()
        .filter(|taint| preferring == Preferring::Counts || taint.effect != Effect::PreferNoSchedule)
        .find(|taint| !tolerations.iter().any(|toleration| toleration.covers(taint)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn toleration(key: &str, operator: &str, value: &str, effect: &str) -> Option<Toleration> {
        Toleration::from_pod(&core::Toleration {
            key: Some(key.to_owned()),
            operator: Some(operator.to_owned()),
            value: Some(value.to_owned()),
            effect: Some(effect.to_owned()),
            toleration_seconds: None,
        })
    }

    #[test]
    fn an_empty_field_of_a_toleration_covers_everything() {
        let taint = Taint::new("team", "a", Effect::NoExecute);
        assert!(toleration("", "Exists", "", "").unwrap().covers(&taint));
        assert!(toleration("team", "Exists", "", "").unwrap().covers(&taint));
        assert!(toleration("team", "", "a", "").unwrap().covers(&taint));
        assert!(!toleration("team", "Equal", "b", "").unwrap().covers(&taint));
        assert!(
            !toleration("team", "Equal", "a", "NoSchedule")
                .unwrap()
                .covers(&taint)
        );
        assert_eq!(
            toleration("", "Equal", "a", ""),
            None,
            "without a key only Exists means something"
        );
    }

    #[test]
    fn taints_that_go_by_themselves_are_known_by_name_value_and_effect() {
        let known = Taint::new("node.kubernetes.io/not-ready", "", Effect::NoExecute);
        assert!(known.is_ephemeral());
        assert!(Taint::new("readiness.k8s.io/cni", "x", Effect::PreferNoSchedule).is_ephemeral());
        assert!(!Taint::new("my.readiness.k8s.io/cni", "", Effect::NoSchedule).is_ephemeral());
        assert!(!Taint::new("node.kubernetes.io/unreachable", "", Effect::NoExecute).is_ephemeral());
        assert!(!Taint::new("team", "", Effect::NoSchedule).is_ephemeral());
    }

    #[test]
    fn a_taint_that_only_prefers_may_be_ignored() {
        let taints = [
            Taint::new("a", "", Effect::PreferNoSchedule),
            Taint::new("b", "", Effect::NoSchedule),
        ];
        assert_eq!(untolerated(&taints, &[], Preferring::Counts), Some(&taints[0]));
        assert_eq!(untolerated(&taints, &[], Preferring::Ignored), Some(&taints[1]));
        let every = [Toleration {
            key: None,
            value: None,
            effect: None,
        }];
        assert_eq!(untolerated(&taints, &every, Preferring::Counts), None);
    }
}
