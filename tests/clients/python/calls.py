"""Calls with a client of openapi-python-client, as its user would write them."""

import os
import time
import uuid

from integrahub import AuthenticatedClient
from integrahub.api.messages import consume, produce
from integrahub.api.operations import status
from integrahub.api.products import batch, batch_errors, list_batches, load_products
from integrahub.api.queues_and_connections import depth, test_connection
from integrahub.models import (
    ConnectionTestResult,
    ConsumeReq,
    ConsumeResult,
    DepthReq,
    DepthResult,
    ErrorReasonType0,
    ExplicitMessage,
    FrontMessage,
    GatewayStatus,
    ItemErrorPage,
    LoadType,
    MessageBatch,
    MessageHeaders,
    MessageProperties,
    Problem,
    ProduceReq,
    ProduceResult,
    Product,
    ProductBatch,
    Received,
    TargetFull,
    TargetOnly,
)

BASE_URL = os.environ["API"]
QUEUE = "DEV.QUEUE.1"
FINAL = ("COMPLETED", "PARTIAL_FAIL", "FAILED", "EXPIRED")
api = AuthenticatedClient(base_url=BASE_URL, token="local-dev-key-a", prefix="", auth_header_name="X-Api-Key")


def target() -> TargetFull:
    return TargetFull(queue=QUEUE)


def measured() -> int:
    answer = depth.sync(client=api, body=DepthReq(target_ref="local-rabbit", target=target()))
    assert isinstance(answer, DepthResult), answer
    assert isinstance(answer.current_depth, int), answer
    return answer.current_depth


def taken(most: int, browse: bool = False) -> ConsumeResult:
    request = ConsumeReq(target_ref="local-rabbit", target=target(), max_messages=most, wait_seconds=0, browse_only=browse)
    answer = consume.sync(client=api, body=request, idempotency_key=str(uuid.uuid4()))
    assert isinstance(answer, ConsumeResult), answer
    return answer


def messages() -> None:
    while taken(10_000).count:
        pass
    request = ProduceReq(
        target_ref="local-rabbit",
        target=target(),
        batch=MessageBatch(count=14),
        mq_props=MessageProperties(expiry_ms=3_000_000_000),
    )
    key = str(uuid.uuid4())
    first = produce.sync_detailed(client=api, body=request, idempotency_key=key)
    again = produce.sync_detailed(client=api, body=request, idempotency_key=key)
    assert isinstance(first.parsed, ProduceResult) and first.parsed.enqueued == 14, first
    assert again.headers["Idempotent-Replay"] == "true" and again.parsed == first.parsed
    assert measured() == 14
    last = taken(14, browse=True).messages[13]
    assert last.headers["sequence"] == 13 and last.headers["sequence"] is not True, last.headers
    assert last.expiry_ms is not None and 2**31 < last.expiry_ms <= 3_000_000_000
    assert taken(14).count == 14 and measured() == 0

    headers = MessageHeaders()
    headers.additional_properties = {"n": {"int32": "5"}, "vip": True, "none": None, "list": [1, "a"]}
    message = ExplicitMessage(body_text="{}", headers=headers)
    request = ProduceReq(target_ref="local-rabbit", target=target(), messages=[message])
    assert isinstance(produce.sync(client=api, body=request, idempotency_key=str(uuid.uuid4())), ProduceResult)
    (got,) = taken(1).messages
    assert got.headers.additional_properties.items() >= headers.additional_properties.items(), got.headers


def refusals() -> None:
    missing = DepthReq(target_ref="local-rabbit", target=TargetFull(queue="NO.SUCH.QUEUE"))
    problem = depth.sync(client=api, body=missing)
    assert isinstance(problem, Problem) and problem.reason == ErrorReasonType0.QUEUE_NOT_FOUND, problem
    # API Gateway's own response.
    large = ProduceReq(target_ref="local-rabbit", messages=[ExplicitMessage(body_text="x" * 7_000_000)])
    answer = produce.sync_detailed(client=api, body=large, idempotency_key=str(uuid.uuid4()))
    assert answer.status_code == 413 and isinstance(answer.parsed, FrontMessage), answer


def mistakes() -> None:
    """What the types refuse. Nobody calls it: mypy fails if one of these is no mistake to it."""
    ProduceReq(target_reff="local-rabbit")  # type: ignore[call-arg]
    MessageBatch(count="1")  # type: ignore[arg-type]
    produce.sync(client=api, body=ProduceReq())  # type: ignore[call-arg]


def loaded(key: str, catalogue: list[Product]) -> Received:
    answer = load_products.sync(client=api, body=catalogue, idempotency_key=key, x_inova_load_type=LoadType.DELTA)
    assert isinstance(answer, Received), answer
    return answer


def finished(batch_id: uuid.UUID) -> ProductBatch:
    for _ in range(300):
        state = batch.sync(batch_id, client=api)
        assert isinstance(state, ProductBatch), state
        if state.status in FINAL:
            return state
        time.sleep(0.2)
    raise AssertionError(f"{batch_id} does not come to its end")


def products() -> None:
    key = f"python-{uuid.uuid4()}"
    catalogue = [
        Product(cnpj="11444777000161", shopid=1, productid=key, title="DIPIRONA 500MG", price="8.90"),
        Product(cnpj="05927228000146", shopid=1, productid=key, title="SORO", price=6.5),
    ]
    received = loaded(key, catalogue)
    assert loaded(key, catalogue) == received
    state = finished(received.batch_id)
    assert (state.status, state.items_processed, state.items_failed) == ("COMPLETED", 1, 1), state
    page = batch_errors.sync(received.batch_id, client=api)
    assert isinstance(page, ItemErrorPage) and [error.code for error in page.errors] == ["CNPJ_INVALID"], page
    newest = list_batches.sync(client=api, limit=1)
    assert newest is not None and not isinstance(newest, (Problem, FrontMessage)) and len(newest.batches) == 1


def operations() -> None:
    tested = test_connection.sync(client=api, body=TargetOnly(target_ref="local-rabbit"))
    assert isinstance(tested, ConnectionTestResult) and tested.ok, tested
    assert isinstance(status.sync(client=api), GatewayStatus)


messages()
refusals()
products()
operations()
print("openapi-python-client: every call has the result that its types promise")
