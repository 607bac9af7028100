//! The metrics of contract.md, "Ops", as one struct. Counters are kept in process; gauges of stored things are
//! sampled by an elected duty, never scanned by a scrape.

use prometheus::{
    Encoder, GaugeVec, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts,
    Registry, TextEncoder,
};

/// Every metric of the process.
#[derive(Clone)]
pub struct Metrics {
    registry: Registry,
    /// `oncefold_ingest_deliveries_total{source,outcome}`: deliveries answered, by outcome.
    pub ingest_deliveries: IntCounterVec,
    /// `oncefold_ingest_ack_seconds{source}`: request start to a 2xx.
    pub ingest_ack_seconds: HistogramVec,
    /// `oncefold_ingest_secret_matches_total{source,secret}`: deliveries by the source's secret that fitted, counted from 0
    /// as in the config: one that no longer grows can be removed.
    pub ingest_secret_matches: IntCounterVec,
    /// `oncefold_publish_seconds`: publish to confirm (embedded: to commit).
    pub publish_seconds: Histogram,
    /// `oncefold_spool_depth`: deliveries waiting in the spool.
    pub spool_depth: IntGauge,
    /// `oncefold_spooled_total`: deliveries that went to the spool.
    pub spooled: IntCounter,
    /// `oncefold_worker_events_total{source,outcome}`: messages settled by workers.
    pub worker_events: IntCounterVec,
    /// `oncefold_changes_total{entity,verdict}`: changes judged by the guard.
    pub changes: IntCounterVec,
    /// `oncefold_worker_batch_events`: events in a committed batch.
    pub worker_batch_events: Histogram,
    /// `oncefold_event_lag_seconds{source}`: received to applied, at the first try.
    pub event_lag_seconds: HistogramVec,
    /// `oncefold_oldest_unapplied_seconds{source}`: age of the oldest event that is queued or retrying.
    pub oldest_unapplied_seconds: GaugeVec,
    /// `oncefold_retries_total{source,reason}`: failed attempts that will be tried again.
    pub retries: IntCounterVec,
    /// `oncefold_dead_letters{source}`: events that are dead now.
    pub dead_letters: IntGaugeVec,
    /// `oncefold_dead_lettered_total{source,reason}`: events that died.
    pub dead_lettered: IntCounterVec,
    /// `oncefold_replayed_total{source}`: events put back on the queue by a person.
    pub replayed: IntCounterVec,
    /// `oncefold_queue_depth{queue}`: messages waiting in a queue; one may carry several events.
    pub queue_depth: IntGaugeVec,
    /// `oncefold_queue_connected`: 1 while the queue can be used.
    pub queue_connected: IntGauge,
}

/// From 0.5 ms to 30 s: an ack takes single milliseconds, a spooled one up to the confirm timeout.
const ACK_BUCKETS_S: &[f64] =
    &[0.0005, 0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.25, 0.5, 1.0, 2.0, 4.0, 10.0, 30.0];
/// From 1 ms to a day: retries and outages end in the long ones.
const LAG_BUCKETS_S: &[f64] = &[
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0, 3600.0,
    14400.0, 86400.0,
];
const BATCH_BUCKETS: &[f64] = &[1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0, 2000.0, 5000.0];

impl Metrics {
    /// A fresh registry with every metric registered, and `oncefold_build_info` set.
    ///
    /// # Errors
    /// Only if two metrics had one name, which a test rules out.
    pub fn register(version: &str) -> Result<Self, prometheus::Error> {
        let registry = Registry::new();
        let r = &registry;
        let build_info = int_gauges(r, "build_info", "Always 1; the version is the label", &["version"])?;
        build_info.with_label_values(&[version]).set(1);
        Ok(Self {
            ingest_deliveries: counters(r, "ingest_deliveries_total", "Deliveries answered", &["source", "outcome"])?,
            ingest_ack_seconds: histograms(
                r,
                ("ingest_ack_seconds", "Request start to 2xx"),
                ACK_BUCKETS_S,
                &["source"],
            )?,
            ingest_secret_matches: counters(
                r,
                "ingest_secret_matches_total",
                "Deliveries by the secret that fitted",
                &["source", "secret"],
            )?,
            publish_seconds: histogram(r, ("publish_seconds", "Publish to confirm or commit"), ACK_BUCKETS_S)?,
            spool_depth: int_gauge(r, "spool_depth", "Deliveries waiting in the spool")?,
            spooled: counter(r, "spooled_total", "Deliveries that went to the spool")?,
            worker_events: counters(r, "worker_events_total", "Messages settled by workers", &["source", "outcome"])?,
            changes: counters(r, "changes_total", "Changes judged by the guard", &["entity", "verdict"])?,
            worker_batch_events: histogram(r, ("worker_batch_events", "Events in a committed batch"), BATCH_BUCKETS)?,
            event_lag_seconds: histograms(r, ("event_lag_seconds", "Received to applied"), LAG_BUCKETS_S, &["source"])?,
            oldest_unapplied_seconds: gauges(
                r,
                "oldest_unapplied_seconds",
                "Age of the oldest event queued or retrying",
                &["source"],
            )?,
            retries: counters(r, "retries_total", "Failed attempts that will be tried again", &["source", "reason"])?,
            dead_letters: int_gauges(r, "dead_letters", "Events that are dead now", &["source"])?,
            dead_lettered: counters(r, "dead_lettered_total", "Events that died", &["source", "reason"])?,
            replayed: counters(r, "replayed_total", "Events put back on the queue by a person", &["source"])?,
            queue_depth: int_gauges(
                r,
                "queue_depth",
                "Messages waiting in a queue; one may carry several events",
                &["queue"],
            )?,
            queue_connected: int_gauge(r, "queue_connected", "1 while the queue can be used")?,
            registry,
        })
    }

    /// The Prometheus text exposition, version 0.0.4.
    ///
    /// # Errors
    /// When a metric cannot be written out.
    pub fn render(&self) -> Result<Vec<u8>, prometheus::Error> {
        let mut text = Vec::with_capacity(16 * 1024);
        TextEncoder::new().encode(&self.registry.gather(), &mut text)?;
        Ok(text)
    }
}

fn named(name: &str, help: &str) -> Opts {
    Opts::new(format!("oncefold_{name}"), help)
}

fn registered<C: prometheus::core::Collector + Clone + 'static>(
    registry: &Registry,
    made: Result<C, prometheus::Error>,
) -> Result<C, prometheus::Error> {
    let collector = made?;
    registry.register(Box::new(collector.clone()))?;
    Ok(collector)
}

fn counter(r: &Registry, name: &str, help: &str) -> Result<IntCounter, prometheus::Error> {
    registered(r, IntCounter::with_opts(named(name, help)))
}

fn counters(r: &Registry, name: &str, help: &str, labels: &[&str]) -> Result<IntCounterVec, prometheus::Error> {
    registered(r, IntCounterVec::new(named(name, help), labels))
}

fn int_gauge(r: &Registry, name: &str, help: &str) -> Result<IntGauge, prometheus::Error> {
    registered(r, IntGauge::with_opts(named(name, help)))
}

fn int_gauges(r: &Registry, name: &str, help: &str, labels: &[&str]) -> Result<IntGaugeVec, prometheus::Error> {
    registered(r, IntGaugeVec::new(named(name, help), labels))
}

fn gauges(r: &Registry, name: &str, help: &str, labels: &[&str]) -> Result<GaugeVec, prometheus::Error> {
    registered(r, GaugeVec::new(named(name, help), labels))
}

fn histogram(r: &Registry, (name, help): (&str, &str), buckets: &[f64]) -> Result<Histogram, prometheus::Error> {
    let opts = HistogramOpts { common_opts: named(name, help), buckets: buckets.to_vec() };
    registered(r, Histogram::with_opts(opts))
}

fn histograms(
    r: &Registry,
    (name, help): (&str, &str),
    buckets: &[f64],
    labels: &[&str],
) -> Result<HistogramVec, prometheus::Error> {
    let opts = HistogramOpts { common_opts: named(name, help), buckets: buckets.to_vec() };
    registered(r, HistogramVec::new(opts, labels))
}

#[cfg(test)]
mod tests {
    use super::Metrics;

    /// The names of contract.md that apply to this version.
    #[test]
    fn every_name_of_the_contract_is_rendered() {
        let metrics = Metrics::register("9.9.9").unwrap();
        metrics.ingest_deliveries.with_label_values(&["s", "accepted"]).inc();
        metrics.ingest_ack_seconds.with_label_values(&["s"]).observe(0.001);
        metrics.worker_events.with_label_values(&["s", "applied"]).inc();
        metrics.changes.with_label_values(&["order", "applied"]).inc();
        metrics.event_lag_seconds.with_label_values(&["s"]).observe(0.1);
        metrics.oldest_unapplied_seconds.with_label_values(&["s"]).set(1.5);
        metrics.retries.with_label_values(&["s", "apply.failed"]).inc();
        metrics.dead_letters.with_label_values(&["s"]).set(2);
        metrics.dead_lettered.with_label_values(&["s", "mapping.missing_id"]).inc();
        metrics.replayed.with_label_values(&["s"]).inc();
        metrics.queue_depth.with_label_values(&["oncefold.dead"]).set(3);
        let text = String::from_utf8(metrics.render().unwrap()).unwrap();
        for line in [
            "oncefold_ingest_deliveries_total{outcome=\"accepted\",source=\"s\"} 1",
            "oncefold_ingest_ack_seconds_count{source=\"s\"} 1",
            "oncefold_publish_seconds_count 0",
            "oncefold_spool_depth 0",
            "oncefold_spooled_total 0",
            "oncefold_worker_events_total{outcome=\"applied\",source=\"s\"} 1",
            "oncefold_changes_total{entity=\"order\",verdict=\"applied\"} 1",
            "oncefold_worker_batch_events_count 0",
            "oncefold_event_lag_seconds_count{source=\"s\"} 1",
            "oncefold_oldest_unapplied_seconds{source=\"s\"} 1.5",
            "oncefold_retries_total{reason=\"apply.failed\",source=\"s\"} 1",
            "oncefold_dead_letters{source=\"s\"} 2",
            "oncefold_dead_lettered_total{reason=\"mapping.missing_id\",source=\"s\"} 1",
            "oncefold_replayed_total{source=\"s\"} 1",
            "oncefold_queue_depth{queue=\"oncefold.dead\"} 3",
            "oncefold_queue_connected 0",
            "oncefold_build_info{version=\"9.9.9\"} 1",
        ] {
            assert!(text.lines().any(|l| l == line), "missing: {line}");
        }
    }
}
