//! Ending tasks at their nodes' word.

use std::collections::HashMap;

use fettle_model::task::TaskOutcome;
use fettle_store::{
    StoreError,
    context::Context,
    task::{LeaseKey, Verdict},
};
use fettle_store_rows::task::refusal;

use super::held::{Held, held, start_operations};
use crate::{
    audit,
    error::unavailable,
    lane::Together,
    operation::ending::{self, Ended, TaskEnding},
    row,
    writer::Unit,
};

/// Tasks that their nodes say are over.
pub(crate) struct Finish;

/// What a node says.
pub(crate) struct Told {
    pub(crate) lease: LeaseKey,
    pub(crate) outcome: TaskOutcome,
    pub(crate) context: Context,
}

impl Together for Finish {
    const VERB: &'static str = "finish_task";
    type Asked = Told;
    type Answer = Verdict;

    async fn run(unit: &mut Unit, asked: &[Told]) -> Result<Vec<Result<Verdict, StoreError>>, StoreError> {
        let tasks: Vec<String> = asked.iter().map(|told| told.lease.task_id.to_string()).collect();
        let (mut held, unfinished) = read(unit, &tasks).await?;
        let (mut answers, mut ended, mut started) = (Vec::with_capacity(asked.len()), Vec::new(), Vec::new());
        for (told, task_id) in asked.iter().zip(&tasks) {
            let Some(held) = held.get_mut(task_id) else {
                answers.push(Ok(Verdict::Stale));
                continue;
            };
            let (reported, action) = TaskEnding::reported(told.outcome.clone());
            let ending = held.ending(reported)?;
            if let Some(answer) = refusal(held, (&told.lease, &told.outcome), &ending, unfinished.get(task_id)) {
                answers.push(answer);
                continue;
            }
            ending.status().clone_into(&mut held.status);
            if held.acknowledged == 0 {
                started.push((held.subject.operation_id.clone(), told.context.at));
            }
            audit::record_of(unit, &told.context, &held.subject, action, &format!("tasks/{task_id}"));
            let (subject, task_id) = (held.subject.clone(), task_id.clone());
            ended.push(Ended { subject, task_id, ending, context: &told.context });
            answers.push(Ok(Verdict::Accepted));
        }
        start_operations(unit, &started).await?;
        ending::end_tasks(unit, &ended).await?;
        Ok(answers)
    }
}

/// The tasks, and the first step of each that has not succeeded, with its status.
const READ: &str = concat!(
    "SELECT (",
    held!("task_id IN (SELECT value FROM json_each($1))"),
    "), (SELECT json_group_array(json_array(task_id, json_array(step_id, status)))
         FROM (SELECT task_id, step_id, status, min(step_index) FROM operation_steps
               WHERE task_id IN (SELECT value FROM json_each($1)) AND status <> 'succeeded' GROUP BY task_id))"
);

type Unfinished = HashMap<String, (String, String)>;

async fn read(unit: &mut Unit, tasks: &[String]) -> Result<(HashMap<String, Held>, Unfinished), StoreError> {
    let (held, unfinished): (String, String) = sqlx::query_as(READ)
        .bind(row::text("task", &tasks)?)
        .fetch_one(&mut unit.connection)
        .await
        .map_err(unavailable(Finish::VERB))?;
    let held: Vec<(String, Held)> = row::document("task", &held)?;
    let unfinished: Vec<(String, (String, String))> = row::document("step", &unfinished)?;
    Ok((held.into_iter().collect(), unfinished.into_iter().collect()))
}
