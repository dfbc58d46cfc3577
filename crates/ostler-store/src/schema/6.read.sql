-- Migration 6 for a read-only file of an earlier format: nothing is indexed, without indexes for
-- lists.
CREATE VIRTUAL TABLE temp.search_index USING fts5(
    grams, content = '', contentless_delete = 1, detail = none,
    tokenize = "ascii tokenchars '_'"
);
CREATE TEMP TABLE search_progress (position INTEGER NOT NULL);
INSERT INTO search_progress VALUES (0);
CREATE TEMP TABLE search_open (session INTEGER PRIMARY KEY, seq INTEGER NOT NULL);
