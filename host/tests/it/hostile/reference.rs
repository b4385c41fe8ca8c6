//! `docs/reference/limits.md`, written from the code that keeps them.

use std::{fmt::Write as _, path::Path};

use fettle_host::{
    blocking,
    capabilities::{Queues, exec, report::Caps},
    sandbox::{Limit, Limits, ON_DEMAND_PART},
};

const FIX: &str = "run `UPDATE_DOCS=1 cargo test -p fettle-host --test it reference`, and commit it";

fn reference() -> String {
    let limits = Limits::default();
    let mut text = String::from(
        "# Limits\n\nWritten by `host/tests/it/hostile/reference.rs` from the code that keeps them; \
         do not edit it by hand.\n\n\
         ## What ends an attempt\n\n\
         Whoever reaches one is stopped with a permanent failure of this code, whose sentence says how much was \
         allowed and what to do. They hold for all calls of an attempt together, and so does `timeout`; memory, tables, \
         instances and handles are given back between the calls.\n\n\
         A policy bundle replaces some of the defaults for its nodes, and a step of a definition lowers what the node \
         allows: `limits: { memory_bytes: 536870912, processor_seconds: 120, output_bytes: 65536, host_call_bytes: 1048576, \
         host_bytes: 16777216, host_calls: 1000 }`, any of them. The others are the same everywhere: they are part of the \
         engines' layout, or no honest step comes near them.\n\n\
         | code | default | why so much | what to do |\n|---|---|---|---|\n",
    );
    for limit in Limit::ALL {
        let (code, amount) = (limit.code(), limit.amount(&limits));
        let _ = writeln!(text, "| `{code}` | {amount} | {} | {} |", limit.reason(), limit.advice());
    }
    text.push_str(
        "\n## What makes others wait\n\n\
         Full means wait, in order, never an error. While anybody waits, the host tells the plane that it has no free \
         slot, so that new tasks go to another node.\n\n\
         | what | at once | why so many |\n|---|---|---|\n",
    );
    let waits = [
        (
            "attempts",
            "`--slots` times `--concurrency`, at most 64".to_owned(),
            "each has its place in the pool; waiting for one is not the step's time",
        ),
        (
            "attempts of components too large for the pool",
            format!("one for each {ON_DEMAND_PART} of the above"),
            "their memory is mapped anew each time, and they are the large ones",
        ),
        (
            "attempts that compute for long",
            "processors less one, one at least".to_owned(),
            "after 50 ms an attempt takes turns of 10 ms, so that one processor is left to steps that ask and wait",
        ),
        ("programs", exec::NODE_CHILDREN.to_string(), "each is a process with pipes; one attempt runs one at a time"),
        (
            "blobs in transfer",
            Queues::TRANSFERS.to_string(),
            "each has a connection, a file and buffers, and a few fill every network",
        ),
        (
            "threads blocked in the kernel",
            blocking::THREADS.to_string(),
            "a dead disk or server keeps one until the kernel lets go; those left behind are logged and counted",
        ),
    ];
    for (what, amount, why) in waits {
        let _ = writeln!(text, "| {what} | {amount} | {why} |");
    }
    let Caps { line, total, lines_per_second } = Caps::default();
    let _ = write!(
        text,
        "\n## What is cut\n\n\
         Log lines of an attempt: {} KiB each, {lines_per_second} a second, {} MiB together. What is over is dropped, and \
         two lines in the log say that and how much. Standard output and standard error of a component lead nowhere and \
         count as passed in host calls; the first 4 KiB of standard error are kept for the words of a panic. What a \
         program prints is cut where its command profile says, and marked.\n\n\
         What ends an attempt is attacked in `host/tests/it/hostile/limits.rs`, what makes others wait in \
         `host/tests/it/hostile/queues.rs`, what is cut in `host/tests/it/hostile/cuts.rs`: alone, and with just that limit \
         taken out. All attacks are launched together in `host/tests/it/hostile/survival.rs`.\n",
        line >> 10,
        total >> 20
    );
    text
}

#[test]
fn the_reference_of_limits_is_what_the_host_keeps() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/reference/limits.md");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, reference()).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(found == reference(), "docs/reference/limits.md is stale; {FIX}");
}
