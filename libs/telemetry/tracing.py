"""Distributed tracing with W3C trace context (https://www.w3.org/TR/trace-context/).

With no exporter configured no span is made and the caller's own context travels on unchanged, so that tracing costs
nothing where nobody collects it and is never broken by the mesh.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.trace import Span, SpanKind
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

TRACE_KEYS = ("traceparent", "tracestate")

# A stop sends what is left and waits for one export, so this bounds how long a lost collector holds it up.
_EXPORT_TIMEOUT_S = 2

_PROPAGATOR = TraceContextTextMapPropagator()


class Tracing:
    """Makes one span a call and gives the context to send on."""

    def __init__(self, *, service: str, exporter: SpanExporter | None) -> None:
        self._provider: TracerProvider | None = None
        self._tracer: trace.Tracer | None = None
        if exporter is not None:
            self._provider = TracerProvider(resource=Resource.create({SERVICE_NAME: service}))
            self._provider.add_span_processor(BatchSpanProcessor(exporter))
            self._tracer = self._provider.get_tracer("twinlane")

    @property
    def enabled(self) -> bool:
        """Whether spans are made."""
        return self._tracer is not None

    @contextmanager
    def call(self, name: str, incoming: Mapping[str, str]) -> Iterator[tuple[Span, dict[str, str]]]:
        """Span one served call. `incoming` is the call's metadata; yields the span and the metadata to send on."""
        if self._tracer is None:
            yield trace.INVALID_SPAN, {key: incoming[key] for key in TRACE_KEYS if key in incoming}
            return
        parent = _PROPAGATOR.extract(incoming)
        with self._tracer.start_as_current_span(name, context=parent, kind=SpanKind.SERVER) as span:
            outgoing: dict[str, str] = {}
            _PROPAGATOR.inject(outgoing)
            yield span, outgoing

    def stop(self) -> None:
        """Send what is left and stop; blocks for up to a few seconds where the collector does not answer."""
        if self._provider is not None:
            self._provider.shutdown()


def current_trace_metadata() -> dict[str, str]:
    """Return the metadata that carries the caller's own current span on; empty where there is none."""
    carrier: dict[str, str] = {}
    _PROPAGATOR.inject(carrier)
    return carrier


def start_tracing(*, service: str, otlp_endpoint: str | None) -> Tracing:
    """Return tracing that exports by OTLP over gRPC to host:port (plaintext), or that only passes context on where None."""
    exporter = (
        None if otlp_endpoint is None else OTLPSpanExporter(endpoint=otlp_endpoint, insecure=True, timeout=_EXPORT_TIMEOUT_S)
    )
    return Tracing(service=service, exporter=exporter)
