//! stub
pub mod cloud_init;
pub mod disk;
pub mod shell;
