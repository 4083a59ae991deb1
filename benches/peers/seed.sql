-- An organisation like that of the benchmark `whole`, with :memories memories.

insert into organizations (id, slug, name, user_count)
values ('00000000-0000-7000-8000-000000000001', 'acme', 'Organisation acme', 1);
insert into workspaces (
  id, org_id, name, slug, audience, last_ingest_at, memory_count, pending_count
)
values ('00000000-0000-7000-8000-000000000002', '00000000-0000-7000-8000-000000000001',
  'Workspace w', 'w', 'workspace:w', now(), :memories, :memories);
insert into members (id, org_id, handle, role)
values ('00000000-0000-7000-8000-000000000003', '00000000-0000-7000-8000-000000000001',
  'owner', 'owner');
insert into credentials (token_hash, member_id)
values (sha256('peer-token'), '00000000-0000-7000-8000-000000000003');
insert into sources (id, org_id, name)
values ('00000000-0000-7000-8000-000000000004', '00000000-0000-7000-8000-000000000001', 'Wiki');

-- Memory n has the identifier 00000000-0000-7000-9000-n, with n in hexadecimal digits.
insert into memories (id, org_id, workspace_id, source_id, audience_tag)
select ('00000000-0000-7000-9000-' || lpad(to_hex(n), 12, '0'))::uuid,
  '00000000-0000-7000-8000-000000000001', '00000000-0000-7000-8000-000000000002',
  '00000000-0000-7000-8000-000000000004', 'workspace:w'
from generate_series(0, :memories - 1) as n;
insert into memory_texts (memory_id, source_id, source_key, title, content)
select ('00000000-0000-7000-9000-' || lpad(to_hex(n), 12, '0'))::uuid,
  '00000000-0000-7000-8000-000000000004', format('handbook/page-%s.md', lpad(n::text, 8, '0')),
  'Handbook page ' || lpad(n::text, 8, '0'), repeat('What was decided, by whom, and why. ', 8)
from generate_series(0, :memories - 1) as n;

insert into connectors (id, workspace_id, kind, account_label, scope, sync_interval, next_sync_at)
select gen_random_uuid(), '00000000-0000-7000-8000-000000000002', 'confluence', 'wiki@acme',
  'personal', '1 day', null
from generate_series(1, 3);
insert into mcp_keys (id, workspace_id, name, client, audience, rotates_at)
select gen_random_uuid(), '00000000-0000-7000-8000-000000000002', 'Laptop', 'claude_code',
  array['workspace:w'], now() + interval '90 days'
from generate_series(1, 12);
with created as (
  insert into chats (id, workspace_id, title, last_message_at, snippet)
  select gen_random_uuid(), '00000000-0000-7000-8000-000000000002',
    format('Refund number %s, and who decides it', n), now() + n * interval '1 ms',
    left(repeat('May I refund this order? ', 6), 160)
  from generate_series(0, 9) as n
  returning id
)
insert into chat_participants (chat_id, member_id)
select id, '00000000-0000-7000-8000-000000000003' from created;

vacuum (analyze);
checkpoint;
