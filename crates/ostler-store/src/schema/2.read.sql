-- Migration 2 for a read-only file of the first format: the column is computed, without indexes.
CREATE TEMP VIEW sessions AS SELECT *, (
    SELECT substr(json_extract(json, '$.prompt'), 1, 200) FROM main.events
    WHERE events.session = own.key AND type = 'turn_started' AND json_extract(json, '$.prompt') IS NOT NULL
    ORDER BY seq LIMIT 1
) AS prompt FROM main.sessions AS own;
