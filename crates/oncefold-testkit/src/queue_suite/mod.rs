//! What every queue must do: one suite that RabbitMQ and the embedded queue both run.
//!
//! A backend gives an async function that opens a fresh queue, isolated from every other, and something that is dropped
//! when the case ends:
//!
//! ```text
//! async fn open() -> (Arc<dyn Queue>, Guard) { … }
//! oncefold_testkit::queue_suite!(open);
//! ```
//!
//! The queue may still be connecting: cases wait until it is there.

mod batching;
mod contents;
mod letters;
mod settling;
pub mod steps;

pub use batching::{
    a_batch_comes_at_once_when_it_is_full, a_batch_ends_when_its_linger_has_passed, a_cancelled_receive_loses_nothing,
    bytes_are_bounded_but_one_message_always_fits, prefetch_is_bounded, sizes_may_change,
};
pub use contents::{
    a_megabyte_arrives_whole, an_empty_body_arrives, depths_are_told, every_field_arrives, order_is_kept,
    sources_do_not_mix,
};
pub use letters::{
    a_letter_names_its_cause_after_it_came_again, a_reject_is_a_dead_letter, dead_letters_stay_until_they_are_acked,
    the_delivery_limit_makes_a_dead_letter,
};
pub use settling::{
    a_closed_subscription_gives_back, a_dropped_subscription_gives_back, acks_and_rejects_mix,
    an_ack_covers_only_what_it_names, an_acked_message_is_gone, two_subscriptions_share,
};

/// Makes a test of every case. `$open` is the path of an `async fn() -> (Arc<dyn Queue>, impl Sized)`.
#[macro_export]
macro_rules! queue_suite {
    ($open:path) => {
        $crate::queue_suite! { $open:
            every_field_arrives a_megabyte_arrives_whole an_empty_body_arrives order_is_kept sources_do_not_mix
            depths_are_told
            a_batch_comes_at_once_when_it_is_full a_batch_ends_when_its_linger_has_passed prefetch_is_bounded
            bytes_are_bounded_but_one_message_always_fits sizes_may_change a_cancelled_receive_loses_nothing
            an_acked_message_is_gone a_dropped_subscription_gives_back a_closed_subscription_gives_back
            acks_and_rejects_mix an_ack_covers_only_what_it_names two_subscriptions_share
            a_reject_is_a_dead_letter dead_letters_stay_until_they_are_acked
            a_letter_names_its_cause_after_it_came_again the_delivery_limit_makes_a_dead_letter
        }
    };
    ($open:path: $($case:ident)*) => { $(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $case() {
            let (queue, _guard) = $open().await;
            $crate::queue_suite::$case(queue).await;
        }
    )* };
}
