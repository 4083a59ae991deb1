"""Makes the first requests of the guide with the generated client, and checks what they return."""

import json
import os
import urllib.request
import uuid
from typing import Final

from knowledge import AuthenticatedClient
from knowledge.api.citation_subscriptions import create_citation_subscription
from knowledge.api.custom_roles import (
    create_custom_role,
    delete_custom_role,
    list_custom_roles,
    update_custom_role,
)
from knowledge.api.dashboard import get_dashboard_summary
from knowledge.api.inbound_webhooks import create_inbound_webhook
from knowledge.api.memories import bulk_update_memories
from knowledge.api.webhooks import create_webhook
from knowledge.models import (
    Action,
    BaseRole,
    BulkAudienceUpdate,
    BulkItemFailure,
    BulkItemSuccess,
    BulkResult,
    BulkReviewUpdate,
    ChunkCreatedEvent,
    ChunkDeletedEvent,
    CitationChangedEvent,
    CitationSubscription,
    ConnectorStatusChangedEvent,
    CreateCustomRoleResponse201,
    CustomRoleUpdate,
    DashboardSummary,
    DeleteRole,
    EventType,
    InboundWebhook,
    IngestCompletedEvent,
    IngestFailedEvent,
    InvalidRequestError,
    ListCustomRolesResponse200,
    MemoryUpdatedEvent,
    NewCitationSubscription,
    NewCustomRole,
    NewInboundWebhook,
    NewWebhook,
    NotFoundError,
    ReviewStatus,
    RoleActionsUpdate,
    UpdateCustomRoleResponse200,
    Webhook,
    WebhookPingEvent,
)

URL: Final = os.environ["URL"]
ORG: Final = os.environ["ORG"]
WORKSPACE: Final = uuid.UUID(os.environ["WORKSPACE"])
MEMORY: Final = uuid.UUID(os.environ["MEMORY"])
RECALL: Final = uuid.UUID(os.environ["RECALL"])

CLIENT: Final = AuthenticatedClient(base_url=URL, token=os.environ["TOKEN"])
SESSION_CLIENT: Final = AuthenticatedClient(
    base_url=URL,
    token=f"service_session={os.environ['SESSION']}",
    prefix="",
    auth_header_name="Cookie",
)


def outcome(item: BulkItemSuccess | BulkItemFailure) -> str:
    """Returns the text of an item, which has a memory or an error."""
    return item.memory.audience_tag if isinstance(item, BulkItemSuccess) else item.error.code.value


def update_memories() -> None:
    key = str(uuid.uuid4())
    body = BulkAudienceUpdate(memory_ids=[MEMORY, uuid.UUID(int=0)], audience_tag="org:acme")
    first = bulk_update_memories.sync(client=CLIENT, idempotency_key=key, body=body)
    assert isinstance(first, BulkResult), first
    assert [outcome(item) for item in first.results] == ["org:acme", "not_found"]
    replay = bulk_update_memories.sync(client=CLIENT, idempotency_key=key, body=body)
    assert isinstance(replay, BulkResult), replay
    assert replay.replayed
    assert replay.operation_id == first.operation_id

    # A refusal has a body, whose type says which details there are.
    other = BulkReviewUpdate(memory_ids=[], review_status=ReviewStatus.APPROVED)
    refused = bulk_update_memories.sync_detailed(client=CLIENT, idempotency_key=key, body=other)
    assert refused.status_code == 400
    assert isinstance(refused.parsed, InvalidRequestError), refused
    assert [problem.path for problem in refused.parsed.details.fields] == ["memoryIds"]


def read_dashboard() -> None:
    summary = get_dashboard_summary.sync(WORKSPACE, client=CLIENT)
    assert isinstance(summary, DashboardSummary), summary
    assert summary.workspace.id == WORKSPACE
    checklist = summary.first_value_checklist
    assert all(isinstance(step.completed, bool) for step in checklist.required + checklist.suggested)


def manage_roles() -> None:
    role = NewCustomRole(name="Typed in Python", slug="typed-in-python", base_role=BaseRole.VIEWER)
    created = create_custom_role.sync(ORG, client=SESSION_CLIENT, body=role)
    assert isinstance(created, CreateCustomRoleResponse201), created
    role_id = created.data.id
    actions = RoleActionsUpdate(allow=[Action.MEMORYREVIEW], deny=[])
    updated = update_custom_role.sync(
        ORG, role_id, client=SESSION_CLIENT, body=CustomRoleUpdate(actions=actions)
    )
    assert isinstance(updated, UpdateCustomRoleResponse200), updated
    assert updated.data.actions.allow == [Action.MEMORYREVIEW]
    listed = list_custom_roles.sync(ORG, client=SESSION_CLIENT)
    assert isinstance(listed, ListCustomRolesResponse200), listed
    assert updated.data in listed.data
    reassign = DeleteRole(reassign_to=BaseRole.VIEWER)
    deleted = delete_custom_role.sync_detailed(ORG, role_id, client=SESSION_CLIENT, body=reassign)
    assert deleted.status_code == 204
    missing = delete_custom_role.sync(ORG, role_id, client=SESSION_CLIENT, body=DeleteRole())
    assert isinstance(missing, NotFoundError), missing


def register() -> None:
    citations = NewCitationSubscription(
        recall_id=RECALL, webhook_url="https://example.com/citations"
    )
    subscription = create_citation_subscription.sync(client=CLIENT, body=citations)
    assert isinstance(subscription, CitationSubscription), subscription
    assert isinstance(subscription.signing_secret, str)
    chunks = NewWebhook(event_type=EventType.CHUNK_CREATED, url="https://example.com/chunks")
    webhook = create_webhook.sync(WORKSPACE, client=CLIENT, body=chunks)
    assert isinstance(webhook, Webhook), webhook
    assert webhook.event_type is EventType.CHUNK_CREATED
    named = NewInboundWebhook(name="Typed in Python")
    inbound = create_inbound_webhook.sync(WORKSPACE, client=CLIENT, body=named)
    assert isinstance(inbound, InboundWebhook), inbound
    assert inbound.name == "Typed in Python"

    # A refusal has no body: the status and `Error-Code` say what is wrong.
    wrong = NewWebhook(event_type=EventType.CHUNK_CREATED, url="ftp://example.com/")
    refused = create_webhook.sync_detailed(WORKSPACE, client=CLIENT, body=wrong)
    assert refused.parsed is None
    assert refused.status_code == 400
    assert refused.headers["Error-Code"] == "invalid_request"


WebhookEvent = (
    ChunkCreatedEvent
    | ChunkDeletedEvent
    | MemoryUpdatedEvent
    | CitationChangedEvent
    | IngestCompletedEvent
    | IngestFailedEvent
    | ConnectorStatusChangedEvent
    | WebhookPingEvent
)

# Classes of the bodies of deliveries, by their field `type`.
EVENTS: Final[dict[str, type[WebhookEvent]]] = {
    "chunk.created": ChunkCreatedEvent,
    "chunk.deleted": ChunkDeletedEvent,
    "memory.updated": MemoryUpdatedEvent,
    "citation.changed": CitationChangedEvent,
    "ingest.completed": IngestCompletedEvent,
    "ingest.failed": IngestFailedEvent,
    "connector.status_changed": ConnectorStatusChangedEvent,
    "webhook.ping": WebhookPingEvent,
}


def count(event: WebhookEvent) -> int:
    """Returns the number of memories that an event names."""
    match event:
        case IngestCompletedEvent():
            return event.data.created + event.data.updated
        case IngestFailedEvent() | ConnectorStatusChangedEvent() | WebhookPingEvent():
            return 0
        case _:
            return len(event.data.memory_ids)


def read_events() -> None:
    """Reads the example of each delivery in the document."""
    with urllib.request.urlopen(f"{URL}/openapi.json") as response:
        webhooks = json.load(response)["webhooks"]
    assert webhooks.keys() == EVENTS.keys()
    for event_type, webhook in webhooks.items():
        example = webhook["post"]["requestBody"]["content"]["application/json"]["example"]
        event = EVENTS[event_type].from_dict(example)
        assert event.type_ == event_type
        assert event.data.to_dict() == example["data"]
        assert count(event) >= 0


update_memories()
read_dashboard()
manage_roles()
register()
read_events()
print("ok: the requests of the guide and the events, in Python")
