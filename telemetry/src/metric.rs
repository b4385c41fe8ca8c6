//! Metrics: each is named, described and made in one call, and its labels take few values.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use prometheus_client::{
    metrics::family::Family,
    registry::{Metric, Registry},
};

pub use prometheus_client::metrics::{counter::Counter, gauge::Gauge, histogram::Histogram};

/// Combinations of labels that one metric tells apart. What comes later is counted under [`OTHER`]: some values come
/// from steps and nodes, and nobody may fill the memory of a plane or of its Prometheus with them.
pub const COMBINATIONS: usize = 500;

/// What every label says once a metric has all its combinations.
pub const OTHER: &str = "other";

/// What kind of number a metric is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Only grows, until the program starts again.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Counts how often something was how large.
    Histogram,
}

/// What the reference says of a metric.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// As Prometheus shows it; a histogram adds `_bucket`, `_sum` and `_count`.
    pub name: &'static str,
    /// What kind of number it is.
    pub kind: Kind,
    /// What it tells apart.
    pub labels: Vec<&'static str>,
    /// One sentence.
    pub help: &'static str,
}

/// All metrics of a program; cheap to clone.
#[derive(Clone, Debug)]
pub struct Metrics {
    registry: Arc<Registry>,
    descriptions: Arc<[Description]>,
}

/// Makes the metrics of a program.
#[derive(Debug, Default)]
pub struct Registrar {
    registry: Registry,
    descriptions: Vec<Description>,
}

/// A metric for each combination of its labels.
#[derive(Clone, Debug)]
pub struct Labelled<const LABELS: usize, M> {
    names: [&'static str; LABELS],
    family: Family<[(&'static str, String); LABELS], M>,
    /// Combinations there are. Two that are made at the same moment may count as one too many.
    known: Arc<AtomicUsize>,
}

impl Metrics {
    /// Everything, in the text format of OpenMetrics.
    ///
    /// # Errors
    /// Never: a string takes every text.
    pub fn text(&self) -> Result<String, std::fmt::Error> {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry)?;
        Ok(text)
    }

    /// What there is, in the order it was made.
    #[must_use]
    pub fn descriptions(&self) -> &[Description] {
        &self.descriptions
    }
}

impl Registrar {
    /// All that was made.
    #[must_use]
    pub fn finish(self) -> Metrics {
        Metrics { registry: Arc::new(self.registry), descriptions: self.descriptions.into() }
    }

    /// A number that only grows. Its name ends in `_total`.
    pub fn counter(&mut self, name: &'static str, help: &'static str) -> Counter {
        self.register(Kind::Counter, name, &[], help, Counter::default())
    }

    /// One for each combination of labels.
    pub fn counters<const N: usize>(
        &mut self,
        name: &'static str,
        labels: [&'static str; N],
        help: &'static str,
    ) -> Labelled<N, Counter> {
        self.family(Kind::Counter, name, labels, help, Counter::default)
    }

    /// A number that goes up and down.
    pub fn gauge(&mut self, name: &'static str, help: &'static str) -> Gauge {
        self.register(Kind::Gauge, name, &[], help, Gauge::default())
    }

    /// One for each combination of labels.
    pub fn gauges<const N: usize>(
        &mut self,
        name: &'static str,
        labels: [&'static str; N],
        help: &'static str,
    ) -> Labelled<N, Gauge> {
        self.family(Kind::Gauge, name, labels, help, Gauge::default)
    }

    /// Sizes, in the buckets that `make` gives it.
    pub fn histogram(&mut self, name: &'static str, help: &'static str, make: fn() -> Histogram) -> Histogram {
        self.register(Kind::Histogram, name, &[], help, make())
    }

    /// One for each combination of labels.
    pub fn histograms<const N: usize>(
        &mut self,
        name: &'static str,
        labels: [&'static str; N],
        help: &'static str,
        make: fn() -> Histogram,
    ) -> Labelled<N, Histogram> {
        self.family(Kind::Histogram, name, labels, help, make)
    }

    fn family<const N: usize, M>(
        &mut self,
        kind: Kind,
        name: &'static str,
        labels: [&'static str; N],
        help: &'static str,
        make: fn() -> M,
    ) -> Labelled<N, M>
    where
        Family<[(&'static str, String); N], M>: Metric,
        M: Clone,
    {
        let family = self.register(kind, name, &labels, help, Family::new_with_constructor(make));
        Labelled { names: labels, family, known: Arc::default() }
    }

    fn register<M: Metric + Clone>(
        &mut self,
        kind: Kind,
        name: &'static str,
        labels: &[&'static str],
        help: &'static str,
        metric: M,
    ) -> M {
        // The format itself adds the ending to counters, and the full stop to every help text.
        let registered = if kind == Kind::Counter { name.strip_suffix("_total").unwrap_or(name) } else { name };
        self.registry.register(registered, help.trim_end_matches('.'), metric.clone());
        self.descriptions.push(Description { name, kind, labels: labels.to_vec(), help });
        metric
    }
}

impl<const LABELS: usize, M: Clone> Labelled<LABELS, M> {
    /// The metric with these values, in the order of the labels.
    #[must_use]
    pub fn with(&self, values: [&str; LABELS]) -> M {
        let labels = std::array::from_fn(|index| (self.names[index], values[index].to_owned()));
        if let Some(known) = self.family.get(&labels) {
            return known.clone();
        }
        if self.known.load(Ordering::Relaxed) < COMBINATIONS {
            self.known.fetch_add(1, Ordering::Relaxed);
            return self.family.get_or_create_owned(&labels);
        }
        self.family.get_or_create_owned(&self.names.map(|name| (name, OTHER.to_owned())))
    }
}

/// Buckets of milliseconds, from 1 to about four hours.
#[must_use]
pub fn milliseconds() -> Histogram {
    Histogram::new([1.0, 5.0, 20.0, 100.0, 500.0, 2e3, 1e4, 6e4, 3e5, 1.8e6, 1.44e7])
}

/// Buckets of seconds, from half a millisecond to ten seconds.
#[must_use]
pub fn seconds() -> Histogram {
    Histogram::new([0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0])
}

/// Buckets of small numbers of things.
#[must_use]
pub fn counts() -> Histogram {
    Histogram::new([1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_metric_is_shown_under_the_name_it_was_made_with() {
        let mut registrar = Registrar::default();
        registrar.counter("leases_received_total", "Leases.").inc();
        registrar.gauges("streams", ["stream"], "Streams.").with(["pull"]).set(3);
        registrar.histogram("took_ms", "Took.", milliseconds).observe(7.0);
        let metrics = registrar.finish();
        let text = metrics.text().unwrap();
        for line in ["leases_received_total 1\n", "streams{stream=\"pull\"} 3\n", "took_ms_bucket{le=\"20.0\"} 1\n"] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
        assert!(text.contains("# HELP streams Streams.\n"), "{text}");
        let names: Vec<_> = metrics.descriptions().iter().map(|description| description.name).collect();
        assert_eq!(names, ["leases_received_total", "streams", "took_ms"]);
    }

    #[test]
    fn labels_are_bounded_and_what_is_over_is_counted_together() {
        let mut registrar = Registrar::default();
        let codes = registrar.counters("codes_total", ["code", "kind"], "Codes.");
        for number in 0..10 * COMBINATIONS {
            codes.with([&number.to_string(), "step"]).inc();
        }
        codes.with(["7", "step"]).inc();
        assert_eq!(codes.with(["7", "step"]).get(), 2, "what was known before is still told apart");
        let over = u64::try_from(9 * COMBINATIONS).unwrap();
        assert_eq!(codes.with([OTHER, OTHER]).get(), over);
        let lines = registrar.finish().text().unwrap().lines().filter(|line| line.starts_with("codes_total{")).count();
        assert_eq!(lines, COMBINATIONS + 1);
    }

    #[test]
    fn values_cannot_break_out_of_their_quotes() {
        let mut registrar = Registrar::default();
        registrar.counters("codes_total", ["code"], "Codes.").with(["a\"} 1\nb\\"]).inc();
        let text = registrar.finish().text().unwrap();
        assert!(text.contains(r#"codes_total{code="a\"} 1\nb\\"} 1"#), "{text}");
    }
}
