//! A secret shows nowhere.

use std::fmt::Write as _;
use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use karpenter_ibm::ibm::vpc::instances::InstanceFilter;
use karpenter_ibm::ibm::vpc::types::AvailabilityClass;
use karpenter_ibm::sim::ibm::{Fault, FaultKind};

use super::World;

const CANARY: &str = "canary-key-3b9d1f7a";

/// Everything that is written, to be looked through.
#[derive(Clone, Default)]
struct Heard(Arc<Mutex<Vec<u8>>>);

impl Write for Heard {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn a_canary_key_appears_in_no_log_error_metric_or_debug_output() {
    let heard = Heard::default();
    let writer = heard.clone();
    let log = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_writer(move || writer.clone())
        .finish();
    let _log = tracing::subscriber::set_default(log);

    let world = World::with(CANARY, |cloud| Arc::new(cloud.exchange()));
    let mut said = String::new();
    for kind in FaultKind::ALL {
        world.cloud.faults().start(Fault::new(*kind).probability(0.5));
        let order = world.order(kind.as_str(), AvailabilityClass::Spot);
        match world.client.vpc.create_instance(&order).await {
            Ok(instance) => write!(said, "{instance:?}").unwrap(),
            Err(error) => write!(said, "{error} {error:?}").unwrap(),
        }
        if let Err(error) = world.client.vpc.list_instances(&InstanceFilter::default()).await {
            write!(said, "{error} {error:?}").unwrap();
        }
        world.cloud.faults().clear();
    }
    // Let the last rate limit pass.
    world.clock.sleep(Duration::from_mins(5)).await;
    world.cloud.set_api_keys(&["another"]);
    world.cloud.revoke_tokens();
    let refused = world.client.vpc.list_vpcs().await.unwrap_err();
    assert_eq!(refused.kind(), "unauthorized");
    write!(said, "{refused} {refused:?} {}", world.metrics()).unwrap();

    let log = String::from_utf8(heard.0.lock().unwrap().clone()).unwrap();
    assert!(log.contains("asked IBM Cloud"), "the log was not heard");
    assert!(said.contains("karpenter_ibm_api_requests_total"));
    for (where_, text) in [("log", &log), ("errors, metrics or debug output", &said)] {
        assert!(!text.contains(CANARY), "the key is in the {where_}");
        assert!(!text.contains("eyJ"), "a token is in the {where_}");
    }
}
