//! Checks built step components: `worlds <directory> [<directory>]`.
//!
//! Each component must export the step interface, and import exactly the capabilities that its
//! descriptor requests. With a second directory, built in another way, each component there must have
//! the same world. WASI interfaces are left out: the toolchain brings them in, and which ones depends
//! on how a component was built.

use std::{collections::BTreeSet, env, fs, path::Path, process::ExitCode};

use anyhow::{Context as _, Result, bail, ensure};
use fettle_step::Step;
use serde_json::Value;
use wit_component::DecodedWasm;

/// Every step's component. `every_step.rs` checks that none is missing in the table of the steps.
fn steps() -> Vec<(&'static str, Box<dyn Step>)> {
    vec![
        ("fettle_step_artifact_pull_oci", Box::new(fettle_step_artifact_pull_oci::step())),
        ("fettle_step_command_exec_allowlisted", Box::new(fettle_step_command_exec_allowlisted::step())),
        ("fettle_step_credential_mint", Box::new(fettle_step_credential_mint::step())),
        ("fettle_step_policy_activate", Box::new(fettle_step_policy_activate::step())),
        ("fettle_step_file_render", Box::new(fettle_step_file_render::step())),
        ("fettle_step_gpu_runtime_check", Box::new(fettle_step_gpu_runtime_check::step())),
        ("fettle_step_health_check", Box::new(fettle_step_health_check::step())),
        ("fettle_step_http_check", Box::new(fettle_step_http_check::step())),
        ("fettle_step_noop", Box::new(fettle_step_noop::step())),
        ("fettle_step_testing", Box::new(fettle_step_testing::step())),
    ]
}

fn main() -> ExitCode {
    match check() {
        Ok(count) => {
            println!("{count} components have the world they should have");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn check() -> Result<usize> {
    let directories: Vec<String> = env::args().skip(1).collect();
    ensure!(!directories.is_empty(), "name the directory of the components, like `target/wasm32-wasip2/step`");
    for directory in &directories {
        for (name, step) in steps() {
            check_component(&Path::new(directory).join(format!("{name}.wasm")), &*step)?;
        }
    }
    Ok(directories.len() * steps().len())
}

/// What the descriptor says is the same for every way to build, so equal worlds need no comparison of
/// their own: each equals what its descriptor asks for.
fn check_component(path: &Path, step: &dyn Step) -> Result<()> {
    let shown = path.display();
    let (imports, exports) = world(path).with_context(|| format!("cannot read the component `{shown}`"))?;
    ensure!(
        exports == ["fettle:step/step@0.1.0".to_owned()].into(),
        "`{shown}` exports {exports:?}; a step exports `fettle:step/step@0.1.0` and nothing else"
    );
    let requested = requested(step)?;
    let free = ["fettle:report/report@0.1.0", "fettle:step/types@0.1.0"];
    let imported: BTreeSet<String> = imports.into_iter().filter(|name| !free.contains(&name.as_str())).collect();
    ensure!(imported == requested, "`{shown}` imports {imported:?}, and its descriptor requests {requested:?}");
    Ok(())
}

/// The imports, WASI left out, and the exports.
fn world(path: &Path) -> Result<(BTreeSet<String>, BTreeSet<String>)> {
    let DecodedWasm::Component(resolve, world) = wit_component::decode(&fs::read(path)?)? else {
        bail!("it is a WIT package, not a component");
    };
    let world = resolve.worlds.get(world).context("it has no world")?;
    let imports = world.imports.keys().map(|key| resolve.name_world_key(key)).filter(|name| !name.starts_with("wasi:"));
    Ok((imports.collect(), world.exports.keys().map(|key| resolve.name_world_key(key)).collect()))
}

/// The interfaces of the capabilities that the descriptor requests.
fn requested(step: &dyn Step) -> Result<BTreeSet<String>> {
    let descriptor: Value = serde_json::from_str(&step.describe())?;
    let requests = descriptor.get("requests").and_then(Value::as_object).context("the descriptor has no requests")?;
    Ok(requests.keys().map(|name| format!("fettle:{name}/{name}@0.1.0")).collect())
}
