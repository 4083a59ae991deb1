-- Entries, ordered byte by byte. The version is that of the commit that wrote the entry.
CREATE TABLE knowledge_entry (
    key bytea PRIMARY KEY CHECK (octet_length(key) BETWEEN 1 AND 512),
    value bytea NOT NULL,
    version bigint NOT NULL CHECK (version > 0)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02);

-- Lanes: locks and clocks of the commits. Every key belongs to one lane; a commit locks the lanes
-- of its keys, and its version is higher than theirs.
CREATE TABLE knowledge_lane (
    lane smallint PRIMARY KEY CHECK (lane BETWEEN 0 AND 255),
    version bigint NOT NULL CHECK (version >= 0)
) WITH (fillfactor = 10);

INSERT INTO knowledge_lane (lane, version) SELECT number, 0 FROM generate_series(0, 255) AS number;
