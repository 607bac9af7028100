//! The conformance suite of the store ports: what each sentence of `oncefold_core::store` means, checked. Both
//! backends run every case against an empty store, each as a test of its own:
//!
//! ```text
//! oncefold_testkit::store_suite!(MyFactory::start().await);
//! oncefold_testkit::spool_suite!(MyFactory::start().await);   // where there is a spool
//! ```

pub mod act;
pub mod apply;
pub mod duty;
pub mod fold;
pub mod properties;
pub mod read;
pub mod rejected;
pub mod rules;
pub mod schedule;
pub mod spool;
mod support;
pub mod trial;

use async_trait::async_trait;
use oncefold_core::store::{SpoolStore, Store};
use std::sync::Arc;

/// Gives empty stores.
#[async_trait]
pub trait StoreFactory: Send + Sync {
    /// An empty store with its schema; lives no longer than the factory.
    async fn fresh(&self) -> Arc<dyn Store>;

    /// An empty spool, where the backend has one.
    async fn spool(&self) -> Option<Arc<dyn SpoolStore>> {
        None
    }
}

/// Every case of the suite, as a test in a module named after what it is about: `store_suite!(factory)`, where the
/// expression gives a [`StoreFactory`] and may await. The caller needs `tokio` with `macros` and `rt-multi-thread`.
#[macro_export]
macro_rules! store_suite {
    ($factory:expr) => {
        $crate::store_suite_cases! { $factory;
            apply: [
                a_new_event_is_recorded_with_its_verdict,
                event_ids_are_apart_by_source,
                a_repeat_of_what_is_settled_or_on_its_way_is_only_counted,
                a_repeat_wakes_what_is_retrying,
                a_repeat_wakes_what_is_dead,
                a_message_that_comes_twice_from_the_queue_is_late,
                other_bytes_under_a_known_id_are_a_variant,
                a_variant_wakes_by_its_own_bytes,
                repeats_and_variants_within_a_batch_are_as_across_batches,
                a_batch_of_nothing_but_variants,
                a_verdict_needs_the_present_generation,
                a_copy_twice_in_a_batch_is_applied_once,
                a_later_verdict_brings_the_type,
                an_empty_batch_is_nothing,
                outcomes_are_in_the_order_of_the_items,
            ]
            fold: [
                each_change_gets_its_verdict,
                ties_are_decided_by_digest_and_said,
                deletes_are_changes,
                an_empty_state_is_no_delete,
                a_batch_is_folded_before_it_is_written,
                an_event_may_change_one_entity_twice,
                an_entity_tells_where_it_is_from,
                states_come_back_as_they_were,
                keys_are_exact,
            ]
            schedule: [
                what_is_due_comes_as_it_was,
                a_lease_that_ran_out_is_due_again,
                the_oldest_due_comes_first,
                claims_at_once_take_other_events,
                leases_are_lengthened,
                attempts_are_kept_in_order,
                a_success_at_once_keeps_no_attempt,
                bodies_are_exact_in_every_status,
            ]
            trial: [
                a_mark_says_who_tries_it,
                a_mark_is_taken_over_once,
                marks_are_apart_by_generation,
                what_has_its_verdict_is_not_tried,
                what_is_recorded_is_told,
            ]
            duty: [
                it_answers,
                one_at_a_time_has_a_duty,
                an_election_has_one_winner,
                gauges_count_what_is_not_done,
                days_can_be_prepared_again,
                old_bodies_are_forgotten,
                bodies_of_what_settled_late_are_forgotten,
                old_bodies_are_forgotten_without_days,
                old_ids_are_forgotten,
                what_is_not_settled_is_never_forgotten,
                changes_are_forgotten_to_the_last,
                forgetting_is_bounded,
            ]
            act: [
                an_applied_event_can_be_replayed,
                a_replay_at_the_same_moment,
                a_dead_letter_can_be_replayed,
                what_cannot_be_done_is_refused,
                a_dead_letter_can_be_discarded,
                replays_at_once_are_one,
                a_key_gives_the_first_answer_again,
                keys_are_freed_and_expire,
                a_key_without_an_answer_is_taken_over,
                a_key_is_taken_once,
            ]
            rules: [
                sources_stay_known,
                the_version_grows_with_an_epoch,
                conflicting_rules_are_refused,
                a_batch_under_old_rules_commits_nothing,
                registrations_at_once_agree,
            ]
            read: [
                events_are_found_by_every_filter,
                time_bounds_are_exact,
                pages_of_events_neither_skip_nor_repeat,
                an_event_reads_as_in_its_page,
                dead_letters_are_grouped,
                entities_are_in_byte_order,
                key_prefixes_are_exact,
                pages_of_entities_neither_skip_nor_repeat,
                history_tells_every_change,
                pages_of_history_neither_skip_nor_repeat,
            ]
            rejected: [
                rejected_deliveries_come_back_as_they_were,
                pages_of_rejected_deliveries_neither_skip_nor_repeat,
                old_rejected_deliveries_are_forgotten,
                the_rejected_log_is_bounded_for_each_source,
            ]
            properties: [
                any_order_ends_in_the_same_entities,
                any_duplication_ends_in_the_same_entities,
                any_interleaving_ends_in_the_same_entities,
                any_number_of_workers_ends_in_the_same_entities,
                one_event_at_many_workers_is_applied_once,
                batches_of_the_same_events_at_once_are_applied_once,
                creating_at_once_has_one_first,
            ]
        }
    };
}

/// Every case of the spool, as [`store_suite!`](crate::store_suite!): for backends that have one.
#[macro_export]
macro_rules! spool_suite {
    ($factory:expr) => {
        $crate::spool_suite_cases! { $factory;
            what_is_spooled_comes_back_in_order,
            what_is_not_removed_comes_again,
            what_keeps_failing_keeps_nothing_back,
            claims_at_once_take_other_rows,
        }
    };
}

/// One test for each named case.
#[doc(hidden)]
#[macro_export]
macro_rules! store_suite_cases {
    ($factory:expr; $($module:ident: [$($case:ident,)*])*) => { $(
        mod $module {
            #[allow(unused_imports)]
            use super::*;
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $case() {
                    let factory = $factory;
                    let store = $crate::store_suite::StoreFactory::fresh(&factory).await;
                    $crate::store_suite::$module::$case(store).await;
                }
            )*
        }
    )* };
}

/// One test for each named case of the spool.
#[doc(hidden)]
#[macro_export]
macro_rules! spool_suite_cases {
    ($factory:expr; $($case:ident,)*) => {
        mod spool {
            #[allow(unused_imports)]
            use super::*;
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $case() {
                    let factory = $factory;
                    let spool = $crate::store_suite::StoreFactory::spool(&factory).await;
                    $crate::store_suite::spool::$case(spool.expect("a backend with a spool")).await;
                }
            )*
        }
    };
}

#[cfg(test)]
mod tests {
    /// A case that the macros do not name is never run.
    #[test]
    fn every_case_is_in_the_suite() {
        let sources = [
            include_str!("act.rs"),
            include_str!("apply.rs"),
            include_str!("duty.rs"),
            include_str!("fold.rs"),
            include_str!("properties.rs"),
            include_str!("read.rs"),
            include_str!("rejected.rs"),
            include_str!("rules.rs"),
            include_str!("schedule.rs"),
            include_str!("spool.rs"),
            include_str!("trial.rs"),
        ];
        let mut cases = 0;
        for line in sources.iter().flat_map(|source| source.lines()) {
            let Some(rest) = line.strip_prefix("pub async fn ") else { continue };
            let name = rest.split('(').next().unwrap();
            assert!(include_str!("mod.rs").contains(&format!(" {name},\n")), "`{name}` is not in the suite");
            cases += 1;
        }
        assert!(cases > 70, "{cases}");
    }
}
