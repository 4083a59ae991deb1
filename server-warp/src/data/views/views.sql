-- Views on the records of the service, for analysts. Only the service writes the table.
--
-- Every view has a row for each record of a family of keys, and reads the whole family.

-- The JSON of a record. PostgreSQL stores no U+0000 in a text, which an entry of another program may
-- have: it is left out. Its escape counts unless the backslash is itself escaped.
CREATE OR REPLACE FUNCTION knowledge_json(stored bytea) RETURNS jsonb
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN position('\u0000' IN convert_from(stored, 'UTF8')) = 0
        THEN convert_from(stored, 'UTF8')::jsonb
        ELSE regexp_replace(
            convert_from(stored, 'UTF8'), '(?<!\\)((?:\\\\)*)\\u0000', '\1', 'g'
        )::jsonb
    END
$$;

CREATE OR REPLACE VIEW knowledge_organization AS
SELECT (value ->> 'id')::uuid AS org_id,
       value ->> 'slug' AS slug,
       value ->> 'name' AS name,
       (value ->> 'created_at')::timestamptz AS created_at
FROM (
    SELECT knowledge_json(value) AS value
    FROM knowledge_entry WHERE key >= 'org/' AND key < 'org0'
) AS stored;

CREATE OR REPLACE VIEW knowledge_workspace AS
SELECT split_part(key, '/', 2)::uuid AS org_id,
       (value ->> 'id')::uuid AS workspace_id,
       value ->> 'slug' AS slug,
       value ->> 'name' AS name,
       value ->> 'audience' AS audience,
       value ->> 'access' AS access,
       (value ->> 'created_at')::timestamptz AS created_at
FROM (
    SELECT convert_from(key, 'UTF8') AS key, knowledge_json(value) AS value
    FROM knowledge_entry WHERE key >= 'workspace/' AND key < 'workspace0'
) AS stored;

CREATE OR REPLACE VIEW knowledge_member AS
SELECT split_part(key, '/', 2)::uuid AS org_id,
       (value ->> 'id')::uuid AS member_id,
       value ->> 'handle' AS handle,
       value ->> 'name' AS name,
       value ->> 'kind' AS kind,
       value -> 'role' AS role,
       value -> 'teams' AS teams,
       (value ->> 'created_at')::timestamptz AS created_at
FROM (
    SELECT convert_from(key, 'UTF8') AS key, knowledge_json(value) AS value
    FROM knowledge_entry WHERE key >= 'member/' AND key < 'member0'
) AS stored;

CREATE OR REPLACE VIEW knowledge_custom_role AS
SELECT (value ->> 'org_id')::uuid AS org_id,
       (value ->> 'workspace_id')::uuid AS workspace_id,
       (value ->> 'id')::uuid AS role_id,
       value ->> 'slug' AS slug,
       value ->> 'name' AS name,
       value ->> 'base_role' AS base_role,
       value ->> 'description' AS description,
       value -> 'actions' AS actions,
       (value ->> 'is_active')::boolean AS is_active,
       (value ->> 'created_by')::uuid AS created_by,
       (value ->> 'created_at')::timestamptz AS created_at,
       (value ->> 'updated_at')::timestamptz AS updated_at
FROM (
    SELECT knowledge_json(value) AS value
    FROM knowledge_entry WHERE key >= 'role/' AND key < 'role0'
) AS stored;

CREATE OR REPLACE VIEW knowledge_source AS
SELECT split_part(key, '/', 2)::uuid AS org_id,
       (value ->> 'id')::uuid AS source_id,
       value ->> 'name' AS name,
       value ->> 'kind' AS kind,
       (value ->> 'created_at')::timestamptz AS created_at
FROM (
    SELECT convert_from(key, 'UTF8') AS key, knowledge_json(value) AS value
    FROM knowledge_entry WHERE key >= 'source/' AND key < 'source0'
) AS stored;

-- The labels, which change often, and the content of a memory are two records.
CREATE OR REPLACE VIEW knowledge_memory AS
SELECT split_part(label_key, '/', 2)::uuid AS org_id,
       split_part(label_key, '/', 3)::uuid AS memory_id,
       (labels ->> 'workspace_id')::uuid AS workspace_id,
       (labels ->> 'source_id')::uuid AS source_id,
       labels ->> 'audience' AS audience,
       coalesce(labels ->> 'sensitivity', 'internal') AS sensitivity,
       coalesce(labels ->> 'review', 'pending') AS review,
       content ->> 'title' AS title,
       content ->> 'content' AS content,
       content ->> 'source_key' AS source_key,
       (content ->> 'created_by')::uuid AS created_by,
       (content ->> 'created_at')::timestamptz AS created_at,
       coalesce(content ->> 'updated_at', content ->> 'created_at')::timestamptz AS updated_at
FROM (
    SELECT convert_from(label.key, 'UTF8') AS label_key,
           knowledge_json(label.value) AS labels,
           knowledge_json(body.value) AS content
    FROM knowledge_entry AS label
    JOIN knowledge_entry AS body ON body.key = 'content'::bytea || substr(label.key, 7)
    WHERE label.key >= 'memory/' AND label.key < 'memory0'
) AS stored;

-- One row for each operation, and for each page of a long one; body has what it changed.
CREATE OR REPLACE VIEW knowledge_audit AS
SELECT split_part(key, '/', 2)::uuid AS org_id,
       (value ->> 'operation_id')::uuid AS operation_id,
       (value ->> 'at')::timestamptz AS at,
       (value ->> 'actor_id')::uuid AS actor_id,
       value ->> 'action' AS action,
       value -> 'body' AS body
FROM (
    SELECT convert_from(key, 'UTF8') AS key, knowledge_json(value) AS value
    FROM knowledge_entry WHERE key >= 'audit/' AND key < 'audit0'
) AS stored;
