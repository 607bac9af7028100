//! `[queue]`: what carries events from intake to workers, and which stores it goes with.

use crate::reader::{Context, Place, Schema, Table};
use crate::reference::resolve;
use crate::url::{QueueUrl, StoreUrl, parse_queue};

pub(crate) const SCHEMA: Schema = Schema { title: "[queue]", keys: &["url"], later: &[] };

const VARIABLE: &str = "ONCEFOLD_QUEUE_URL";

/// The queue, and where it is said; nothing where that cannot be used.
pub(crate) fn read(root: &Table<'_>) -> Option<(QueueUrl, Option<Place>)> {
    let section = root.section("queue", &SCHEMA);
    let known = section.context.problem_count();
    let Some(setting) = section.setting("url", VARIABLE) else {
        let unset = section.context.problem_count() == known;
        return unset.then_some((QueueUrl::Embedded, None));
    };
    let resolved = resolve(section.context, &setting.place, &setting.text)?;
    match parse_queue(&resolved.text) {
        Ok(url) => Some((url, Some(setting.place))),
        Err((message, mend)) => {
            section.context.problem(&setting.place, message, mend);
            None
        }
    }
}

/// Refuses pairs that are not built: sqlite goes with the embedded queue, PostgreSQL with a broker.
pub(crate) fn check_pair(context: &Context<'_>, store: &(StoreUrl, Place), queue: &(QueueUrl, Option<Place>)) {
    let place = queue.1.as_ref().unwrap_or(&store.1);
    match (&store.0, &queue.0) {
        (StoreUrl::Sqlite(_), QueueUrl::Embedded) | (StoreUrl::Postgres(_), QueueUrl::Amqp(_)) => {}
        (StoreUrl::Postgres(_), QueueUrl::Embedded) => context.problem(
            place,
            "a PostgreSQL store does not go with the embedded queue",
            "set `[queue] url = \"amqp://user:password@host/vhost\"`, or `[store] url = \"sqlite://oncefold.db\"`",
        ),
        (StoreUrl::Sqlite(_), QueueUrl::Amqp(_)) => context.problem(
            place,
            "a broker does not go with a sqlite store",
            "set `[store] url = \"postgres://user:password@host/database\"`, or `[queue] url = \"embedded\"`",
        ),
    }
}
