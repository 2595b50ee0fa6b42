//! A Kubernetes API server in small. So far: what it does with a custom resource before storing it.

pub mod schema;
