//! The real store, one verb at a time: it is complete before anything else happens, its machine may die before or
//! after it, and what it answers is held against the laws.

use std::sync::Arc;

use async_trait::async_trait;
use fettle_host::simulation::InPlace;
use fettle_model::{
    name::{Label, OperationType, StepId, Version},
    operation::OperationStatus,
    task::TaskOutcome,
};
use fettle_store::{
    Health, StoreError,
    audit::{AuditRecord, AuditStore, DeniedCall, Refusal},
    context::Context,
    definition::{DefinitionChange, DefinitionStore, DefinitionVersion, NewDefinitionVersion, Registered},
    event::{Event, EventStore},
    id::{DefinitionVersionId, NodeId, OperationId, TaskId, TokenId, WebhookId},
    log::{ClosedSegment, LogRecord, LogStore, SegmentBounds},
    node::{NewNode, Node, NodeCertificate, NodeFacts, NodeKeys, NodeStanding, NodeStore},
    node_set::{NodeSet, NodeSetKind, NodeSetStore},
    operation::{Created, Decision, NewInquiry, NewOperation, NewRun, NodeTask, Operation, OperationStore, Step},
    page::Page,
    policy::{PolicyDocument, PolicyScope, PolicyStore, Precondition},
    project::{Project, ProjectStore},
    retention::{Ended, RetentionStore},
    secret::SecretHash,
    task::{Extended, HeldTask, Lease, LeaseKey, OpenTasks, ReadyTask, Report, Resumed, TaskStore, Verdict, Wanted},
    token::{NewJoinToken, NewToken, Token, TokenStore},
    webhook::{Claim, Claimed, DeadLetter, NewWebhook, Settlement, Webhook, WebhookChange, WebhookScope, WebhookStore},
};
use fettle_store_sqlite::SqliteStore;
use jiff::Timestamp;
use serde_json::Value;

use crate::{
    broken::Broken,
    ledger::{EXTENSION, Ledger},
    machine::Machine,
    net::Net,
};

/// The store of one life of a plane.
pub(crate) struct WatchedStore {
    /// What does the work.
    pub(crate) inner: SqliteStore,
    /// Whose store it is.
    pub(crate) machine: Arc<Machine>,
    /// Where chance comes from.
    pub(crate) net: Arc<Net>,
    /// What is seen.
    pub(crate) ledger: Arc<Ledger>,
    /// What is broken.
    pub(crate) broken: Option<Broken>,
}

impl WatchedStore {
    async fn turn<T: Send>(
        &self,
        verb: &'static str,
        work: impl Future<Output = Result<T, StoreError>> + Send,
    ) -> Result<T, StoreError> {
        // Whoever asks at the same time may be served first.
        if !self.net.is_calm() && self.net.chance.percent(20) {
            tokio::time::sleep(self.net.chance.milliseconds(0..40)).await;
        }
        let mut answer = None;
        let lives = InPlace::complete(
            &*self.machine,
            "commit",
            Box::pin(async {
                answer = Some(work.await);
            }),
        );
        if let Some(Err(error)) = &answer {
            self.net.trace.note(&format!("{verb}: {error}"));
        }
        match answer.filter(|_| lives) {
            Some(answer) => answer,
            None => std::future::pending().await,
        }
    }

    /// The lease that somebody speaks of; a broken store believes whatever epoch is said.
    fn believed(&self, mut lease: LeaseKey) -> LeaseKey {
        if self.broken == Some(Broken::EpochUnchecked) {
            lease.epoch = self.ledger.epoch(lease.task_id).unwrap_or(lease.epoch);
        }
        lease
    }
}

macro_rules! verbs {
    ($of:ident { $(fn $name:ident($($argument:ident: $type:ty),*) -> $answer:ty;)* }) => {
        #[async_trait]
        impl $of for WatchedStore {
            $(async fn $name(&self, $($argument: $type),*) -> Result<$answer, StoreError> {
                self.turn(stringify!($name), self.inner.$name($($argument),*)).await
            })*
        }
    };
}

verbs! { AuditStore {
    fn audit(page: Page<i64>) -> Vec<AuditRecord>;
    fn denied_calls(operation: OperationId, page: Page<i64>) -> Vec<(i64, DeniedCall)>;
    fn record_refusal(refusal: Refusal, context: Context) -> ();
}}
verbs! { DefinitionStore {
    fn register_definition(version: NewDefinitionVersion, context: Context) -> Registered;
    fn change_definition(id: DefinitionVersionId, change: DefinitionChange, context: Context) -> DefinitionVersion;
    fn definition(id: DefinitionVersionId) -> Option<DefinitionVersion>;
    fn definition_version(operation_type: &OperationType, version: &Version) -> Option<DefinitionVersion>;
    fn definition_moved(id: DefinitionVersionId, action: &'static str) -> Option<Timestamp>;
    fn definitions() -> Vec<DefinitionVersion>;
}}
verbs! { EventStore {
    fn events(operation: OperationId, page: Page<i64>) -> Vec<Event>;
    fn outbox(page: Page<i64>) -> Vec<Event>;
    fn newest_event() -> i64;
}}
verbs! { LogStore {
    fn logs(operation: OperationId, node: Option<NodeId>, step: Option<&StepId>, page: Page<i64>) -> Vec<LogRecord>;
    fn logs_to_close(bounds: SegmentBounds, most: u32) -> Vec<OperationId>;
    fn close_log_segment(operation: OperationId, bounds: SegmentBounds) -> Option<ClosedSegment>;
}}
verbs! { RetentionStore {
    fn claim_chore(name: &'static str, claim: Claim, context: Context) -> bool;
    fn ended_operations(failed: bool, before: Timestamp, after: Option<Ended>, most: u32) -> Vec<Ended>;
    fn remove_logs(operations: Vec<OperationId>, most: u32) -> u64;
    fn remove_events(operations: Vec<OperationId>, most: u32) -> u64;
    fn remove_operations(operations: Vec<OperationId>, before: Timestamp) -> u64;
    fn remove_dead_letters(before: Timestamp, most: u32) -> u64;
}}
verbs! { WebhookStore {
    fn create_webhook(new: NewWebhook, context: Context) -> Webhook;
    fn webhook(scope: &WebhookScope, id: WebhookId) -> Option<Webhook>;
    fn webhooks(scope: &WebhookScope) -> Vec<Webhook>;
    fn every_webhook() -> Vec<Webhook>;
    fn change_webhook(scope: WebhookScope, id: WebhookId, change: WebhookChange, context: Context) -> Webhook;
    fn delete_webhook(scope: WebhookScope, id: WebhookId, context: Context) -> ();
    fn dead_letters(id: WebhookId, page: Page<i64>) -> Vec<DeadLetter>;
    fn replay_dead_letters(scope: WebhookScope, id: WebhookId, sequences: Option<Vec<i64>>, context: Context) -> u64;
    fn replays(id: WebhookId) -> Vec<DeadLetter>;
    fn has_active_webhooks() -> bool;
    fn claim_webhooks(claim: Claim, context: Context) -> Claimed;
    fn release_webhooks(owner: String) -> ();
    fn settle_delivery(settlement: Settlement, context: Context) -> bool;
    fn count_dead_letters() -> u64;
}}
verbs! { NodeSetStore {
    fn put_node_set(set: NodeSet, context: Context) -> ();
    fn node_set(project: &Label, kind: NodeSetKind, name: &Label) -> Option<NodeSet>;
    fn node_sets(project: &Label, kind: NodeSetKind) -> Vec<NodeSet>;
    fn delete_node_set(project: &Label, kind: NodeSetKind, name: &Label, context: Context) -> ();
}}
verbs! { PolicyStore {
    fn put_policy(scope: PolicyScope, operation_type: OperationType, overlay: fettle_model::overlay::Overlay, precondition: Precondition, context: Context) -> PolicyDocument;
    fn delete_policy(scope: PolicyScope, operation_type: OperationType, precondition: Precondition, context: Context) -> ();
    fn policy(scope: &PolicyScope, operation_type: &OperationType) -> Option<PolicyDocument>;
    fn policies(scope: &PolicyScope, page: Page<OperationType>) -> Vec<PolicyDocument>;
    fn policy_chain(project: &Project, operation_type: &OperationType) -> Vec<PolicyDocument>;
    fn decision(project: &Label, id: OperationId) -> Option<Value>;
}}
verbs! { ProjectStore {
    fn ensure_project(project: Project, context: Context) -> ();
    fn project(project_id: &Label) -> Option<Project>;
    fn has_organisation(org_id: &Label) -> bool;
}}
verbs! { TokenStore {
    fn create_token(token: NewToken, context: Context) -> Token;
    fn tokens() -> Vec<Token>;
    fn revoke_token(id: TokenId, context: Context) -> Token;
    fn rotate_token(id: TokenId, hash: SecretHash, overlap_until: Timestamp, context: Context) -> Token;
    fn record_token_use(id: TokenId, context: Context) -> ();
    fn token_by_hash(hash: SecretHash) -> Option<Token>;
    fn create_join_token(token: NewJoinToken, context: Context) -> ();
}}
verbs! { OperationStore {
    fn create_operation(operation: NewOperation, context: Context) -> Created;
    fn operation(project: &Label, id: OperationId) -> Option<Operation>;
    fn operation_by_key(project: &Label, key: &str) -> Option<Operation>;
    fn operations(project: &Label, status: Option<OperationStatus>, page: Page<OperationId>) -> Vec<Operation>;
    fn steps(id: OperationId) -> Vec<Step>;
    fn node_tasks(id: OperationId, heard_since: Timestamp) -> Vec<NodeTask>;
    fn retry_operation(project: &Label, id: OperationId, run: NewRun, context: Context) -> Operation;
    fn inquire(project: &Label, id: OperationId, inquiry: NewInquiry, context: Context) -> Operation;
    fn decide(project: &Label, id: OperationId, decision: Decision, run: Option<NewRun>, context: Context) -> Operation;
    fn expire_operations(context: Context) -> u64;
    fn next_operation_deadline() -> Option<Timestamp>;
    fn cancel_operation(project: &Label, id: OperationId, context: Context) -> Operation;
}}

#[async_trait]
impl NodeStore for WatchedStore {
    async fn join_node(&self, node: NewNode, join_token: SecretHash, context: Context) -> Result<Node, StoreError> {
        let work = async {
            let joined = self.inner.join_node(node, join_token, context).await?;
            self.ledger.joined(&joined.facts.name);
            Ok(joined)
        };
        self.turn("join_node", work).await
    }

    async fn update_node(&self, id: NodeId, facts: NodeFacts, context: Context) -> Result<Node, StoreError> {
        self.turn("update_node", self.inner.update_node(id, facts, context)).await
    }

    async fn record_certificate(
        &self,
        id: NodeId,
        keys: NodeKeys,
        certificate: NodeCertificate,
        context: Context,
    ) -> Result<(), StoreError> {
        self.turn("record_certificate", self.inner.record_certificate(id, keys, certificate, context)).await?;
        self.ledger.certified();
        Ok(())
    }

    async fn revoke_node(&self, id: NodeId, context: Context) -> Result<Node, StoreError> {
        self.turn("revoke_node", self.inner.revoke_node(id, context)).await
    }

    async fn record_heartbeat(&self, id: NodeId, context: Context) -> Result<(), StoreError> {
        self.turn("record_heartbeat", self.inner.record_heartbeat(id, context)).await
    }

    async fn node(&self, id: NodeId) -> Result<Option<Node>, StoreError> {
        self.turn("node", self.inner.node(id)).await
    }

    async fn node_by_name(&self, name: &str) -> Result<Option<Node>, StoreError> {
        self.turn("node_by_name", self.inner.node_by_name(name)).await
    }

    async fn node_standing(&self, id: NodeId) -> Result<Option<NodeStanding>, StoreError> {
        self.turn("node_standing", self.inner.node_standing(id)).await
    }

    async fn nodes(&self) -> Result<Vec<Node>, StoreError> {
        self.turn("nodes", self.inner.nodes()).await
    }
}

#[async_trait]
impl TaskStore for WatchedStore {
    async fn lease_tasks(
        &self,
        node_id: NodeId,
        wanted: Wanted,
        acknowledge_by: Timestamp,
        context: Context,
    ) -> Result<Vec<Lease>, StoreError> {
        let work = async {
            let leases = self.inner.lease_tasks(node_id, wanted, acknowledge_by, context).await?;
            self.ledger.leased(node_id, &leases);
            Ok(leases)
        };
        self.turn("lease_tasks", work).await
    }

    async fn held_task(&self, lease: LeaseKey) -> Result<Option<HeldTask>, StoreError> {
        self.turn("held_task", self.inner.held_task(self.believed(lease))).await
    }

    async fn record_credential(
        &self,
        lease: LeaseKey,
        details: Value,
        context: Context,
    ) -> Result<Verdict, StoreError> {
        let work = self.inner.record_credential(self.believed(lease), details, context);
        self.turn("record_credential", work).await
    }

    async fn ready_tasks(&self, node_id: NodeId) -> Result<Vec<ReadyTask>, StoreError> {
        self.turn("ready_tasks", self.inner.ready_tasks(node_id)).await
    }

    async fn resume_leases(
        &self,
        node_id: NodeId,
        held: Vec<TaskId>,
        deadline: Timestamp,
        context: Context,
    ) -> Result<Resumed, StoreError> {
        if self.broken == Some(Broken::LeasesNeverEnd) {
            return Ok(Resumed::default());
        }
        self.turn("resume_leases", self.inner.resume_leases(node_id, held, deadline, context)).await
    }

    async fn acknowledge_lease(
        &self,
        lease: LeaseKey,
        deadline: Timestamp,
        context: Context,
    ) -> Result<Verdict, StoreError> {
        let work = async {
            let verdict = self.inner.acknowledge_lease(self.believed(lease), deadline, context).await?;
            self.ledger.answered("acknowledgement", lease, verdict);
            Ok(verdict)
        };
        self.turn("acknowledge_lease", work).await
    }

    async fn apply_reports(
        &self,
        mut reports: Vec<Report>,
        context: Context,
    ) -> Result<Vec<Result<Verdict, StoreError>>, StoreError> {
        if self.broken == Some(Broken::ReportsNotDurable) && self.net.chance.percent(5) {
            return Ok(reports.iter().map(|_| Ok(Verdict::Accepted)).collect());
        }
        let said = reports.clone();
        for report in &mut reports {
            report.lease = self.believed(report.lease);
        }
        let work = async {
            let verdicts = self.inner.apply_reports(reports, context).await?;
            for (report, verdict) in said.iter().zip(&verdicts) {
                if let Ok(verdict) = verdict {
                    self.ledger.reported(report, *verdict);
                }
            }
            Ok(verdicts)
        };
        self.turn("apply_reports", work).await
    }

    async fn extend_lease(
        &self,
        lease: LeaseKey,
        deadline: Timestamp,
        context: Context,
    ) -> Result<Extended, StoreError> {
        let work = async {
            let extended = self.inner.extend_lease(self.believed(lease), deadline, context).await?;
            self.ledger.answered(EXTENSION, lease, extended.verdict);
            Ok(extended)
        };
        self.turn("extend_lease", work).await
    }

    async fn finish_task(
        &self,
        lease: LeaseKey,
        outcome: TaskOutcome,
        context: Context,
    ) -> Result<Verdict, StoreError> {
        let work = async {
            let verdict = self.inner.finish_task(self.believed(lease), outcome, context).await?;
            self.ledger.answered("end", lease, verdict);
            Ok(verdict)
        };
        self.turn("finish_task", work).await
    }

    async fn expire_leases(&self, context: Context) -> Result<u64, StoreError> {
        if self.broken == Some(Broken::LeasesNeverEnd) {
            // Or its timer would turn in circles.
            tokio::time::sleep(std::time::Duration::from_secs(10)).await;
            return Ok(0);
        }
        self.turn("expire_leases", self.inner.expire_leases(context)).await
    }

    fn bound_leases(&self, most: u32) {
        self.inner.bound_leases(most);
    }

    async fn spare_leases(&self, until: Timestamp) -> Result<(), StoreError> {
        self.turn("spare_leases", self.inner.spare_leases(until)).await
    }

    async fn next_lease_deadline(&self) -> Result<Option<Timestamp>, StoreError> {
        self.turn("next_lease_deadline", self.inner.next_lease_deadline()).await
    }

    async fn open_tasks(&self) -> Result<OpenTasks, StoreError> {
        self.turn("open_tasks", self.inner.open_tasks()).await
    }

    async fn cancel_requests(&self, node_id: NodeId) -> Result<Vec<TaskId>, StoreError> {
        self.turn("cancel_requests", self.inner.cancel_requests(node_id)).await
    }
}

#[async_trait]
impl Health for WatchedStore {
    async fn check_health(&self) -> Result<(), StoreError> {
        self.turn("check_health", self.inner.check_health()).await
    }

    async fn close(&self) {
        self.machine.complete(self.inner.close());
    }
}
