//! What every queue must do.

use crate::broker::Vhost;
use oncefold_core::queue::Queue;
use std::sync::Arc;

async fn open() -> (Arc<dyn Queue>, Vhost) {
    let vhost = Vhost::create();
    (vhost.queue(), vhost)
}

oncefold_testkit::queue_suite!(open);
