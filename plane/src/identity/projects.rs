//! Projects that were asked for lately. What is known of one never changes: whose it is stays so for ever.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use fettle_model::name::Label;
use fettle_store::{StoreError, project::Project};

use crate::state::State;

/// Projects remembered at most; then all are forgotten.
const REMEMBERED: usize = 4096;

#[derive(Default)]
pub(crate) struct Projects(Mutex<HashMap<Label, Project>>);

impl Projects {
    /// The project of this name. One that is not there is looked for each time.
    pub(crate) async fn get(&self, state: &State, name: &Label) -> Result<Option<Project>, StoreError> {
        if let Some(known) = self.known().get(name) {
            return Ok(Some(known.clone()));
        }
        let Some(found) = state.store.project(name).await? else { return Ok(None) };
        let mut known = self.known();
        if known.len() >= REMEMBERED {
            known.clear();
        }
        known.insert(name.clone(), found.clone());
        Ok(Some(found))
    }

    fn known(&self) -> MutexGuard<'_, HashMap<Label, Project>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
