//! The macro line of a step.

/// Makes a component of a step's functions, and the function `step()` that native tests call.
///
/// ```ignore
/// fettle_step::step! {
///     kind: "file.render@v1",
///     summary: "Renders a template into a file.",
///     effect: Converge,                                    // Observe | Converge | Consume
///     requests: { files: "writes the rendered file" },     // exec, files, transfer, facts, gpu: why
///     run: run,                                            // fn(&Input) -> Result<Output, Failure>
///     probe: probe,                                        // fn(&Input) -> Result<Observation<Output>, Failure>
///     undo: undo,                                          // fn(&Input, Option<&Output>) -> Result<(), Failure>
/// }
/// ```
///
/// `Input` derives `Deserialize` and `JsonSchema`, with `#[serde(deny_unknown_fields)]` so that a misspelt
/// field is a mistake; `Output` derives `Serialize` and `JsonSchema`, and `Deserialize` where there is an
/// undo. `probe` and `undo` may be left out, but a `Converge` step needs its probe:
///
/// ```compile_fail
/// fn run(_: &String) -> Result<String, fettle_step::Failure> { Ok(String::new()) }
/// fettle_step::step! { kind: "a@v1", summary: "A.", effect: Converge, requests: {}, run: run }
/// # fn main() {}
/// ```
#[macro_export]
macro_rules! step {
    (
        kind: $kind:expr,
        summary: $summary:expr,
        effect: $effect:ident,
        requests: { $($capability:ident: $why:expr),* $(,)? },
        run: $run:expr
        $(, probe: $probe:expr)?
        $(, undo: $undo:expr)?
        $(,)?
    ) => {
        const _: () = {
            let probes: &[&str] = &[$(stringify!($probe))?];
            assert!(
                !matches!($crate::Effect::$effect, $crate::Effect::Converge) || !probes.is_empty(),
                "a step with `effect: Converge` needs `probe: <function>`: only a satisfied probe is its success"
            );
        };

        /// The step, as a host calls it and as tests do.
        #[must_use]
        pub fn step() -> impl $crate::Step {
            const ABOUT: $crate::About = $crate::About {
                kind: $kind,
                summary: $summary,
                effect: $crate::Effect::$effect,
                requests: &[$(($crate::__capability!($capability), $why)),*],
            };
            $crate::Definition::new(ABOUT, $run)$(.with_probe($probe))?$(.with_undo($undo))?
        }

        $crate::export!(step);
    };
}

/// Exports what a function makes, any [`Step`](crate::Step), as the component. [`step!`](crate::step) does it by itself.
#[macro_export]
macro_rules! export {
    ($make:path) => {
        #[cfg(target_arch = "wasm32")]
        const _: () = {
            use $crate::guest;

            struct Component;

            impl guest::Guest for Component {
                fn describe() -> String {
                    $crate::Step::describe(&$make())
                }

                fn probe(context: guest::Context, input: String) -> Result<guest::Observation, guest::Failure> {
                    guest::probe(&$make(), context, &input)
                }

                fn run(context: guest::Context, input: String) -> Result<String, guest::Failure> {
                    guest::run(&$make(), context, &input)
                }

                fn undo(context: guest::Context, input: String, output: Option<String>) -> Result<(), guest::Failure> {
                    guest::undo(&$make(), context, &input, output.as_deref())
                }
            }

    $crate::bindings::export!(Component with_types_in $crate::bindings);
        };
    };
}

/// The capability of this name.
#[doc(hidden)]
#[macro_export]
macro_rules! __capability {
    (exec) => {
        $crate::Capability::Exec
    };
    (files) => {
        $crate::Capability::Files
    };
    (transfer) => {
        $crate::Capability::Transfer
    };
    (facts) => {
        $crate::Capability::Facts
    };
    (gpu) => {
        $crate::Capability::Gpu
    };
    (http) => {
        $crate::Capability::Http
    };
    (credentials) => {
        $crate::Capability::Credentials
    };
    (policy) => {
        $crate::Capability::Policy
    };
    ($other:ident) => {
        compile_error!(concat!(
            "there is no capability `",
            stringify!($other),
            "`; write exec, files, transfer, facts, gpu, http, credentials or policy"
        ))
    };
}
