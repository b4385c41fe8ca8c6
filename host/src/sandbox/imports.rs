//! What a component wants to import, and whether it may. Checked before anything of it runs.

use std::collections::BTreeSet;

use fettle_model::grant::{Capability, Grants};
use wasmtime::{Engine, component::Component};

use super::inert;

/// The interface that every component may import.
const REPORT: &str = "fettle:report/report";

/// The imports of a component, sorted.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Imports {
    /// Capabilities it can only use when granted.
    pub capabilities: BTreeSet<Capability>,
    /// Whether it reports.
    pub report: bool,
    /// WASI interfaces that a toolchain dragged in; linked so that they reach nothing.
    pub inert: BTreeSet<String>,
    /// Everything else. A component with any of these is refused.
    pub unknown: BTreeSet<String>,
}

impl Imports {
    /// Reads them from a compiled component.
    #[must_use]
    pub fn of(component: &Component, engine: &Engine) -> Self {
        let mut imports = Self::default();
        for (name, _) in component.component_type().imports(engine) {
            let interface = name.split_once('@').map_or(name, |(interface, _)| interface);
            let capability = Capability::ALL.into_iter().find(|capability| capability.interface() == interface);
            match capability {
                Some(capability) => {
                    imports.capabilities.insert(capability);
                }
                None if interface == REPORT => imports.report = true,
                // Types only: no function, nothing to reach.
                None if interface == "fettle:step/types" => {}
                None if inert::INTERFACES.contains(&interface) => {
                    imports.inert.insert(name.to_owned());
                }
                None => {
                    imports.unknown.insert(name.to_owned());
                }
            }
        }
        imports
    }

    /// Succeeds when every import is granted.
    ///
    /// # Errors
    /// A sentence that names the import and the line that would grant it.
    pub fn check(&self, grants: &Grants) -> Result<(), String> {
        if let Some(name) = self.unknown.first() {
            return Err(format!(
                "it imports `{name}`, which no grant can give a step; build it against fettle:step and use capabilities {}",
                Capability::ALL.map(Capability::name).join(", ")
            ));
        }
        match self.capabilities.iter().find(|capability| !grants.has(**capability)) {
            Some(capability) => Err(format!(
                "it imports `{}`, which this step is not granted; grant it in the definition with `{}`, or use a component that does not need it",
                capability.interface(),
                capability.example()
            )),
            None => Ok(()),
        }
    }
}
