//! A request, taken apart: what it is about, what is to be done, and how.

use http::request::Parts;
use http::{HeaderMap, Method};
use serde_json::json;

use super::refusal::{About, Refusal};
use super::schema::Cause;
use super::selector::{FieldSelector, LabelSelector};

/// The path of a request to a resource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Target {
    /// The API group, empty for the core.
    pub group: String,
    /// The API version.
    pub version: String,
    /// The plural name of the resource.
    pub plural: String,
    /// The namespace, if the path names one.
    pub namespace: Option<String>,
    /// The object, if the path names one.
    pub name: Option<String>,
    /// The path below the object, if there is one.
    pub subresource: Option<String>,
}

impl Target {
    /// Takes a path apart; `None` if it is not the path of a resource (discovery, health, …).
    pub fn parse(path: &str) -> Option<Self> {
        let mut parts = path.trim_matches('/').split('/');
        let (group, version) = match parts.next()? {
            "api" => ("", parts.next()?),
            "apis" => (parts.next()?, parts.next()?),
            _ => return None,
        };
        let own = |text: &str| Some(decode(text));
        let texts: Vec<&str> = parts.collect();
        let target = |plural: &str, namespace, name, subresource| {
            Some(Self {
                group: decode(group),
                version: decode(version),
                plural: decode(plural),
                namespace,
                name,
                subresource,
            })
        };
        match texts.as_slice() {
            // `namespaces` is both a resource and the prefix of others.
            ["namespaces", name] => target("namespaces", None, own(name), None),
            ["namespaces", name, sub @ ("status" | "finalize")] => {
                target("namespaces", None, own(name), own(sub))
            }
            ["namespaces", namespace, plural] => target(plural, own(namespace), None, None),
            ["namespaces", namespace, plural, name] => target(plural, own(namespace), own(name), None),
            ["namespaces", namespace, plural, name, sub] => {
                target(plural, own(namespace), own(name), own(sub))
            }
            [plural] if !plural.is_empty() => target(plural, None, None, None),
            [plural, name] => target(plural, None, own(name), None),
            [plural, name, sub] => target(plural, None, own(name), own(sub)),
            _ => None,
        }
    }
}

fn decode(part: &str) -> String {
    if !part.contains('%') {
        return part.to_owned();
    }
    percent_encoding::percent_decode_str(part)
        .decode_utf8_lossy()
        .into_owned()
}

/// What is to be done, in the words of authorization.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verb {
    Get,
    List,
    Watch,
    Create,
    Update,
    Patch,
    Delete,
    DeleteCollection,
}

impl Verb {
    /// As RBAC rules write it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Delete => "delete",
            Self::DeleteCollection => "deletecollection",
        }
    }

    /// The verb of a method on a target.
    pub fn of(method: &Method, target: &Target, watch: bool) -> Option<Self> {
        match (method.as_str(), target.name.is_some()) {
            // Of one object there is no watch: whoever names it gets it.
            ("GET" | "HEAD", true) => Some(Self::Get),
            ("GET" | "HEAD", false) if watch => Some(Self::Watch),
            ("GET" | "HEAD", false) => Some(Self::List),
            ("POST", _) => Some(Self::Create),
            ("PUT", true) => Some(Self::Update),
            ("PATCH", true) => Some(Self::Patch),
            ("DELETE", true) => Some(Self::Delete),
            ("DELETE", false) => Some(Self::DeleteCollection),
            _ => None,
        }
    }
}

/// The query of a request.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Only objects with these labels.
    pub labels: LabelSelector,
    /// Only objects with these fields.
    pub fields: FieldSelector,
    /// From or at which revision.
    pub resource_version: Option<String>,
    /// How `resource_version` is meant: `Exact`, `NotOlderThan`.
    pub resource_version_match: Option<String>,
    /// At most so many objects.
    pub limit: Option<usize>,
    /// Go on with a list.
    pub continue_token: Option<String>,
    /// Stream changes.
    pub watch: bool,
    /// Now and then say how far the stream is.
    pub bookmarks: bool,
    /// Begin the stream with what is there.
    pub send_initial_events: Option<bool>,
    /// End the stream after so many seconds.
    pub timeout_seconds: Option<u64>,
    /// Do everything but store it.
    pub dry_run: bool,
    /// Who writes, for field ownership.
    pub field_manager: Option<String>,
    /// What to do about unknown fields.
    pub field_validation: FieldValidation,
    /// Whether to take fields from other managers, if it is said at all.
    pub force: Option<bool>,
    /// `Background`, `Foreground`, `Orphan`.
    pub propagation: Option<String>,
    /// Seconds until a pod is gone.
    pub grace_period: Option<i64>,
    /// How much of an object a row of a table carries.
    pub include_object: IncludeObject,
    /// What the options of a write say that means nothing.
    pub unsupported: Vec<(&'static str, String)>,
}

/// How much of an object a row of a table carries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IncludeObject {
    /// Nothing.
    None,
    /// Its metadata.
    #[default]
    Metadata,
    /// All of it.
    Object,
}

/// What to do about unknown and duplicate fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FieldValidation {
    /// Drop them.
    Ignore,
    /// Drop them and say so in a `Warning` header.
    #[default]
    Warn,
    /// Refuse the request.
    Strict,
}

impl Options {
    /// Reads the query of a request.
    pub fn parse(query: &str) -> Result<Self, Refusal> {
        let mut options = Self::default();
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            options.set(&name, value.into_owned())?;
        }
        Ok(options)
    }

    fn set(&mut self, name: &str, value: String) -> Result<(), Refusal> {
        let bad = |value: &str| {
            Refusal::bad_request(format!("invalid value \"{value}\" for query parameter {name}"))
        };
        let truth = |value: &str| match value {
            "true" | "1" | "" => Ok(true),
            "false" | "0" => Ok(false),
            other => Err(bad(other)),
        };
        match name {
            "labelSelector" => self.labels = LabelSelector::parse(&value)?,
            "fieldSelector" => self.fields = FieldSelector::parse(&value)?,
            "resourceVersion" if !value.is_empty() => self.resource_version = Some(value),
            "resourceVersionMatch" if !value.is_empty() => self.resource_version_match = Some(value),
            // A limit below one is none.
            "limit" => {
                let limit: i64 = value.parse().map_err(|_| bad(&value))?;
                self.limit = usize::try_from(limit).ok().filter(|limit| *limit > 0);
            }
            "continue" if !value.is_empty() => self.continue_token = Some(value),
            "watch" => self.watch = truth(&value)?,
            "allowWatchBookmarks" => self.bookmarks = truth(&value)?,
            "sendInitialEvents" => self.send_initial_events = Some(truth(&value)?),
            "timeoutSeconds" => self.timeout_seconds = Some(value.parse().map_err(|_| bad(&value))?),
            "dryRun" => match value.as_str() {
                "All" => self.dry_run = true,
                other => self.unsupported.push(("dryRun", other.to_owned())),
            },
            "fieldManager" if !value.is_empty() => self.field_manager = Some(value),
            "fieldValidation" => match value.as_str() {
                "Ignore" => self.field_validation = FieldValidation::Ignore,
                "Warn" | "" => self.field_validation = FieldValidation::Warn,
                "Strict" => self.field_validation = FieldValidation::Strict,
                other => self.unsupported.push(("fieldValidation", other.to_owned())),
            },
            "force" => self.force = Some(truth(&value)?),
            "propagationPolicy" => self.propagation = Some(value),
            "gracePeriodSeconds" => self.grace_period = Some(value.parse().map_err(|_| bad(&value))?),
            "includeObject" => match value.as_str() {
                "None" => self.include_object = IncludeObject::None,
                "Metadata" | "" => self.include_object = IncludeObject::Metadata,
                "Object" => self.include_object = IncludeObject::Object,
                other => {
                    let problem = format!("unrecognized includeObject value: \"{other}\"");
                    return Err(Refusal::bad_request(problem));
                }
            },
            _ => {}
        }
        Ok(())
    }
}

impl Options {
    /// Refuses options that a write does not know, as its options object would be.
    fn check(&self, verb: Verb) -> Result<(), Refusal> {
        let kind = match verb {
            Verb::Create => "CreateOptions",
            Verb::Update => "UpdateOptions",
            Verb::Patch => "PatchOptions",
            // A deletion's may be in its body, which counts more.
            Verb::Get | Verb::List | Verb::Watch | Verb::Delete | Verb::DeleteCollection => return Ok(()),
        };
        if self.unsupported.is_empty() {
            return Ok(());
        }
        let causes = self
            .unsupported
            .iter()
            .map(|(field, value)| Cause::not_supported(field, &json!(value), &[]))
            .collect();
        Err(Refusal::invalid(About::options(kind), causes))
    }

    /// What is asked for as a dry run that is none.
    pub fn unknown_dry_run(&self) -> Option<&str> {
        let found = self.unsupported.iter().find(|(field, _)| *field == "dryRun");
        found.map(|(_, value)| value.as_str())
    }
}

/// In which form the client wants objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// The objects themselves.
    Full,
    /// Only their metadata.
    Metadata,
    /// Rows for people.
    Table,
}

impl Form {
    /// The first form of the `Accept` header that this server has; JSON goes for protobuf, too.
    fn accepted(headers: &HeaderMap, verb: Verb) -> Result<Self, Refusal> {
        let accept = headers
            .get(http::header::ACCEPT)
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default();
        if accept.is_empty() {
            return Ok(Self::Full);
        }
        let form = accept.split(',').find_map(Self::of_media).ok_or_else(|| {
            let types = "application/json, application/yaml, application/vnd.kubernetes.protobuf";
            let problem = format!("only the following media types are accepted: {types}");
            // One that is known, in a form that is not, comes further than one that is not even known.
            if accept.split(',').any(|part| Self::media(part).is_some()) {
                Refusal::not_acceptable(problem)
            } else {
                Refusal::unknown_media_type(problem)
            }
        })?;
        let lists = matches!(verb, Verb::List | Verb::DeleteCollection);
        match (form, lists) {
            (("PartialObjectMetadata", _), true) => Err(Refusal::not_acceptable(
                "you requested PartialObjectMetadata, but the requested object is a list",
            )),
            (("PartialObjectMetadataList", _), false) => Err(Refusal::not_acceptable(
                "you requested PartialObjectMetadataList, but the requested object is not a list",
            )),
            ((_, form), _) => Ok(form),
        }
    }

    /// The media type of one part of the header, if it is one that this server knows.
    fn media(part: &str) -> Option<&str> {
        let known = [
            "application/json",
            "application/yaml",
            "application/vnd.kubernetes.protobuf",
            "application/*",
            "*/*",
        ];
        let media = part.split(';').next().unwrap_or_default().trim();
        known.contains(&media).then_some(media)
    }

    /// A form by one part of the header: `application/json;as=Table;v=v1;g=meta.k8s.io`.
    fn of_media(part: &str) -> Option<(&str, Self)> {
        Self::media(part)?;
        let mut pieces = part.split(';').map(str::trim);
        match pieces.find_map(|piece| piece.strip_prefix("as=")) {
            None => Some(("", Self::Full)),
            Some("Table") => Some(("Table", Self::Table)),
            Some(partial @ ("PartialObjectMetadata" | "PartialObjectMetadataList")) => {
                Some((partial, Self::Metadata))
            }
            Some(_) => None,
        }
    }
}

/// A request to a resource, taken apart.
#[derive(Clone, Debug)]
pub struct Ask {
    /// What it is about.
    pub target: Target,
    /// What is to be done.
    pub verb: Verb,
    /// How.
    pub options: Options,
    /// In which form the answer is wanted.
    pub form: Form,
    /// The media type of the body, without parameters.
    pub content_type: String,
    /// Who sends it, by its own account: the default field manager.
    pub user_agent: String,
}

impl Ask {
    /// Takes a request apart; `None` if it is not about a resource.
    pub fn parse(parts: &Parts) -> Option<Result<Self, Refusal>> {
        let target = Target::parse(parts.uri.path())?;
        let options = match Options::parse(parts.uri.query().unwrap_or_default()) {
            Ok(options) => options,
            Err(refusal) => return Some(Err(refusal)),
        };
        let text = |name| {
            parts
                .headers
                .get(name)
                .and_then(|value| value.to_str().ok())
                .unwrap_or_default()
        };
        let media = text(http::header::CONTENT_TYPE)
            .split(';')
            .next()
            .unwrap_or_default();
        let verb = Verb::of(&parts.method, &target, options.watch).ok_or_else(Refusal::method_not_allowed);
        let understood = verb.and_then(|verb| {
            options.check(verb)?;
            Ok((verb, Form::accepted(&parts.headers, verb)?))
        });
        Some(understood.map(|(verb, form)| Self {
            form,
            content_type: media.trim().to_owned(),
            user_agent: text(http::header::USER_AGENT).to_owned(),
            target,
            verb,
            options,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_taken_apart() {
        let target = |path: &str| {
            let t = Target::parse(path)?;
            let or = |part: Option<String>| part.unwrap_or_else(|| "-".to_owned());
            Some(format!(
                "{}/{} {} {} {} {}",
                t.group,
                t.version,
                t.plural,
                or(t.namespace),
                or(t.name),
                or(t.subresource)
            ))
        };
        let table = [
            ("/api/v1/pods", Some("/v1 pods - - -")),
            ("/api/v1/namespaces", Some("/v1 namespaces - - -")),
            ("/api/v1/namespaces/a", Some("/v1 namespaces - a -")),
            ("/api/v1/namespaces/a/status", Some("/v1 namespaces - a status")),
            (
                "/api/v1/namespaces/a/pods/b/eviction",
                Some("/v1 pods a b eviction"),
            ),
            (
                "/apis/apps/v1/namespaces/a/deployments",
                Some("apps/v1 deployments a - -"),
            ),
            (
                "/apis/karpenter.sh/v1/nodepools/x/scale",
                Some("karpenter.sh/v1 nodepools - x scale"),
            ),
            ("/api/v1/nodes/a%2Fb", Some("/v1 nodes - a/b -")),
            ("/api/v1", None),
            ("/apis/apps/v1", None),
            ("/version", None),
        ];
        for (path, expected) in table {
            assert_eq!(target(path).as_deref(), expected, "{path}");
        }
    }
}
