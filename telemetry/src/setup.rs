//! Turning it on: what the command line of a program says, and where lines and spans then go.

use std::{net::SocketAddr, time::Duration};

use opentelemetry::{KeyValue, trace::TracerProvider as _};
use opentelemetry_otlp::{ExporterBuildError, SpanExporter, WithExportConfig as _};
use opentelemetry_sdk::{
    Resource,
    trace::{Sampler, SdkTracerProvider},
};
use tracing::level_filters::LevelFilter;
use tracing_subscriber::{
    EnvFilter, Layer, Registry,
    filter::Targets,
    fmt,
    layer::SubscriberExt as _,
    util::{SubscriberInitExt as _, TryInitError},
};

use crate::{log::Lines, span::SPANS};

/// How long the last spans may take on their way when the program ends.
const FLUSH: Duration = Duration::from_secs(3);

/// How long a collector may take to answer. Spans wait meanwhile; work does not.
const EXPORT: Duration = Duration::from_secs(5);

/// What a program says of itself, and to whom. Everything but the log is off unless it is asked for.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Options {
    /// Where `GET /metrics` is answered, for Prometheus; nowhere when absent. Port 0 takes a free one.
    #[arg(long, env = "FETTLE_METRICS_LISTEN", value_name = "ADDRESS")]
    pub metrics_listen: Option<SocketAddr>,
    /// Allow an address for metrics that other machines can reach. Whoever reaches it reads them without a token.
    #[arg(long)]
    pub metrics_allow_remote: bool,
    /// The collector that spans are sent to, as OTLP over gRPC (`http://host:4317`); none when absent.
    #[arg(long, env = "OTEL_EXPORTER_OTLP_ENDPOINT", value_name = "URL")]
    pub otlp_endpoint: Option<String>,
    /// The share of traces that is sent, 0 to 1, where nobody before has decided it.
    #[arg(long, value_name = "SHARE", value_parser = share, default_value = "1")]
    pub trace_share: f64,
    /// What this program is called in traces.
    #[arg(long, env = "OTEL_SERVICE_NAME", value_name = "NAME")]
    pub service_name: Option<String>,
}

fn share(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(share) if (0.0..=1.0).contains(&share) => Ok(share),
        _ => Err("write a number from 0 to 1, like `0.1`".to_owned()),
    }
}

/// Why nothing can be told.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// The collector's address is malformed.
    #[error("spans cannot be sent to `{endpoint}`; write `http://host:4317`")]
    Collector {
        /// What was given.
        endpoint: String,
        /// Why.
        #[source]
        source: ExporterBuildError,
    },
    /// It is set up already.
    #[error("the log of this process is set up already")]
    Twice(#[source] TryInitError),
}

/// Keeps spans on their way. [`Telemetry::close`] sends the last ones.
#[derive(Debug)]
pub struct Telemetry {
    provider: Option<SdkTracerProvider>,
}

impl Telemetry {
    /// Sends lines to standard error, at the level that `RUST_LOG` says, and spans to the collector. Must be called
    /// inside a runtime: the connection to the collector lives there. A collector that is away costs nothing but its
    /// spans.
    ///
    /// # Errors
    /// When the collector's address is malformed, or this was done before.
    pub fn start(options: &Options, program: &'static str) -> Result<Self, SetupError> {
        let provider = match &options.otlp_endpoint {
            Some(endpoint) => Some(provider(endpoint, options, program)?),
            None => None,
        };
        let level = EnvFilter::try_from_default_env().unwrap_or_else(|_| "info".into());
        let lines = fmt::layer()
            .event_format(Lines)
            .fmt_fields(fmt::format::JsonFields::new())
            .with_writer(std::io::stderr)
            .with_filter(level);
        let mut layers: Vec<Box<dyn Layer<Registry> + Send + Sync>> = vec![Box::new(lines)];
        if let Some(provider) = &provider {
            let spans = tracing_opentelemetry::layer()
                .with_tracer(provider.tracer(program))
                .with_location(false)
                .with_threads(false)
                .with_target(false)
                .with_tracked_inactivity(false)
                .with_filter(Targets::new().with_target(SPANS, LevelFilter::TRACE));
            layers.push(Box::new(spans));
        }
        tracing_subscriber::registry().with(layers).try_init().map_err(SetupError::Twice)?;
        Ok(Self { provider })
    }

    /// Sends what is left, for a few seconds at most. Blocks.
    pub fn close(self) {
        if let Some(provider) = self.provider
            && let Err(error) = provider.shutdown_with_timeout(FLUSH)
        {
            tracing::warn!(%error, "the last spans did not arrive");
        }
    }
}

fn provider(endpoint: &str, options: &Options, program: &'static str) -> Result<SdkTracerProvider, SetupError> {
    let exporter = SpanExporter::builder().with_tonic().with_endpoint(endpoint).with_timeout(EXPORT).build();
    let exporter = exporter.map_err(|source| SetupError::Collector { endpoint: endpoint.to_owned(), source })?;
    let name = options.service_name.clone().unwrap_or_else(|| program.to_owned());
    let resource = Resource::builder()
        .with_service_name(name)
        .with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")))
        .build();
    Ok(SdkTracerProvider::builder()
        .with_batch_exporter(exporter)
        .with_sampler(Sampler::ParentBased(Box::new(Sampler::TraceIdRatioBased(options.trace_share))))
        .with_resource(resource)
        .build())
}
