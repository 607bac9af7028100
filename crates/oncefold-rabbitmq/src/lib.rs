//! oncefold-rabbitmq
