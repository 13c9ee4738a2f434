-- A conversation is a head (its JSON without turns) and one row a turn. `length` is the count of its turns: appending
-- compares it with what the caller has seen. `title` and `models` are derived from the turns, for lists.
CREATE TABLE conversations (
    seq INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    head BLOB NOT NULL,
    title TEXT NOT NULL,
    models TEXT NOT NULL,
    length INTEGER NOT NULL,
    created REAL NOT NULL,
    updated REAL NOT NULL,
    parent TEXT,
    forked_at INTEGER
);

CREATE INDEX conversations_by_change ON conversations (updated);

CREATE TABLE turns (
    id INTEGER PRIMARY KEY,
    conversation INTEGER NOT NULL REFERENCES conversations (seq) ON DELETE CASCADE,
    position INTEGER NOT NULL,
    turn BLOB NOT NULL,
    UNIQUE (conversation, position)
);

CREATE TABLE meta (
    conversation INTEGER NOT NULL REFERENCES conversations (seq) ON DELETE CASCADE,
    key TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (conversation, key)
) WITHOUT ROWID;

-- What a conversation was imported from, byte for byte.
CREATE TABLE originals (
    conversation INTEGER PRIMARY KEY REFERENCES conversations (seq) ON DELETE CASCADE,
    format TEXT NOT NULL,
    name TEXT NOT NULL,
    data BLOB NOT NULL
);

-- One row a turn, of the same rowid: its words, already folded (store/search.py) and joined by spaces, so everything but a
-- space is part of a token. Hits are given newest first, never ranked, so column sizes are not kept.
CREATE VIRTUAL TABLE search USING fts5 (
    words,
    tokenize = "unicode61 remove_diacritics 0 categories 'L* M* N* P* S* C*'",
    columnsize = 0,
    prefix = '1 2 3'
);
