-- The start of the first prompt, for lists; and indexes for lists and --continue.
ALTER TABLE sessions ADD COLUMN prompt TEXT;

UPDATE sessions SET prompt = (
    SELECT substr(json_extract(json, '$.prompt'), 1, 200) FROM events
    WHERE events.session = sessions.key AND type = 'turn_started' AND json_extract(json, '$.prompt') IS NOT NULL
    ORDER BY seq LIMIT 1
);

CREATE INDEX sessions_by_time ON sessions (began_at);
CREATE INDEX sessions_by_dir ON sessions (dir, began_at);
CREATE INDEX sessions_by_native ON sessions (native_session) WHERE native_session IS NOT NULL;
