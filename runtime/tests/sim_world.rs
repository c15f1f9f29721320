//! What only the simulated kernel promises: one seed is one run, time is virtual, and tests may make it fail.

#![cfg(target_os = "linux")]

#[path = "contract/rig.rs"]
#[allow(dead_code, reason = "the contract's tests use more of it")]
mod rig;

mod sim_world {
    mod clock;
    mod controls;
    mod limits;
    mod replay;

    use wo_runtime::plane::backend::BackendConfig;
    use wo_runtime::plane::backend::sim::SimBackend;

    use crate::rig::Rig;

    pub type World = Rig<SimBackend>;

    pub fn world() -> World {
        Rig::open(&BackendConfig::default())
    }
}
