//! What the whole promises, tested from outside. One binary, so that it is linked once.

mod kubectl;
