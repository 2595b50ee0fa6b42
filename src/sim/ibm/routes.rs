//! Every path of every service, and what answers it.

use std::collections::{BTreeMap, BTreeSet};

use axum::Router;
use axum::extract::{RawPathParams, Request, State as Shared};
use axum::response::Response;
use axum::routing::{MethodFilter, on};

use super::ask::{Answer, Ask};
use super::errors::{Refusal, Service};
use super::state::State;
use super::{
    Cloud, catalog, control, create, geography, groups, iam, images, interfaces, network, operations, patch,
    placement, pricing, profiles, search, tags, volumes,
};

/// One operation of one service.
pub(super) struct Route {
    pub(super) method: MethodFilter,
    pub(super) path: &'static str,
    pub(super) operation: &'static str,
    pub(super) service: Service,
    pub(super) run: Handler,
}

/// Answers a request from the state, without waiting for anything.
pub(super) type Handler = fn(&mut State, &Ask) -> Result<Answer, Refusal>;

const GET: MethodFilter = MethodFilter::GET;
const POST: MethodFilter = MethodFilter::POST;
const PUT: MethodFilter = MethodFilter::PUT;
const PATCH: MethodFilter = MethodFilter::PATCH;
const DELETE: MethodFilter = MethodFilter::DELETE;

const fn route(
    service: Service,
    method: MethodFilter,
    path: &'static str,
    operation: &'static str,
    run: Handler,
) -> Route {
    Route {
        method,
        path,
        operation,
        service,
        run,
    }
}

/// What answers a path that no service has.
static UNKNOWN: Route = route(Service::Nobody, GET, "", "unknown", |_, _| {
    Err(Refusal::status(
        http::StatusCode::NOT_FOUND,
        "invalid_route",
        "The requested route does not exist",
    ))
});

use Service::{Catalog, Control, Iam, Identity, ResourceManager, Search, Tags, Vpc};

static ROUTES: &[Route] = &[
    route(Iam, POST, "/identity/token", "iam.token", iam::token),
    route(
        Identity,
        PUT,
        "/instance_identity/v1/token",
        "identity.token",
        iam::instance_token,
    ),
    route(
        Identity,
        POST,
        "/instance_identity/v1/iam_token",
        "identity.iam_token",
        iam::instance_iam_token,
    ),
    route(
        Identity,
        PUT,
        "/identity/v1/token",
        "identity.token",
        iam::instance_token,
    ),
    route(
        Identity,
        POST,
        "/identity/v1/iam_tokens",
        "identity.iam_token",
        iam::instance_iam_token,
    ),
    route(Vpc, GET, "/v1/instances", "instances.list", operations::list),
    route(Vpc, POST, "/v1/instances", "instances.create", create::create),
    route(Vpc, GET, "/v1/instances/{id}", "instances.get", operations::get),
    route(Vpc, PATCH, "/v1/instances/{id}", "instances.patch", patch::patch),
    route(
        Vpc,
        DELETE,
        "/v1/instances/{id}",
        "instances.delete",
        operations::delete,
    ),
    route(
        Vpc,
        POST,
        "/v1/instances/{id}/actions",
        "instances.action",
        operations::act,
    ),
    route(
        Vpc,
        GET,
        "/v1/instances/{id}/initialization",
        "instances.initialization",
        operations::initialization,
    ),
    route(
        Vpc,
        GET,
        "/v1/instances/{id}/network_attachments",
        "instances.networks",
        operations::network_attachments,
    ),
    route(
        Vpc,
        GET,
        "/v1/instances/{id}/network_interfaces",
        "instances.networks",
        operations::network_interfaces,
    ),
    route(
        Vpc,
        GET,
        "/v1/instances/{id}/volume_attachments",
        "instances.volumes",
        operations::volume_attachments,
    ),
    route(
        Vpc,
        GET,
        "/v1/instances/{id}/disks",
        "instances.disks",
        operations::disks,
    ),
    route(
        Vpc,
        GET,
        "/v1/instances/{id}/software_attachments",
        "instances.software",
        operations::software_attachments,
    ),
    route(Vpc, GET, "/v1/instance/profiles", "profiles.list", profiles::list),
    route(
        Vpc,
        GET,
        "/v1/instance/profiles/{name}",
        "profiles.get",
        profiles::get,
    ),
    route(Vpc, GET, "/v1/regions", "regions.list", geography::list_regions),
    route(
        Vpc,
        GET,
        "/v1/regions/{region}",
        "regions.get",
        geography::get_region,
    ),
    route(
        Vpc,
        GET,
        "/v1/regions/{region}/zones",
        "zones.list",
        geography::list_zones,
    ),
    route(
        Vpc,
        GET,
        "/v1/regions/{region}/zones/{zone}",
        "zones.get",
        geography::get_zone,
    ),
    route(Vpc, GET, "/v1/vpcs", "vpcs.list", network::list_vpcs),
    route(Vpc, GET, "/v1/vpcs/{id}", "vpcs.get", network::get_vpc),
    route(Vpc, GET, "/v1/subnets", "subnets.list", network::list_subnets),
    route(Vpc, GET, "/v1/subnets/{id}", "subnets.get", network::get_subnet),
    route(
        Vpc,
        GET,
        "/v1/subnets/{id}/reserved_ips",
        "subnets.reserved_ips",
        network::list_reserved_ips,
    ),
    route(
        Vpc,
        GET,
        "/v1/security_groups",
        "security_groups.list",
        network::list_security_groups,
    ),
    route(
        Vpc,
        GET,
        "/v1/security_groups/{id}",
        "security_groups.get",
        network::get_security_group,
    ),
    route(
        Vpc,
        GET,
        "/v1/virtual_network_interfaces",
        "interfaces.list",
        interfaces::list,
    ),
    route(
        Vpc,
        POST,
        "/v1/virtual_network_interfaces",
        "interfaces.create",
        interfaces::create,
    ),
    route(
        Vpc,
        GET,
        "/v1/virtual_network_interfaces/{id}",
        "interfaces.get",
        interfaces::get,
    ),
    route(
        Vpc,
        DELETE,
        "/v1/virtual_network_interfaces/{id}",
        "interfaces.delete",
        interfaces::delete,
    ),
    route(Vpc, GET, "/v1/images", "images.list", images::list),
    route(Vpc, GET, "/v1/images/{id}", "images.get", images::get),
    route(
        Vpc,
        GET,
        "/v1/images/{id}/instance_profiles",
        "images.profiles",
        images::list_instance_profiles,
    ),
    route(Vpc, GET, "/v1/keys", "keys.list", groups::list_keys),
    route(Vpc, GET, "/v1/keys/{id}", "keys.get", groups::get_key),
    route(Vpc, GET, "/v1/volumes", "volumes.list", volumes::list),
    route(Vpc, GET, "/v1/volumes/{id}", "volumes.get", volumes::get),
    route(Vpc, DELETE, "/v1/volumes/{id}", "volumes.delete", volumes::delete),
    route(
        Vpc,
        GET,
        "/v1/volume/profiles",
        "volume_profiles.list",
        volumes::list_profiles,
    ),
    route(
        Vpc,
        GET,
        "/v1/volume/profiles/{name}",
        "volume_profiles.get",
        volumes::get_profile,
    ),
    route(
        Vpc,
        GET,
        "/v1/placement_groups",
        "placement_groups.list",
        placement::list_groups,
    ),
    route(
        Vpc,
        GET,
        "/v1/placement_groups/{id}",
        "placement_groups.get",
        placement::get_group,
    ),
    route(
        Vpc,
        GET,
        "/v1/dedicated_hosts",
        "dedicated_hosts.list",
        placement::list_hosts,
    ),
    route(
        Vpc,
        GET,
        "/v1/dedicated_hosts/{id}",
        "dedicated_hosts.get",
        placement::get_host,
    ),
    route(
        Vpc,
        GET,
        "/v1/dedicated_host/groups/{id}",
        "dedicated_host_groups.get",
        placement::get_host_group,
    ),
    route(Catalog, GET, "/api/v1/", "catalog.list", catalog::list),
    route(Catalog, GET, "/api/v1", "catalog.list", catalog::list),
    route(Catalog, GET, "/api/v1/{id}", "catalog.get", catalog::get),
    route(
        Catalog,
        GET,
        "/api/v1/{id}/pricing",
        "catalog.pricing",
        pricing::pricing,
    ),
    route(
        Catalog,
        GET,
        "/api/v1/{id}/pricing/deployment",
        "catalog.pricing",
        pricing::pricing_deployments,
    ),
    route(
        Catalog,
        GET,
        "/api/v1/{id}/{kind}",
        "catalog.children",
        catalog::children,
    ),
    route(Tags, GET, "/v3/tags", "tags.list", tags::list),
    route(Tags, POST, "/v3/tags/attach", "tags.attach", tags::attach),
    route(Tags, POST, "/v3/tags/detach", "tags.detach", tags::detach),
    route(
        Search,
        POST,
        "/v3/resources/search",
        "search.search",
        search::search,
    ),
    route(
        ResourceManager,
        GET,
        "/v2/resource_groups",
        "resource_groups.list",
        groups::list,
    ),
    route(
        ResourceManager,
        GET,
        "/v2/resource_groups/{id}",
        "resource_groups.get",
        groups::get,
    ),
    route(Control, GET, "/sim/v1/status", "sim.status", control::status),
    route(
        Control,
        GET,
        "/sim/v1/instances",
        "sim.instances",
        control::instances,
    ),
    route(Control, POST, "/sim/v1/preempt", "sim.preempt", control::preempt),
    route(
        Control,
        POST,
        "/sim/v1/host-failure",
        "sim.host_failure",
        control::host_failure,
    ),
    route(
        Control,
        POST,
        "/sim/v1/fail-start",
        "sim.fail_start",
        control::fail_start,
    ),
    route(Control, POST, "/sim/v1/drain", "sim.drain", control::drain),
    route(Control, POST, "/sim/v1/refill", "sim.refill", control::refill),
    route(Control, POST, "/sim/v1/remove", "sim.remove", control::remove),
    route(Control, POST, "/sim/v1/restore", "sim.restore", control::restore),
    route(Control, GET, "/sim/v1/faults", "sim.faults", control::faults),
    route(
        Control,
        PUT,
        "/sim/v1/faults/{kind}",
        "sim.faults",
        control::start_fault,
    ),
    route(
        Control,
        DELETE,
        "/sim/v1/faults/{kind}",
        "sim.faults",
        control::stop_fault,
    ),
];

/// What machines do without being asked, which faults strike by these names.
const BY_ITSELF: [&str; 2] = ["instances.run", "instances.start"];

/// Every operation that a fault may be kept to, and every resource that stands for all of its operations.
pub fn operation_names() -> Vec<&'static str> {
    let asked = ROUTES.iter().filter(|route| route.service != Control);
    let named = asked.map(|route| route.operation).chain(BY_ITSELF);
    let both = named.flat_map(|name| [name, name.split_once('.').map_or(name, |(resource, _)| resource)]);
    both.collect::<BTreeSet<_>>().into_iter().collect()
}

/// All services on one port, told apart by path.
pub(super) fn router(cloud: Cloud) -> Router {
    let mut router = Router::new();
    for route in ROUTES {
        router = router.route(route.path, on(route.method, answer_with(route)));
    }
    router
        .fallback(answer_with(&UNKNOWN))
        .method_not_allowed_fallback(answer_with(&UNKNOWN))
        .with_state(cloud)
}

/// The axum handler of a route. Each request is carried out in a task of its own: a client that goes away neither
/// undoes nor halves a write.
fn answer_with(
    route: &'static Route,
) -> impl Fn(Shared<Cloud>, RawPathParams, Request) -> futures::future::BoxFuture<'static, Response> + Clone {
    move |Shared(cloud), params, request| {
        let params: BTreeMap<String, String> = params
            .iter()
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect();
        Box::pin(async move {
            let handling = Box::pin(super::handling::handle(cloud, route, params, request));
            let task = tokio::spawn(handling);
            task.await.unwrap_or_else(|_| super::handling::lost())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_may_be_kept_to_what_the_operator_calls_and_to_no_command_of_the_simulator() {
        let known = operation_names();
        for name in [
            "instances",
            "instances.create",
            "instances.start",
            "iam.token",
            "catalog.pricing",
        ] {
            assert!(known.contains(&name), "{name}");
        }
        assert!(known.iter().all(|name| !name.starts_with("sim")), "{known:?}");
    }
}
