//! The store suite on PostgreSQL, and what only PostgreSQL has. `ONCEFOLD_TEST_POSTGRES_URL` names a server on which
//! databases may be created (`scripts/services env`).

mod database;
mod entities;
mod limits;
mod migrations;
mod only_here;
mod sessions;

use database::Databases;

oncefold_testkit::store_suite!(Databases::start().await);
oncefold_testkit::spool_suite!(Databases::start().await);
