"""What schemathesis has to know of the service that no schema can say."""

import json
import os
import re
import uuid

import schemathesis
from schemathesis.specs.openapi.checks import positive_data_acceptance

# What `knowledge demo --output json` printed.
with open(os.environ["KNOWLEDGE_DEMO"], encoding="utf-8") as file:
    DEMO = json.load(file)

# Codes of problems with what is there already, not with the form of what was sent.
STATE = {"not_found", "limit_reached"}

# What no pattern says of a URL.
URL_RULES = (
    "must be an absolute URL",
    "must have at most 2048 characters",
    "must name a host that can be resolved",
    "must not name an address that is not public",
    "must not name localhost",
    "must not have port 0",
)

# What no schema says of a role that exists: not every role can be held everywhere, and one may be inactive by now.
ROLE_RULES = (
    "must be an active role",
    "must be an organisation-wide role",
    "must be held in the workspace of the role",
    "must differ from the deleted role",
)

UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


def pick(values, text):
    """One of the values, always the same for the same text: a run with the same seed is the same run."""
    return values[sum(text.encode()) % len(values)]


@schemathesis.hook
def map_path_parameters(context, path_parameters):
    """Names things that are there, in place of valid names of things that are not. What is no valid name stays."""
    if not path_parameters:
        return path_parameters
    path = context.operation.path
    changed = dict(path_parameters)
    if isinstance(changed.get("orgSlug"), str) and re.fullmatch(r"[a-z0-9._-]{1,64}", changed["orgSlug"]):
        changed["orgSlug"] = DEMO["org_slug"]
    for name, value in path_parameters.items():
        # Some stay as they are: what names nothing is refused, too.
        if not isinstance(value, str) or not UUID.fullmatch(value) or sum(value.encode()) % 8 == 0:
            continue
        if name == "id" and path.startswith("/v1/workspaces/"):
            changed[name] = DEMO["workspace_id"]
        elif name == "workspaceId":
            changed[name] = DEMO["workspace_id"]
        elif name == "id" and path.startswith("/v1/memories/"):
            changed[name] = pick(DEMO["memory_ids"], value)
        elif name == "roleId":
            changed[name] = pick(DEMO["custom_role_ids"], value)
    return changed


@schemathesis.hook
def map_body(context, body):
    """The same for the bodies that name memories and recalls. What is no valid list stays."""
    if not isinstance(body, dict):
        return body
    changed = dict(body)
    for name in ("memoryIds", "memory_ids"):
        values = changed.get(name)
        if isinstance(values, list) and all(isinstance(value, str) and UUID.fullmatch(value) for value in values):
            # One after the other, so that no two become the same. Of two that are the same, none changes.
            start = sum(values[0].encode()) if values else 0
            known = DEMO["memory_ids"]
            if len(set(values)) == len(values) <= len(known):
                changed[name] = [known[(start + index) % len(known)] for index in range(len(values))]
    recall = changed.get("recall_id")
    if isinstance(recall, str) and UUID.fullmatch(recall):
        changed["recall_id"] = DEMO["recall_id"]
    return changed


@schemathesis.hook
def map_headers(context, headers):
    """A key for each request: with another body the same key is refused, which is not what is tried here.

    No request names another member: the token is that of a person, who acts for nobody.
    """
    if headers is None:
        return headers
    headers = {name: value for name, value in headers.items() if name.lower() != "knowledge-act-for"}
    key = headers.get("Idempotency-Key")
    if isinstance(key, str) and re.fullmatch(r"[!#-~][!-~]{0,254}", key):
        return {**headers, "Idempotency-Key": str(uuid.uuid4())}
    return headers


def is_beyond_schemas(response):
    """Whether a request was refused for what no schema can say."""
    if response.status_code in (412, 422):
        return True  # No such version is there; the idempotency key was used before, in the phase of examples.
    if response.status_code != 400:
        return False
    message = response.headers.get("error-message", [""])[0]
    try:
        fields = response.json()["details"]["fields"]
    except Exception:  # Without a body the header says it.
        return any(rule in message for rule in (", the maximum", *URL_RULES))
    return all(
        field["code"] in STATE
        # A cursor is opaque: only the list that gave it takes it.
        or field["path"] == "cursor"
        # No action stands in both lists; no two memories of a batch have one key.
        or field["code"] == "duplicate"
        # Two lists have one limit.
        or (field["code"] == "too_large" and "items in both lists" in field["message"])
        # The limit of a text is in bytes, that of a schema in characters.
        or (field["code"] == "too_large" and field["path"].endswith("content"))
        # One parameter needs another one.
        or "is required with" in field["message"]
        # An organisation keeps an owner.
        or "this is the last owner" in field["message"]
        # Hosts are not regular, and a URL is longer once it is escaped.
        or any(rule in field["message"] for rule in (*URL_RULES, *ROLE_RULES))
        for field in fields
    )


@schemathesis.check
def valid_data_acceptance(ctx, response, case):
    """`positive_data_acceptance`, but for what no schema can say."""
    if is_beyond_schemas(response):
        return None
    return positive_data_acceptance(ctx, response, case)
