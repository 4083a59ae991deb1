-- Tables of the peer. The labels of a memory, which bulk updates change, are apart from its text.

create type sensitivity as enum ('public', 'internal', 'confidential', 'restricted');
create type review_status as enum ('pending', 'approved', 'rejected');

create table organizations (
  id uuid primary key,
  slug text not null unique,
  name text not null,
  user_count integer not null default 0
);

create table workspaces (
  id uuid primary key,
  org_id uuid not null references organizations,
  name text not null,
  slug text not null,
  audience text not null,
  last_ingest_at timestamptz,
  -- Counters that every write maintains, so that the dashboard counts nothing.
  memory_count integer not null default 0,
  pending_count integer not null default 0,
  webhook_count integer not null default 0,
  unique (org_id, slug)
);

create table members (
  id uuid primary key,
  org_id uuid not null references organizations,
  handle text not null,
  role text not null check (role in ('viewer', 'member', 'admin', 'owner')),
  unique (org_id, handle)
);

create table credentials (
  token_hash bytea primary key,
  member_id uuid not null references members,
  -- Workspaces in which the token is valid; null for all of the organisation.
  workspace_ids uuid[],
  expires_at timestamptz,
  revoked_at timestamptz
);

create table sources (
  id uuid primary key,
  org_id uuid not null references organizations,
  name text not null
);

-- Room for the new versions of rows in their pages: updates of labels change no index.
create table memories (
  id uuid primary key,
  org_id uuid not null,
  workspace_id uuid not null references workspaces,
  source_id uuid not null references sources,
  audience_tag text not null,
  sensitivity_label sensitivity not null default 'internal',
  review_status review_status not null default 'pending'
) with (fillfactor = 50);
create index memories_of_workspace on memories (workspace_id, id);

create table memory_texts (
  memory_id uuid primary key references memories,
  source_id uuid not null references sources,
  source_key text,
  title text not null,
  content text not null,
  created_at timestamptz not null default now(),
  unique (source_id, source_key)
);

create table audit_entries (
  id uuid primary key,
  org_id uuid not null,
  operation_id uuid not null,
  actor_id uuid not null,
  action text not null,
  memory_id uuid not null,
  outcome text not null,
  at timestamptz not null default now(),
  source_before uuid,
  audience_before text,
  sensitivity_before sensitivity,
  review_before review_status,
  source_after uuid,
  audience_after text,
  sensitivity_after sensitivity,
  review_after review_status
);

create table idempotency_keys (
  member_id uuid not null,
  key text not null,
  fingerprint bytea not null,
  operation_id uuid not null,
  succeeded integer not null,
  failed integer not null,
  -- Items of the first response, as JSON.
  results text not null,
  expires_at timestamptz not null,
  primary key (member_id, key)
);

create table outbox (
  id uuid primary key default gen_random_uuid(),
  org_id uuid not null,
  workspace_id uuid not null,
  type text not null,
  payload jsonb not null,
  created_at timestamptz not null default now()
);

create table connectors (
  id uuid primary key,
  workspace_id uuid not null references workspaces,
  kind text not null,
  account_label text not null,
  scope text not null,
  sync_interval interval not null,
  is_paused boolean not null default false,
  last_sync timestamptz,
  last_error text,
  is_auth_error boolean not null default false,
  last_success_at timestamptz,
  next_sync_at timestamptz,
  failures integer not null default 0,
  error_count_24h integer not null default 0
);
create index connectors_of_workspace on connectors (workspace_id, id);

create table mcp_keys (
  id uuid primary key,
  workspace_id uuid not null references workspaces,
  name text not null,
  client text not null,
  audience text[] not null,
  last_used_at timestamptz,
  rotates_at timestamptz not null,
  ended_at timestamptz,
  ended_reason text
);
create index mcp_keys_of_workspace on mcp_keys (workspace_id, id);

create table chats (
  id uuid primary key,
  workspace_id uuid not null references workspaces,
  title text not null,
  last_message_at timestamptz not null,
  snippet text not null
);
create index chats_of_workspace on chats (workspace_id, last_message_at desc);

create table chat_participants (
  chat_id uuid not null references chats,
  member_id uuid not null references members,
  primary key (chat_id, member_id)
);
