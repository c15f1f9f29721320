//! Capabilities and their doubles, and effects beside the direct code they stand for.

mod capabilities {
    pub mod doubles;
    pub mod effects;
}
