//! What the IBM client does most: decode a page of machines, read a price.

use divan::Bencher;
use divan::counter::ItemsCount;
use karpenter_ibm::ibm::vpc::types::Instance;
use serde_json::{Value, json};

fn main() {
    divan::main();
}

/// A machine as the API shows it, with fields that are kept although nobody knows them.
fn machine(number: usize) -> Value {
    let reference = |id: &str| {
        json!({"id": id, "name": id, "crn": "crn:v1:bluemix:public:is:us-south:a/1::x:1",
                                      "href": "https://us-south.iaas.cloud.ibm.com/v1/x/1", "resource_type": "x"})
    };
    json!({
        "id": format!("0717_{number:08}"), "name": format!("kib-{number}"), "created_at": "2026-10-08T09:20:33Z",
        "status": "running", "status_reasons": [], "lifecycle_state": "stable", "health_state": "ok",
        "availability": {"class": "spot"}, "availability_policy": {"host_failure": "restart", "preemption": "stop"},
        "profile": reference("bxf-4x16"), "zone": reference("us-south-1"), "vpc": reference("r006-1"),
        "image": reference("r006-2"), "resource_group": reference("r006-3"), "memory": 16,
        "primary_network_attachment": {"id": "0717-1", "primary_ip": {"address": "10.240.0.5"},
            "subnet": reference("0717-2"), "virtual_network_interface": reference("0717-3")},
        "boot_volume_attachment": {"id": "0717-4", "volume": reference("r006-4")},
        "volume_attachments": [{"id": "0717-4", "volume": reference("r006-4")}],
        "vcpu": {"architecture": "amd64", "count": 4, "manufacturer": "intel", "percentage": 100},
        "network_interfaces": [reference("0717-5")], "bandwidth": 8000, "numa_count": 1,
    })
}

#[divan::bench]
fn decode_a_page_of_100_machines(bencher: Bencher<'_, '_>) {
    let page = Value::Array((0..100).map(machine).collect()).to_string();
    bencher.counter(ItemsCount::new(100_usize)).bench(|| {
        let machines: Vec<Instance> = serde_json::from_str(divan::black_box(&page)).unwrap_or_default();
        assert_eq!(machines.len(), 100);
        machines
    });
}
