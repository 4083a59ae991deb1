// The statements, each of which a connection prepares once.

/** The caller behind a token, by its hash. */
export const authenticate = {
  name: "authenticate",
  text: `
    select c.member_id, c.workspace_ids, m.org_id, m.role
    from credentials c join members m on m.id = c.member_id
    where c.token_hash = $1 and c.revoked_at is null
      and (c.expires_at is null or c.expires_at > now())`,
};

/** The caller behind a token, and the stored result for an idempotency key of the caller's. */
export const authenticateUpdate = {
  name: "authenticate_update",
  text: `
    select c.member_id, c.workspace_ids, m.org_id, m.role,
      k.fingerprint, k.operation_id, k.succeeded, k.failed, k.results
    from credentials c join members m on m.id = c.member_id
      left join idempotency_keys k
        on k.member_id = m.id and k.key = $2 and k.expires_at > now()
    where c.token_hash = $1 and c.revoked_at is null
      and (c.expires_at is null or c.expires_at > now())`,
};

/**
 * A bulk update, one transaction: memories, audit entries, counters, events, stored result.
 *
 * The rows are locked in one order, so that concurrent updates do not deadlock. A concurrent
 * update with the same key waits for this one and then fails at the unique key, as a whole.
 *
 * The items are concatenated here: `json_build_object` takes longer than the changes.
 *
 * The identifiers of audit entries begin with that of the operation and are consecutive.
 */
export const bulkUpdate = {
  name: "bulk_update",
  text: `
    with found as materialized (
      select id, workspace_id, source_id, audience_tag, sensitivity_label, review_status
      from memories
      where id = any($1::uuid[]) and org_id = $2
        and ($3::uuid[] is null or workspace_id = any($3))
      order by id for no key update
    ),
    items as materialized (
      select r.id, r.n, f.workspace_id,
        (left($6::text, 32) || lpad(to_hex(r.n), 4, '0'))::uuid as audit_id,
        case
          when f.id is null then 'not_found'
          when $8::sensitivity < f.sensitivity_label and not $11 then 'forbidden'
          else 'ok'
        end as outcome,
        f.source_id as source_before, f.audience_tag as audience_before,
        f.sensitivity_label as sensitivity_before, f.review_status as review_before,
        coalesce($10::uuid, f.source_id) as source_after,
        coalesce($7::text, f.audience_tag) as audience_after,
        coalesce($8::sensitivity, f.sensitivity_label) as sensitivity_after,
        coalesce($9::review_status, f.review_status) as review_after
      from unnest($1::uuid[]) with ordinality as r (id, n) left join found f on f.id = r.id
    ),
    changed as materialized (
      select * from items
      where outcome = 'ok'
        and (source_before, audience_before, sensitivity_before, review_before)
          is distinct from (source_after, audience_after, sensitivity_after, review_after)
    ),
    updated as (
      update memories m
      set source_id = c.source_after, audience_tag = c.audience_after,
        sensitivity_label = c.sensitivity_after, review_status = c.review_after
      from changed c where m.id = c.id
    ),
    audited as (
      insert into audit_entries (
        id, org_id, operation_id, actor_id, action, memory_id, outcome,
        source_before, audience_before, sensitivity_before, review_before,
        source_after, audience_after, sensitivity_after, review_after
      )
      select audit_id, $2, $6::uuid, $4, 'memory.bulk_update', id, outcome,
        source_before, audience_before, sensitivity_before, review_before,
        source_after, audience_after, sensitivity_after, review_after
      from items
    ),
    counted as (
      update workspaces w set pending_count = w.pending_count + d.delta
      from (
        select workspace_id, sum((review_after = 'pending')::int - (review_before = 'pending')::int)
        from changed group by workspace_id
      ) as d (workspace_id, delta)
      where w.id = d.workspace_id and d.delta <> 0
    ),
    announced as (
      insert into outbox (org_id, workspace_id, type, payload)
      select $2, c.workspace_id, 'memory.updated',
        json_build_object('operationId', $6::text, 'memoryIds', json_agg(c.id order by c.n))
      from changed c join workspaces w on w.id = c.workspace_id
      where w.webhook_count > 0 group by c.workspace_id
    )
    insert into idempotency_keys (
      member_id, key, fingerprint, operation_id, succeeded, failed, results, expires_at
    )
    select $4, $5, $12, $6::uuid,
      count(*) filter (where outcome = 'ok'), count(*) filter (where outcome <> 'ok'),
      '[' || string_agg('{"memoryId":"' || id || '",' || case outcome
        when 'ok' then '"ok":true,"memory":{"id":"' || id || '","sourceId":"' || source_after
          || '","audienceTag":' || to_json(audience_after)
          || ',"sensitivityLabel":"' || sensitivity_after || '"}'
        when 'not_found' then
          '"ok":false,"error":{"code":"not_found","message":"there is no such memory"}'
        else '"ok":false,"error":{"code":"forbidden","message":"the role lacks memory:declassify"}'
      end || ',"auditLogId":"' || audit_id || '"}', ',' order by n) || ']',
      now() + interval '24 hours'
    from items
    returning succeeded, failed, results`,
};

/** The dashboard summary of a workspace, as one row. */
export const dashboard = {
  name: "dashboard",
  text: `
    select w.id, w.name, w.slug, w.audience, w.last_ingest_at,
      w.memory_count, w.pending_count, w.webhook_count, o.user_count,
      exists (select from chats where workspace_id = w.id) as has_chat,
      (
        select coalesce(json_agg(json_build_object(
          'service_account_id', c.id, 'kind', c.kind, 'account_label', c.account_label,
          'scope', c.scope, 'workspace_slug', w.slug,
          'status', case
            when c.is_paused then 'paused'
            when c.is_auth_error then 'auth_required'
            when c.last_sync is null then 'pending'
            when c.failures >= 3 then 'failing'
            when c.last_success_at is null or c.last_success_at < now() - 2 * c.sync_interval
              then 'stale'
            when c.error_count_24h > 0 then 'degraded'
            else 'healthy'
          end,
          'last_sync', c.last_sync, 'last_error', c.last_error,
          'last_success_at', c.last_success_at, 'next_sync_at', c.next_sync_at,
          'error_count_24h', c.error_count_24h) order by c.id), '[]')
        from connectors c where c.workspace_id = w.id
      ) as connectors,
      (
        select coalesce(json_agg(json_build_object(
          'id', k.id, 'workspaceId', k.workspace_id, 'name', k.name, 'client', k.client,
          'audience', k.audience, 'lastUsedAt', k.last_used_at, 'rotatesAt', k.rotates_at,
          'state', case when k.ended_at is null then 'active' else 'ended' end,
          'endedReason', k.ended_reason, 'endedAt', k.ended_at
          ) order by k.id), '[]')
        from mcp_keys k where k.workspace_id = w.id and k.rotates_at > now()
      ) as mcp_keys,
      (
        select coalesce(json_agg(json_build_object(
          'session_id', c.id, 'title', c.title, 'last_message_at', c.last_message_at,
          'snippet', c.snippet) order by c.last_message_at desc), '[]')
        from (
          select c.* from chats c
            join chat_participants p on p.chat_id = c.id and p.member_id = $3
          where c.workspace_id = w.id order by c.last_message_at desc limit 10
        ) c
      ) as chats
    from workspaces w join organizations o on o.id = w.org_id
    where w.id = $1 and w.org_id = $2`,
};
