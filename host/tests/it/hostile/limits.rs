//! Each limit alone: the attack is stopped by it, and goes on when that one limit is taken out.

use std::{sync::Arc, time::Duration};

use fettle_host::{
    mutation::{Protection, without},
    sandbox::{Limit, Limits},
};
use serde_json::json;

use super::{
    attacks::{Attack, Field},
    common::Heard,
    forms,
};

/// One limit, what attacks it, and what becomes of the attack when only this limit is taken out.
struct Trial {
    limit: Limit,
    attack: Attack,
    /// Small numbers, so that nothing takes long.
    limits: Limits,
    lift: fn(&mut Limits, &mut Attack),
    /// Taken out where the limit is no number that can be raised.
    protection: Option<Protection>,
    then: &'static str,
}

/// A form that was not stopped is found to be no step.
const NO_STEP: &str = "step.trapped";

fn trial(limit: Limit, attack: Attack, lift: fn(&mut Limits, &mut Attack), then: &'static str) -> Trial {
    Trial { limit, attack, limits: Limits::default(), lift, protection: None, then }
}

impl Trial {
    fn with(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }

    fn kept_by(self, protection: Protection) -> Self {
        Self { protection: Some(protection), ..self }
    }

    async fn holds(mut self) {
        let name = format!("{} against {}", self.attack.name, self.limit.code());
        let failure = Field::new(self.limits.clone()).await.launch(&self.attack).await;
        let Err(failure) = failure else { panic!("{name} was not stopped") };
        assert_eq!(failure.code, self.limit.code(), "{name}: {failure}");
        let amount = match self.limit {
            Limit::WallClock => "300 ms".to_owned(),
            other => other.amount(&self.limits),
        };
        assert!(failure.message.contains(&amount), "{name} does not say how much is allowed: {failure}");
        assert!(failure.message.contains(self.limit.advice()), "{name} does not say what to do: {failure}");
        (self.lift)(&mut self.limits, &mut self.attack);
        let _without = self.protection.map(without);
        let outcome = Field::new(self.limits.clone()).await.outcome(&self.attack).await;
        assert_eq!(outcome, self.then, "{name}, without the limit");
    }
}

fn memory() -> Vec<Trial> {
    let small = Limits { memory: 32 << 20, ..Limits::default() };
    vec![
        trial(
            Limit::Memory,
            Attack::of("a memory bomb", json!({"attack": "memory", "count": 64})),
            |limits, _| limits.memory = 256 << 20,
            "ok",
        )
        .with(small.clone()),
        trial(
            Limit::Memory,
            Attack::form("several memories, each small enough", forms::large_memories(3, 200)),
            |limits, _| limits.memory = 256 << 20,
            NO_STEP,
        )
        .with(small),
        trial(
            Limit::Memories,
            Attack::form("many memories", forms::memories(17)),
            |limits, _| limits.memories = 17,
            NO_STEP,
        ),
        trial(Limit::Tables, Attack::form("many tables", forms::tables(43)), |limits, _| limits.tables = 129, NO_STEP),
        trial(
            Limit::TableElements,
            Attack::form("a table that grows", forms::growing_table(400_000)),
            |limits, _| limits.table_elements = 400_000,
            NO_STEP,
        ),
        trial(
            Limit::Instances,
            Attack::form("many instances", forms::instances(129)),
            |limits, _| limits.instances = 129,
            NO_STEP,
        ),
        trial(
            Limit::Handles,
            Attack::of("hoarding handles", json!({"attack": "handles", "count": 1_500})),
            |limits, _| limits.handles = 10_000,
            "ok",
        ),
        // The stack is part of the engines' layout, and no number of an attempt.
        trial(Limit::Stack, Attack::form("recursion", forms::recursion(500_000)), |_, _| {}, NO_STEP)
            .kept_by(Protection::StacksAreBounded),
    ]
}

fn time() -> Vec<Trial> {
    let short = Limits { cpu: Duration::from_millis(100), ..Limits::default() };
    vec![
        trial(
            Limit::Cpu,
            Attack::of("long computation", json!({"attack": "compute", "count": 1_000})),
            |limits, _| limits.cpu = Duration::from_secs(60),
            "ok",
        )
        .with(short.clone()),
        trial(
            Limit::Cpu,
            Attack::form("an endless start", forms::endless_start()).within(Duration::from_secs(5)),
            |limits, _| limits.cpu = Duration::from_secs(60),
            Limit::WallClock.code(),
        )
        .with(short.clone()),
        trial(
            Limit::Cpu,
            Attack::of("allocation churn", json!({"attack": "churn", "count": 50})),
            |limits, _| limits.cpu = Duration::from_secs(60),
            "ok",
        )
        .with(short),
        trial(
            Limit::WallClock,
            Attack::of("sleep", json!({"attack": "sleep", "count": 1})).within(Duration::from_millis(300)),
            |_, attack| attack.timeout = Duration::from_secs(60),
            "ok",
        ),
    ]
}

fn host_calls() -> Vec<Trial> {
    let few = Limits { host_calls: 1_000, ..Limits::default() };
    let total = Limits { host_bytes: 4 << 20, ..Limits::default() };
    vec![
        trial(
            Limit::HostCall,
            Attack::of("a giant argument", json!({"attack": "argument", "count": 9})),
            |limits, _| limits.host_call = 16 << 20,
            "ok",
        ),
        trial(
            Limit::HostCall,
            Attack::of("a giant answer", json!({"attack": "random", "count": 9})),
            |limits, _| limits.host_call = 16 << 20,
            "ok",
        ),
        trial(
            Limit::HostCalls,
            Attack::of("a loop around host calls", json!({"attack": "calls", "count": 1_500})),
            |limits, _| limits.host_calls = 100_000,
            "ok",
        )
        .with(few),
        trial(
            Limit::HostBytes,
            Attack::of("a flood of output", json!({"attack": "streams", "count": 8})),
            |limits, _| limits.host_bytes = 256 << 20,
            "ok",
        )
        .with(total.clone()),
        trial(
            Limit::HostBytes,
            Attack::of("many large arguments", json!({"attack": "log", "count": 100_000})),
            |limits, _| (limits.host_bytes, limits.host_calls) = (256 << 20, 1_000_000),
            "ok",
        )
        .with(total),
        trial(
            Limit::Output,
            Attack::of("a giant output", json!({"attack": "output", "count": 2_000_000})),
            |limits, _| limits.output = 4 << 20,
            "ok",
        ),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_of_memory_hold_and_attacks_succeed_without_them() {
    for trial in memory() {
        trial.holds().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_of_time_hold_and_attacks_succeed_without_them() {
    for trial in time() {
        trial.holds().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_of_host_calls_hold_and_attacks_succeed_without_them() {
    for trial in host_calls() {
        trial.holds().await;
    }
}

#[test]
fn every_limit_is_attacked() {
    let tried: Vec<Limit> = [memory(), time(), host_calls()].into_iter().flatten().map(|trial| trial.limit).collect();
    for limit in Limit::ALL {
        assert!(tried.contains(&limit), "no attack tries {}; add one in this file", limit.code());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_counts_as_much_as_an_argument() {
    let limits = Limits { host_call: 512 << 10, ..Limits::default() };
    let attack = Attack::of("reading a large file", json!({"attack": "answer", "count": 3, "target": "data/large"}));
    for (host_call, expected) in [(limits.host_call, Limit::HostCall.code()), (8 << 20, "ok")] {
        let field = Field::new(Limits { host_call, ..limits.clone() }).await;
        let directory = field.node.directory.path().join("data");
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::write(directory.join("large"), vec![0; 1 << 20]).unwrap();
        assert_eq!(field.outcome(&attack).await, expected);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_that_panics_says_what_it_said() {
    let failure =
        Field::new(Limits::default()).await.launch(&Attack::of("panic", json!({"attack": "panic"}))).await.unwrap_err();
    assert_eq!(failure.code, "step.panicked");
    assert!(failure.message.contains("a step that panics"), "{failure}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_calls_of_an_attempt_share_its_processor_time() {
    let field = Field::new(Limits { cpu: Duration::from_millis(600), ..Limits::default() }).await;
    // A tenth of a second each, and half of that or twice that on other machines.
    let input = json!({"attack": "compute", "count": 40}).to_string();
    let mut outcomes = Vec::new();
    let spent = fettle_host::sandbox::Spent::default();
    for _ in 0..40 {
        let mut call = field.call(Duration::from_secs(20), &Arc::new(Heard::default()));
        call.spent = spent.clone();
        outcomes.push(field.hostile.run(call, &input).await.map_err(|failure| failure.code));
    }
    assert!(outcomes.first().unwrap().is_ok(), "one call alone is not over the limit: {outcomes:?}");
    assert_eq!(outcomes.last().unwrap(), &Err(Limit::Cpu.code().to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_for_the_host_costs_no_processor_time() {
    let field = Field::new(Limits { cpu: Duration::from_millis(200), ..Limits::default() }).await;
    let attack = Attack::of("sleep", json!({"attack": "sleep", "count": 1}));
    assert_eq!(field.outcome(&attack).await, "ok");
    // Each of these calls may cross a tick of the engine; that alone costs nothing.
    let attack = Attack::of("calls", json!({"attack": "calls", "count": 300}));
    assert_eq!(field.outcome(&attack).await, "ok");
}
