//! The suite that every store must pass. A store's crate calls [`crate::laws!`] with a function that
//! opens an empty store; each law becomes one test, named after it.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a law fails by panicking")]

pub mod definitions;
pub mod denials;
pub mod execution;
pub mod fixture;
pub mod leases;
pub mod node_sets;
pub mod nodes;
pub mod operations;
pub mod pages;
pub mod policies;
pub mod recovery;
pub mod reports;
pub mod retention;
pub mod retries;
pub mod segments;
pub mod together;
pub mod tokens;
pub mod webhooks;

/// Makes one test per law. `$open` is an async function that answers a guard and an empty store; none where
/// its database is not installed.
#[macro_export]
macro_rules! laws {
    ($open:path) => {
        $crate::laws!(@each $open;
            definitions: a_version_never_changes, registering_again_is_the_same_version, places_may_move,
                a_draft_is_amended_until_it_is_published, a_draft_stays_the_version_that_it_is,
                a_version_is_deprecated_then_retired, no_operation_is_made_of_a_retired_version;
            tokens: a_name_is_unique_until_it_is_revoked, a_revoked_or_expired_token_is_not_valid,
                a_project_keeps_its_organisation, a_rotated_secret_ends_after_its_overlap, the_last_use_is_remembered;
            nodes: a_join_token_is_used_up, a_lost_answer_does_not_use_a_join_token_up_twice, a_name_is_not_taken_over,
                an_expired_join_token_joins_nobody, a_heartbeat_is_remembered, a_certificate_is_remembered,
                a_revoked_node_gets_no_certificate, a_key_belongs_to_one_node,
                labels_of_a_join_token_stay, a_question_that_is_given_up_spoils_no_other;
            node_sets: a_node_set_holds_what_was_put_last, a_node_set_is_gone_once_it_is_deleted;
            operations: creating_writes_everything_at_once, a_key_makes_one_operation,
                a_key_with_another_request_is_refused, the_same_key_at_once_makes_one_operation, lists_are_paged,
                canceling_what_no_node_has_taken_ends_it, canceling_what_runs_asks_the_node,
                what_is_over_cannot_be_canceled, another_project_sees_nothing;
            execution: an_operation_has_one_task_per_node, what_waits_is_told_in_order_and_given_one_by_one, an_operation_of_no_node_is_refused,
                a_failure_beyond_the_budget_skips_the_rest, only_so_many_nodes_work_on_it_at_once,
                only_so_many_operations_of_a_type_are_under_way, organisations_take_turns_on_a_node,
                the_higher_priority_goes_first, a_node_that_lacks_a_capability_is_given_nothing,
                a_task_that_is_kept_back_keeps_nobodys_turn,
                a_task_says_why_it_waits, what_waits_past_its_deadline_fails, what_runs_past_its_deadline_is_stopped,
                logs_say_which_node;
            retries: a_retry_keeps_what_succeeded, a_retry_runs_a_step_again_that_is_not_reusable,
                attempts_are_numbered_across_runs, a_retry_leaves_nodes_alone_that_succeeded,
                a_retry_of_one_node_leaves_the_others_as_they_are, an_unknown_outcome_is_for_a_person,
                what_is_not_over_or_succeeded_is_not_retried, what_was_canceled_is_retried,
                a_report_of_an_earlier_run_changes_nothing;
            together: operations_are_created_each_on_its_own, leases_are_held_each_on_its_own, reports_are_stored_each_on_its_own, tasks_end_each_on_its_own,
                tasks_of_one_operation_end_together;
            recovery: what_was_found_out_is_kept_and_told, an_inquiry_asks_only_what_is_in_question,
                an_inquiry_that_proves_nothing_leaves_it_in_question, a_persons_word_decides,
                what_a_person_says_did_not_happen_may_run_again,
                what_ran_on_a_node_that_was_not_heard_of_again_is_in_question, a_task_is_leased_only_so_often,
                a_lease_that_is_held_again_does_not_count;
            leases: each_lease_has_a_higher_epoch, a_node_is_never_given_more_than_its_slots,
                a_task_is_leased_to_its_own_node_only, an_unacknowledged_lease_expires, a_lease_that_expired_is_held_again_under_its_epoch, an_extension_tells_a_task_that_is_over, an_extended_lease_does_not_expire,
                nothing_is_accepted_under_an_old_epoch, nothing_is_accepted_after_expiry_before_the_next_lease,
                a_node_keeps_what_it_holds, what_a_node_does_not_hold_is_leased_again,
                what_is_over_is_dropped_by_its_node, an_expired_lease_of_a_canceled_task_ends_it,
                accepted_outputs_travel_with_the_next_lease, spared_leases_do_not_expire,
                a_lease_carries_the_trace_of_its_operation, open_tasks_are_counted,
                a_credential_is_for_whoever_holds_the_task;
            reports: an_event_is_applied_once, a_result_is_accepted_once, a_result_survives_wrong_counting,
                an_unknown_step_is_refused_alone, a_task_is_complete_when_every_step_succeeded,
                ending_twice_is_ending_once, a_failure_settles_every_step, canceled_needs_a_request,
                the_story_is_told_in_order, logs_are_paged_by_step, long_lines_are_cut, lines_of_any_bytes_are_stored, mutations_are_audited;
            denials: a_denied_call_is_audited_once, a_denied_call_is_never_lost_to_wrong_counting,
                a_denied_call_of_an_unknown_step_is_refused_alone, a_denied_call_is_small_whatever_a_node_says;
            policies: an_overlay_is_changed_only_as_it_was_read, of_two_changes_at_once_one_is_refused,
                scopes_do_not_see_each_other, a_chain_is_of_one_project_and_one_type, a_deleted_overlay_says_nothing,
                changes_of_overlays_are_audited, overlays_are_paged, a_decision_is_kept_with_its_operation;
            segments: segments_change_no_line_and_no_cursor, a_follower_reads_on_across_a_segment_that_closes,
                a_segment_is_bounded_in_bytes, lines_over_the_bound_of_a_node_are_dropped_with_a_mark,
                segments_are_closed_when_they_are_whole_or_the_operation_is_over;
            retention: what_is_over_is_found_by_its_end, logs_and_events_go_in_batches,
                an_operation_goes_whole_and_its_audit_rows_stay, a_chore_is_one_planes;
            webhooks: a_webhook_begins_with_what_happens_next, a_webhook_belongs_to_its_scope,
                a_scope_has_only_so_many_webhooks, a_rotated_secret_stays_good_for_a_while, a_secret_is_kept_in_another_form,
                one_plane_at_a_time_has_a_webhook, the_next_attempt_is_remembered,
                a_dead_letter_is_kept_and_told_again, a_receiver_that_is_gone_is_left_alone,
                a_deleted_webhook_leaves_no_dead_letters;
        );
    };
    (@each $open:path; $($module:ident: $($law:ident),+;)+) => {
        $(mod $module {
            use super::*;
            $(
                #[tokio::test]
                async fn $law() {
                    let Some((_guard, store)) = $open().await else { return };
                    $crate::laws::$module::$law(&*store).await;
                }
            )+
        })+
    };
}
