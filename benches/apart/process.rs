//! The operator's process, and what it costs.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use karpenter_ibm::api::IBMNodeClass;
use karpenter_ibm::clock::Clock;
use kube::Api;

use super::place::Place;

/// Five times the usual budget, so that a run takes minutes and not half an hour: what is held in memory hangs on how
/// many claims there are, not on how long they wait.
pub(crate) const REQUESTS_PER_SECOND: u32 = 50;
/// What the kernel counts CPU time in, a second.
const TICKS: f64 = 100.0;

/// A running operator. It ends when this is dropped.
pub(crate) struct Operator(Child);

impl Operator {
    /// Starts it, and waits until it has resolved the class.
    pub(crate) async fn start(place: &Place) -> Result<Self> {
        let operator = Command::new(env!("CARGO_BIN_EXE_karpenter-ibm"))
            .arg("controller")
            .args(["--region", "us-south", "--listen", "127.0.0.1:0"])
            .args(["--endpoint", &place.endpoint])
            .args(["--ibm-requests-per-second", &REQUESTS_PER_SECOND.to_string()])
            // What the kubeconfig says is the loopback. None of the machines boots.
            .args(["--cluster-endpoint", "https://10.240.0.5:6443"])
            .env("KUBECONFIG", &place.operator)
            .env("IBMCLOUD_API_KEY", "demo-api-key")
            .env("RUST_LOG", "error")
            .stdout(Stdio::null())
            .spawn()?;
        let operator = Self(operator);
        let classes: Api<IBMNodeClass> = Api::all(place.client.clone());
        for _ in 0..60 {
            Clock::system().sleep(Duration::from_secs(1)).await;
            let class = classes.get("default").await?;
            let conditions = class
                .status
                .and_then(|status| status.conditions)
                .unwrap_or_default();
            if conditions
                .iter()
                .any(|it| it.type_ == "Ready" && it.status == "True")
            {
                return Ok(operator);
            }
        }
        anyhow::bail!("the class does not become ready")
    }

    /// A line of its status in MB: `VmRSS:` is what it has now, `VmHWM:` the most it ever had.
    pub(crate) fn memory_mb(&self, line: &str) -> Result<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.0.id()))?;
        let value = status.lines().find_map(|it| it.strip_prefix(line));
        let kib = value
            .and_then(|it| it.split_whitespace().next())
            .context("no such line")?;
        Ok(kib.parse::<u64>()? / 1000)
    }

    /// How long it has computed.
    pub(crate) fn cpu_seconds(&self) -> Result<f64> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.0.id()))?;
        // The name in parentheses may have spaces.
        let (_, rest) = stat.rsplit_once(')').context("no name in stat")?;
        let fields: Vec<&str> = rest.split_whitespace().collect();
        ensure!(fields.len() > 12, "stat is short");
        Ok((fields[11].parse::<f64>()? + fields[12].parse::<f64>()?) / TICKS)
    }

    /// What it has cost, in words.
    pub(crate) fn cost(&self) -> Result<String> {
        Ok(format!(
            "the operator's process: {} MB at most, {:.1} s of CPU",
            self.memory_mb("VmHWM:")?,
            self.cpu_seconds()?
        ))
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        // It is gone already, or goes now.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
