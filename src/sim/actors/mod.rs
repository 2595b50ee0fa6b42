//! The rest of a cluster: workload controllers, a scheduler, node lifecycle, volumes, machines and their kubelets.
//!
//! All of them work through the Kubernetes API alone and on the clock that they are given.

pub mod control_plane;
pub mod kubelet;
pub mod machines;
pub mod network;
pub mod node_lifecycle;
pub mod scheduler;
pub mod view;
pub mod volumes;
pub mod workloads;
