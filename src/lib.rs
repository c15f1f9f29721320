//! wo
