//! Which attempt is running.

use std::cell::RefCell;

/// Which attempt this is. Holds no secret.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Context {
    /// The operation that the step is part of.
    pub operation_id: String,
    /// The operation on this node.
    pub task_id: String,
    /// The step's name in its definition.
    pub step_id: String,
    /// 1 for the first start of this step in this task.
    pub attempt: u32,
    /// What ties log lines of several systems together.
    pub correlation_id: String,
}

thread_local! {
    static CURRENT: RefCell<Context> = RefCell::default();
}

/// The context of the call that is running; empty outside of one.
#[must_use]
pub fn current() -> Context {
    CURRENT.with_borrow(Clone::clone)
}

pub(crate) fn enter(context: &Context) {
    CURRENT.set(context.clone());
}
