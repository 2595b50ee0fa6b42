//! Being seen as somebody else: `kubectl --as`. Each name, group and extra must be allowed by the verb `impersonate`.

use http::{HeaderMap, HeaderName};

use super::attempt::{Attempt, Resource};
use super::{
    ANONYMOUS, AUTHENTICATED, UNAUTHENTICATED, User, account_of, authorize_attempt, service_account,
};
use crate::sim::kube::refusal::Refusal;
use crate::sim::kube::server::ApiServer;

const EXTRA_PREFIX: &str = "impersonate-extra-";

/// What the headers of a request ask for.
#[derive(Debug, Default, PartialEq, Eq)]
struct Wanted {
    user: Option<String>,
    uid: Option<String>,
    groups: Vec<String>,
    extra: Vec<(String, String)>,
}

impl Wanted {
    fn read(headers: &HeaderMap) -> Self {
        let text = |value: &http::HeaderValue| value.to_str().ok().map(str::to_owned);
        let one = |name: &str| headers.get(name).and_then(text).filter(|value| !value.is_empty());
        let key = |name: &HeaderName| {
            let key = name.as_str().strip_prefix(EXTRA_PREFIX)?;
            let decoded = percent_encoding::percent_decode_str(key).decode_utf8_lossy();
            Some(decoded.into_owned())
        };
        let mut extra: Vec<(String, String)> = headers
            .iter()
            .filter_map(|(name, value)| Some((key(name)?, text(value)?)))
            .collect();
        // The order of headers of different names is the map's; that of equal names is the client's.
        extra.sort_by(|a, b| a.0.cmp(&b.0));
        Self {
            user: one("impersonate-user"),
            uid: one("impersonate-uid"),
            groups: headers
                .get_all("impersonate-group")
                .iter()
                .filter_map(text)
                .collect(),
            extra,
        }
    }
}

/// The user whom the headers ask for, if the sender may be seen as them; the sender if they ask for nobody.
pub fn apply(server: &ApiServer, sender: User, headers: &HeaderMap) -> Result<User, Refusal> {
    let wanted = Wanted::read(headers);
    let Some(name) = &wanted.user else {
        return if wanted == Wanted::default() {
            Ok(sender)
        } else {
            let problem = "requested groups, extras or a uid without impersonating a user";
            Err(Refusal::bad_request(problem))
        };
    };
    allowed(server, &sender, name, &wanted)?;
    let mut user = match account_of(name) {
        Some((namespace, account)) if wanted.groups.is_empty() => service_account(namespace, account),
        _ => User {
            name: name.clone(),
            groups: wanted.groups.clone(),
            ..User::default()
        },
    };
    add_implied_group(&mut user);
    user.uid = wanted.uid.unwrap_or_default();
    for (key, value) in wanted.extra {
        user.extra.entry(key).or_default().push(value);
    }
    Ok(user)
}

fn allowed(server: &ApiServer, sender: &User, name: &str, wanted: &Wanted) -> Result<(), Refusal> {
    let core = Resource::default();
    let authentication = Resource {
        group: "authentication.k8s.io",
        ..core
    };
    let mut resources = vec![match account_of(name) {
        Some((namespace, name)) => Resource {
            plural: "serviceaccounts",
            namespace,
            name,
            ..core
        },
        None => Resource {
            plural: "users",
            name,
            ..core
        },
    }];
    resources.extend(wanted.groups.iter().map(|name| Resource {
        plural: "groups",
        name,
        ..core
    }));
    resources.extend(wanted.extra.iter().map(|(key, value)| Resource {
        plural: "userextras",
        subresource: key,
        name: value,
        ..authentication
    }));
    resources.extend(wanted.uid.iter().map(|name| Resource {
        plural: "uids",
        name,
        ..authentication
    }));
    let state = server.state();
    resources.into_iter().try_for_each(|resource| {
        authorize_attempt(&state, sender, &Attempt::on_resource("impersonate", resource))
    })
}

/// Everybody is in one of two groups, unless the request says so itself.
fn add_implied_group(user: &mut User) {
    let implied = if user.name == ANONYMOUS {
        UNAUTHENTICATED
    } else {
        AUTHENTICATED
    };
    if !user.is_in(implied) && !user.is_in(UNAUTHENTICATED) {
        user.groups.push(implied.to_owned());
    }
}
