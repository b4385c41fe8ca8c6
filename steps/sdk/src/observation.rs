//! What a probe found.

/// Whether the desired state holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Observation<Output> {
    /// It holds; this is what `run` would have answered.
    Satisfied(Output),
    /// It does not hold: what `run` would change, for a person to read. Cut at 64 KiB.
    Unsatisfied(String),
    /// It cannot be told: why. The host stops for a person.
    Unknown(String),
}

impl<Output> Observation<Output> {
    /// The same observation with another output.
    ///
    /// # Errors
    /// What `change` answers.
    pub fn try_map<Other, Error>(
        self,
        change: impl FnOnce(Output) -> Result<Other, Error>,
    ) -> Result<Observation<Other>, Error> {
        Ok(match self {
            Self::Satisfied(output) => Observation::Satisfied(change(output)?),
            Self::Unsatisfied(difference) => Observation::Unsatisfied(difference),
            Self::Unknown(reason) => Observation::Unknown(reason),
        })
    }
}
