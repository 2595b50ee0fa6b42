//! kube's own runtime on the embedded server, unchanged: what it builds on must hold through everything that a real API
//! server may do to a client.

mod controller;
mod disturbance;
mod reflector;
mod retry;
mod vanishing;

use karpenter_ibm::clock::Clock;
use karpenter_ibm::sim::kube::identity::Keys;
use karpenter_ibm::sim::kube::{ApiServer, Options};
use kube::runtime::watcher;

/// A server whose config maps are all the test's own: those that hold the cluster's certificate are taken out.
fn server() -> ApiServer {
    let clock = Clock::simulated("2026-11-16T10:00:00Z".parse().unwrap());
    let server = ApiServer::new(Options {
        clock,
        seed: 1,
        keys: Keys::Fixed,
    });
    {
        let mut state = server.state();
        let kind = state.registry.find("", "v1", "configmaps").unwrap();
        let given: Vec<_> = state.store.list(&kind.table(), None).cloned().collect();
        for config in given {
            state.store.remove(&kind, &config.key, config.value());
        }
    }
    server.announce();
    server
}

/// The ways in which kube's watcher comes to know what is there.
fn strategies() -> [(&'static str, watcher::Config); 3] {
    let default = watcher::Config::default;
    [
        ("list and watch, in small pages", default().page_size(3)),
        ("list anything and watch", old_is_fine()),
        ("streaming list", default().streaming_lists()),
    ]
}

/// Lists may be answered from a cache. kube forgets that it was told so when it lists in pages, which it does by default.
fn old_is_fine() -> watcher::Config {
    let mut config = watcher::Config::default().any_semantic();
    config.page_size = None;
    config
}
