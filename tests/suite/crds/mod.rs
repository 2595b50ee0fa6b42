//! The CRDs and `validate` give the same verdict: on a corpus of manifests, at the bounds, and on random mutations.
//!
//! `tests/corpus/<kind>/valid` is accepted, `invalid` is refused; where a file has two documents, the first is updated
//! to the second. An invalid file's first line names the field that must be blamed. `additions/` holds manifests on
//! which upstream's CRDs, tried too where `UPSTREAM_CRDS` names their directory, decide otherwise than ours.
#![cfg(feature = "sim")]

mod bounds;
mod corpus;
mod coverage;
mod examples;
mod files;
mod mutations;
mod served;
mod upstream;

use karpenter_ibm::api::crd::definitions;
use karpenter_ibm::api::{IBMNodeClass, NodeClaim, NodePool, UnavailableOffering, Violation};
use karpenter_ibm::sim::kube::schema::{Cause, Schema};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// A kind of custom resource and the name of its folder in the corpus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    NodePool,
    NodeClaim,
    NodeClass,
    UnavailableOffering,
}

const KINDS: [Kind; 4] = [
    Kind::NodePool,
    Kind::NodeClaim,
    Kind::NodeClass,
    Kind::UnavailableOffering,
];

/// What `validate` says.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Accepted,
    /// A JSON type is wrong, so the manifest cannot be read at all.
    Unreadable,
    Refused(Vec<Violation>),
}

impl Kind {
    fn folder(self) -> &'static str {
        match self {
            Self::NodePool => "nodepools",
            Self::NodeClaim => "nodeclaims",
            Self::NodeClass => "nodeclasses",
            Self::UnavailableOffering => "unavailableofferings",
        }
    }

    fn crd_file(self) -> &'static str {
        match self {
            Self::NodePool => "karpenter.sh_nodepools.yaml",
            Self::NodeClaim => "karpenter.sh_nodeclaims.yaml",
            Self::NodeClass => "karpenter-ibm.sh_ibmnodeclasses.yaml",
            Self::UnavailableOffering => "karpenter-ibm.sh_unavailableofferings.yaml",
        }
    }

    fn of(manifest: &Value) -> Self {
        match manifest["kind"].as_str() {
            Some("NodePool") => Self::NodePool,
            Some("NodeClaim") => Self::NodeClaim,
            Some("IBMNodeClass") => Self::NodeClass,
            Some("UnavailableOffering") => Self::UnavailableOffering,
            other => panic!("unknown kind {other:?}"),
        }
    }

    /// The schema of our CRD.
    fn schema(self) -> Value {
        let definitions = definitions().unwrap();
        definitions
            .iter()
            .find(|it| it.file_name == self.crd_file())
            .unwrap()
            .schema()
            .clone()
    }

    /// The verdict of `validate` or `validate_update`.
    fn validate(self, object: &Value, old: Option<&Value>) -> Verdict {
        match self {
            Self::NodePool => judge(object, old, NodePool::validate, NodePool::validate_update),
            Self::NodeClaim => judge(object, old, NodeClaim::validate, NodeClaim::validate_update),
            Self::NodeClass => judge(object, old, IBMNodeClass::validate, IBMNodeClass::validate_update),
            Self::UnavailableOffering => judge(
                object,
                old,
                UnavailableOffering::validate,
                UnavailableOffering::validate_update,
            ),
        }
    }
}

type Judgement = Result<(), Vec<Violation>>;

fn judge<T: DeserializeOwned>(
    object: &Value,
    old: Option<&Value>,
    validate: fn(&T) -> Judgement,
    validate_update: fn(&T, &T) -> Judgement,
) -> Verdict {
    let Ok(new) = T::deserialize(object) else {
        return Verdict::Unreadable;
    };
    let judgement = match old {
        None => validate(&new),
        Some(old) => validate_update(&new, &T::deserialize(old).expect("the old object is valid")),
    };
    judgement.map_or_else(Verdict::Refused, |()| Verdict::Accepted)
}

/// The verdict of a CRD: the causes for refusing, none if it is accepted.
fn admit(schema: &Schema, object: &Value, old: Option<&Value>) -> Vec<Cause> {
    let old = old.map(|old| {
        let mut old = old.clone();
        assert_eq!(schema.admit(&mut old, None), [], "the old object is valid");
        old
    });
    schema.admit(&mut object.clone(), old.as_ref())
}

/// Asserts that CRD and `validate` agree.
fn agree(kind: Kind, schema: &Schema, object: &Value, old: Option<&Value>) -> Result<(), String> {
    let (causes, verdict) = (admit(schema, object, old), kind.validate(object, old));
    if causes.is_empty() == (verdict == Verdict::Accepted) {
        return Ok(());
    }
    Err(format!(
        "the CRD says {causes:#?}\nvalidate says {verdict:#?}\nof {object:#}"
    ))
}
