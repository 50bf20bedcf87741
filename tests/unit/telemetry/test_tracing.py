import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import INVALID_SPAN, SpanKind

from libs.telemetry.names import SPAN_ENGINE_GENERATE, SPAN_ROUTER_GENERATE
from libs.telemetry.tracing import Tracing, current_trace_metadata, start_tracing

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
INCOMING = {"traceparent": f"00-{TRACE}-{PARENT}-01", "tracestate": "vendor=x", "x-tenant": "bank"}


def _tracing(service: str, exporter: SpanExporter | None) -> Tracing:
    return Tracing(service=service, exporter=exporter)


def _by_name(exporter: InMemorySpanExporter) -> dict[str, ReadableSpan]:
    return {span.name: span for span in exporter.get_finished_spans()}


def test_call_without_exporter_passes_the_callers_context_on_and_nothing_else() -> None:
    tracing = start_tracing(service="router", otlp_endpoint=None)
    with tracing.call("any", INCOMING) as (span, outgoing):
        assert span is INVALID_SPAN
        assert outgoing == {key: INCOMING[key] for key in ("traceparent", "tracestate")}
    tracing.stop()
    assert not tracing.enabled


def test_call_without_exporter_and_context_sends_nothing_on() -> None:
    with _tracing("router", None).call("any", {"x-tenant": "bank"}) as (_, outgoing):
        assert outgoing == {}


def test_spans_of_router_and_engine_form_one_trace_under_the_caller() -> None:
    exporters = InMemorySpanExporter(), InMemorySpanExporter()
    router, engine = _tracing("router", exporters[0]), _tracing("engine", exporters[1])
    with router.call(SPAN_ROUTER_GENERATE, INCOMING) as (_, on_the_wire):
        pass
    with engine.call(SPAN_ENGINE_GENERATE, on_the_wire):
        pass
    router.stop()
    engine.stop()
    router_span = _by_name(exporters[0])[SPAN_ROUTER_GENERATE]
    engine_span = _by_name(exporters[1])[SPAN_ENGINE_GENERATE]
    assert router_span.parent is not None
    assert f"{router_span.parent.span_id:016x}" == PARENT
    assert engine_span.parent is not None
    assert engine_span.parent.span_id == router_span.context.span_id
    assert {f"{span.context.trace_id:032x}" for span in (router_span, engine_span)} == {TRACE}
    assert {router_span.kind, engine_span.kind} == {SpanKind.SERVER}
    assert on_the_wire["tracestate"] == "vendor=x"
    assert [span.resource.attributes["service.name"] for span in (router_span, engine_span)] == ["router", "engine"]


@pytest.mark.parametrize(
    "incoming",
    [pytest.param({}, id="absent"), pytest.param({"traceparent": "00-zz-yy-01"}, id="malformed")],
)
def test_call_without_a_usable_context_begins_a_trace(incoming: dict[str, str]) -> None:
    exporter = InMemorySpanExporter()
    tracing = _tracing("router", exporter)
    with tracing.call("any", incoming) as (span, outgoing):
        assert f"{span.get_span_context().trace_id:032x}" in outgoing["traceparent"]
    tracing.stop()
    assert _by_name(exporter)["any"].parent is None


def test_call_that_raises_ends_its_span_as_an_error() -> None:
    exporter = InMemorySpanExporter()
    tracing = _tracing("router", exporter)
    with pytest.raises(RuntimeError), tracing.call("any", {}):
        raise RuntimeError("no")
    tracing.stop()
    assert not _by_name(exporter)["any"].status.is_ok


def test_current_trace_metadata_is_that_of_the_span_around_it() -> None:
    assert current_trace_metadata() == {}
    tracing = _tracing("caller", InMemorySpanExporter())
    with tracing.call("any", {}) as (_, outgoing):
        assert current_trace_metadata() == outgoing
    tracing.stop()
