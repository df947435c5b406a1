-- Every statement a store runs on SQLite, by name.  `$lineage` stands for the segments of a branch's past, as pairs of
-- branch and newest visible version, the newest first; its parameters follow the numbered ones.

-- name: find_about
SELECT value FROM about WHERE name = ?1;

-- name: add_about
INSERT INTO about (name, value) VALUES (?1, ?2);

-- name: set_about
INSERT INTO about (name, value) VALUES (?1, ?2) ON CONFLICT (name) DO UPDATE SET value = ?2;

-- name: find_branch_named
SELECT id, name, parent, fork, head, events, chain, created, deleted, sum
FROM branches WHERE name = ?1 AND deleted IS NULL;

-- name: find_branch
SELECT id, name, parent, fork, head, events, chain, created, deleted, sum FROM branches WHERE id = ?1;

-- name: find_deleted_named
SELECT deleted FROM branches WHERE name = ?1 AND deleted IS NOT NULL ORDER BY id DESC LIMIT 1;

-- name: list_branches
SELECT id, name, parent, fork, head, events, chain, created, deleted, sum
FROM branches WHERE deleted IS NULL ORDER BY id;

-- name: list_all_branches
SELECT id, name, parent, fork, head, events, chain, created, deleted, sum FROM branches ORDER BY id;

-- name: list_past
WITH RECURSIVE past (id, bound, depth) AS (
    SELECT ?1, 9223372036854775807, 0
    UNION ALL
    SELECT b.parent, min(past.bound, b.fork), past.depth + 1
    FROM past JOIN branches AS b ON b.id = past.id
    WHERE b.parent IS NOT NULL
)
SELECT b.id, b.name, b.fork, past.bound, b.deleted
FROM past JOIN branches AS b ON b.id = past.id
ORDER BY past.depth;

-- name: find_child
SELECT name FROM branches WHERE parent = ?1 AND deleted IS NULL ORDER BY id LIMIT 1;

-- name: next_branch_id
SELECT coalesce(max(id), 0) + 1 FROM branches;

-- name: add_branch
INSERT INTO branches (id, name, parent, fork, head, events, chain, created, deleted, sum)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10);

-- name: move_branch
UPDATE branches SET head = ?2, events = ?3, chain = ?4, sum = ?5 WHERE id = ?1;

-- name: mark_branch_deleted
UPDATE branches SET deleted = ?2, sum = ?3 WHERE id = ?1;

-- name: drop_cells
DELETE FROM cells WHERE branch = ?1;

-- name: drop_events
DELETE FROM events WHERE branch = ?1;

-- name: find_head
SELECT head FROM branches WHERE id = ?1 AND deleted IS NULL;

-- name: add_cell
INSERT INTO cells (branch, shape, key, version, kind, value, sum) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7);

-- name: read_cell
SELECT b.head, c.branch, c.version, c.kind, c.value, c.sum
FROM branches AS b
LEFT JOIN cells AS c ON c.branch = b.id AND c.shape = ?2 AND c.key = ?3 AND c.version <= ?4
WHERE b.id = ?1 AND b.deleted IS NULL
ORDER BY c.version DESC LIMIT 1;

-- name: find_own_cell
-- Reads no value, which may be long.
SELECT b.head, c.version
FROM branches AS b
LEFT JOIN cells AS c ON c.branch = b.id AND c.shape = ?2 AND c.key = ?3 AND c.version <= ?4
WHERE b.id = ?1 AND b.deleted IS NULL
ORDER BY c.version DESC LIMIT 1;

-- name: read_cell_in_past
WITH lineage (branch, bound) AS (VALUES $lineage)
SELECT b.head, found.branch, found.version, found.kind, found.value, found.sum
FROM branches AS b
LEFT JOIN (
    SELECT c.branch, c.version, c.kind, c.value, c.sum
    FROM lineage AS l CROSS JOIN cells AS c
    WHERE c.branch = l.branch AND c.shape = ?2 AND c.key = ?3 AND c.version <= l.bound
    -- CROSS JOIN keeps the loops in this order: the newest segment first, and in it, by the primary key, the newest
    -- version first.  So the first row is the newest, and none after it has to be looked for.
    LIMIT 1
) AS found
WHERE b.id = ?1 AND b.deleted IS NULL;

-- name: list_cell_history
SELECT version, kind, value, sum FROM cells
WHERE branch = ?1 AND shape = ?2 AND key = ?3 AND version <= ?4
ORDER BY version DESC;

-- name: list_keys
WITH RECURSIVE keys (key) AS (
    SELECT min(key) FROM cells WHERE branch = ?1 AND shape = ?2 AND key >= ?4
    UNION ALL
    SELECT (SELECT min(c.key) FROM cells AS c WHERE c.branch = ?1 AND c.shape = ?2 AND c.key > keys.key)
    FROM keys WHERE substr(keys.key, 1, length(?4)) = ?4
)
SELECT keys.key, (
    SELECT c.kind FROM cells AS c
    WHERE c.branch = ?1 AND c.shape = ?2 AND c.key = keys.key AND c.version <= ?3
    ORDER BY c.version DESC LIMIT 1
)
FROM keys WHERE substr(keys.key, 1, length(?4)) = ?4;

-- name: list_changes
SELECT shape, key, version, kind FROM cells WHERE branch = ?1 AND version > ?2 AND version <= ?3 ORDER BY version;

-- name: list_cells
SELECT branch, shape, key, version, kind, value, sum FROM cells ORDER BY branch, shape, key, version;

-- name: add_event
INSERT INTO events (branch, sequence, version, type, payload, timestamp, hash, sum)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8);

-- name: find_newest_event
SELECT sequence, hash FROM events WHERE branch = ?1 AND version <= ?2 ORDER BY version DESC LIMIT 1;

-- name: find_event
SELECT branch, sequence, version, type, payload, timestamp, hash, sum FROM events
WHERE branch = ?1 AND sequence = ?2 AND version <= ?3;

-- name: list_events
SELECT branch, sequence, version, type, payload, timestamp, hash, sum FROM events
WHERE branch = ?1 AND version <= ?2 AND sequence >= ?3 AND sequence < ?4
ORDER BY sequence LIMIT ?5;

-- name: list_events_of_type
SELECT branch, sequence, version, type, payload, timestamp, hash, sum FROM events
WHERE branch = ?1 AND version <= ?2 AND sequence >= ?3 AND sequence < ?4 AND type = ?6
ORDER BY sequence LIMIT ?5;

-- name: count_events_of_type
SELECT count(*) FROM events WHERE branch = ?1 AND version <= ?2 AND type = ?3;

-- name: list_types
WITH RECURSIVE types (type) AS (
    SELECT min(type) FROM events WHERE branch = ?1
    UNION ALL
    SELECT (SELECT min(e.type) FROM events AS e WHERE e.branch = ?1 AND e.type > types.type)
    FROM types WHERE types.type IS NOT NULL
)
SELECT types.type FROM types
WHERE types.type IS NOT NULL AND (
    SELECT e.version FROM events AS e WHERE e.branch = ?1 AND e.type = types.type ORDER BY e.sequence LIMIT 1
) <= ?2;

-- name: list_all_events
SELECT branch, sequence, version, type, payload, timestamp, hash, sum FROM events ORDER BY branch, sequence;
