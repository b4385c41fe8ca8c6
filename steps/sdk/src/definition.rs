//! A step: what it says of itself and its functions.

use schemars::JsonSchema;
use serde::{Serialize, de::DeserializeOwned};

use crate::{About, Context, Effect, Failure, Observation, context, descriptor, input, text};

/// The most a probe may say, in bytes.
const DIFFERENCE_LIMIT: usize = 64 * 1024;

/// A step as the host sees it: JSON text in, JSON text out. [`Definition`] is the way to have one;
/// implement it by hand only to break the contract on purpose, in a test.
pub trait Step {
    /// The descriptor, as JSON.
    fn describe(&self) -> String;

    /// Looks, changes nothing.
    ///
    /// # Errors
    /// `invalid-input` when the input does not fit, else what the step says.
    fn probe(&self, context: &Context, input: &str) -> Result<Observation<String>, Failure>;

    /// Does the work.
    ///
    /// # Errors
    /// `invalid-input` when the input does not fit, else what the step says.
    fn run(&self, context: &Context, input: &str) -> Result<String, Failure>;

    /// Takes back what `run` did; `output` is what it answered, none when it never did.
    ///
    /// # Errors
    /// `permanent` when the step has no undo, else what the step says.
    fn undo(&self, context: &Context, input: &str, output: Option<&str>) -> Result<(), Failure>;
}

type Run<Input, Output> = fn(&Input) -> Result<Output, Failure>;
type Probe<Input, Output> = fn(&Input) -> Result<Observation<Output>, Failure>;
type Undo<Input, Output> = fn(&Input, Option<&Output>) -> Result<(), Failure>;

/// A step made of plain functions over typed input and output. [`step!`](crate::step) writes it.
#[derive(Debug)]
pub struct Definition<Input, Output> {
    about: About,
    run: Run<Input, Output>,
    probe: Option<Probe<Input, Output>>,
    undo: Option<Undoing<Input, Output>>,
}

/// An undo, with the way to read back what `run` answered: only steps that undo carry it.
#[derive(Debug)]
struct Undoing<Input, Output> {
    undo: Undo<Input, Output>,
    read: fn(&str, &str) -> Result<Output, Failure>,
}

impl<Input, Output> Definition<Input, Output> {
    /// A step that runs.
    pub const fn new(about: About, run: Run<Input, Output>) -> Self {
        Self { about, run, probe: None, undo: None }
    }

    /// The same step, which can also tell whether its state holds.
    #[must_use]
    pub const fn with_probe(self, probe: Probe<Input, Output>) -> Self {
        Self { probe: Some(probe), ..self }
    }

    /// The same step, which can also take back what it did.
    #[must_use]
    pub fn with_undo(self, undo: Undo<Input, Output>) -> Self
    where
        Output: DeserializeOwned,
    {
        let read = |kind: &str, json: &str| input::parse(kind, "output", json);
        Self { undo: Some(Undoing { undo, read }), ..self }
    }
}

impl<Input, Output> Step for Definition<Input, Output>
where
    Input: DeserializeOwned + JsonSchema,
    Output: Serialize + JsonSchema,
{
    fn describe(&self) -> String {
        descriptor::describe::<Input, Output>(&self.about, self.probe.is_some(), self.undo.is_some())
    }

    fn probe(&self, context: &Context, input: &str) -> Result<Observation<String>, Failure> {
        let input: Input = input::parse(self.about.kind, "input", input)?;
        let Some(probe) = self.probe else {
            return Ok(unprobed(self.about.effect));
        };
        context::enter(context);
        Ok(match probe(&input)?.try_map(|output| input::print(self.about.kind, &output))? {
            Observation::Satisfied(output) => Observation::Satisfied(output),
            Observation::Unsatisfied(difference) => Observation::Unsatisfied(text::cut(difference, DIFFERENCE_LIMIT)),
            Observation::Unknown(reason) => Observation::Unknown(text::cut(reason, DIFFERENCE_LIMIT)),
        })
    }

    fn run(&self, context: &Context, input: &str) -> Result<String, Failure> {
        let input: Input = input::parse(self.about.kind, "input", input)?;
        context::enter(context);
        input::print(self.about.kind, &(self.run)(&input)?)
    }

    fn undo(&self, context: &Context, input: &str, output: Option<&str>) -> Result<(), Failure> {
        let Some(Undoing { undo, read }) = &self.undo else {
            let message = format!("{} cannot take back what it did; put the node right by hand", self.about.kind);
            return Err(Failure::permanent("undo.unsupported", message));
        };
        let input: Input = input::parse(self.about.kind, "input", input)?;
        let output: Option<Output> = output.map(|json| read(self.about.kind, json)).transpose()?;
        context::enter(context);
        undo(&input, output.as_ref())
    }
}

/// What a step without a probe answers. A converge step always has one: `step!` does not compile else.
fn unprobed<Output>(effect: Effect) -> Observation<Output> {
    match effect {
        Effect::Observe => Observation::Unsatisfied("reads the node and changes nothing".to_owned()),
        Effect::Converge | Effect::Consume => {
            Observation::Unknown("this step cannot tell whether it already ran, and may not be repeated".to_owned())
        }
    }
}
