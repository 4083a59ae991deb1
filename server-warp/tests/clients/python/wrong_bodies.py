"""Bodies that the service accepts pass the type checker, and bodies that it rejects do not.

This file is checked and not run: mypy reports each `type: ignore` on a line without that error.
"""

from uuid import UUID

from knowledge import AuthenticatedClient
from knowledge.api.connectors import report_sync
from knowledge.api.erasures import create_erasure
from knowledge.api.memories import bulk_update_memories
from knowledge.api.webhooks import create_webhook
from knowledge.models import (
    BulkAudienceUpdate,
    BulkItemFailure,
    BulkItemSuccess,
    BulkReviewUpdate,
    EventType,
    NewCitationSubscription,
    NewInboundWebhook,
    NewMemberErasure,
    NewMemoryErasure,
    NewPrefixErasure,
    NewSourceErasure,
    NewWebhook,
    ReviewStatus,
    RoleActionsUpdate,
    SensitivityLabel,
    SyncFailureReport,
    SyncSuccessReport,
)

ID = UUID("01890a5d-ac96-774b-bcce-b302099a8057")


def update(client: AuthenticatedClient) -> None:
    body = BulkAudienceUpdate(memory_ids=[ID], audience_tag="org:acme", source_id=ID)
    bulk_update_memories.sync(client=client, idempotency_key="key", body=body)
    # The idempotency key is required.
    bulk_update_memories.sync(client=client, body=body)  # type: ignore[call-arg]
    # An attribute has to be set.
    BulkReviewUpdate(memory_ids=[ID])  # type: ignore[call-arg]
    # There is no such label.
    BulkReviewUpdate([ID], ReviewStatus.APPROVED, sensitivity_label="secret")  # type: ignore[arg-type]
    BulkReviewUpdate([ID], ReviewStatus.APPROVED, sensitivity_label=SensitivityLabel.PUBLIC)
    # There is no such field.
    BulkReviewUpdate([ID], ReviewStatus.APPROVED, title="Refunds")  # type: ignore[call-arg]
    # `memory_ids` is required.
    BulkReviewUpdate(review_status=ReviewStatus.APPROVED)  # type: ignore[call-arg]
    # `None` is not accepted.
    BulkReviewUpdate([ID], ReviewStatus.APPROVED, source_id=None)  # type: ignore[arg-type]
    # It is the body of another operation.
    named = NewInboundWebhook(name="Tickets")
    bulk_update_memories.sync(client=client, idempotency_key="key", body=named)  # type: ignore[arg-type]


def report(client: AuthenticatedClient) -> None:
    report_sync.sync(ID, ID, client=client, body=SyncSuccessReport(outcome="success"))
    failure = SyncFailureReport(outcome="failure", error="the token expired", is_authentication=True)
    report_sync.sync(ID, ID, client=client, body=failure)
    # A failure has a reason.
    SyncFailureReport(outcome="failure")  # type: ignore[call-arg]
    # A success has none.
    SyncSuccessReport(outcome="success", error="the token expired")  # type: ignore[call-arg]
    # Only a failure can be one of authentication.
    SyncSuccessReport(outcome="success", is_authentication=False)  # type: ignore[call-arg]
    # It is the other outcome.
    SyncSuccessReport(outcome="failure")  # type: ignore[arg-type]


def erase(client: AuthenticatedClient) -> None:
    for body in (
        NewPrefixErasure(source_id=ID, source_key_prefix="refunds", any_prefix=True),
        NewSourceErasure(source_id=ID),
        NewMemberErasure(member_id=ID),
        NewMemoryErasure(memory_ids=[ID]),
    ):
        create_erasure.sync(client=client, idempotency_key="key", body=body)
    # It has to name something.
    NewMemberErasure()  # type: ignore[call-arg]
    # Only keys of a source have a prefix.
    NewMemberErasure(member_id=ID, source_key_prefix="refunds")  # type: ignore[call-arg]
    # There is no prefix that may end anywhere.
    NewSourceErasure(source_id=ID, any_prefix=True)  # type: ignore[call-arg]


def register(client: AuthenticatedClient) -> None:
    # There is no such event.
    NewWebhook(event_type="chunk.split", url="https://example.com/")  # type: ignore[arg-type]
    webhook = NewWebhook(event_type=EventType.CHUNK_CREATED, url="https://example.com/")
    # An identifier is no text.
    create_webhook.sync("support", client=client, body=webhook)  # type: ignore[arg-type]
    # The name is required.
    NewInboundWebhook()  # type: ignore[call-arg]
    # The recall is required.
    NewCitationSubscription(webhook_url="https://example.com/")  # type: ignore[call-arg]
    # There is no such action.
    RoleActionsUpdate(allow=["memory:paint"])  # type: ignore[list-item]


def read(item: BulkItemSuccess | BulkItemFailure) -> str:
    # Only a success has a memory.
    item.memory  # type: ignore[union-attr]
    if isinstance(item, BulkItemSuccess):
        # Only a failure has an error.
        item.error  # type: ignore[attr-defined]
        return item.memory.audience_tag
    return item.error.message
