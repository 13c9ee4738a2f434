-- The tables of store/migrations/0001_conversations.sql, with what PostgreSQL needs otherwise: JSON is kept as bytes, other text
-- escaped (store/postgres.py: _escaped), since neither TEXT nor JSONB can hold a NUL character. An index cannot hold text
-- of any length, so ids and names of settings are found by their SHA-256. `token` names the call that wrote the row.
CREATE TABLE midstream.conversations (
    seq BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id TEXT NOT NULL,
    id_digest BYTEA NOT NULL UNIQUE,
    token UUID NOT NULL,
    head BYTEA NOT NULL,
    title TEXT NOT NULL,
    models TEXT NOT NULL,
    length INTEGER NOT NULL,
    created DOUBLE PRECISION NOT NULL,
    updated DOUBLE PRECISION NOT NULL,
    parent TEXT,
    forked_at BIGINT
);

CREATE INDEX conversations_by_change ON midstream.conversations (updated, seq);

-- `words` are the words for search, without their places: what it finds is looked at again (store/postgres.py: search). It is
-- NULL for a turn with more words than one such value can hold; those turns are looked at in every search.
CREATE TABLE midstream.turns (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    conversation BIGINT NOT NULL REFERENCES midstream.conversations (seq) ON DELETE CASCADE,
    position INTEGER NOT NULL,
    token UUID NOT NULL,
    turn BYTEA NOT NULL,
    words TSVECTOR,
    UNIQUE (conversation, position)
);

CREATE INDEX turns_by_words ON midstream.turns USING GIN (words);

CREATE INDEX turns_without_words ON midstream.turns (id) WHERE words IS NULL;

CREATE TABLE midstream.meta (
    conversation BIGINT NOT NULL REFERENCES midstream.conversations (seq) ON DELETE CASCADE,
    key TEXT NOT NULL,
    key_digest BYTEA NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (conversation, key_digest)
);

CREATE TABLE midstream.originals (
    conversation BIGINT PRIMARY KEY REFERENCES midstream.conversations (seq) ON DELETE CASCADE,
    format TEXT NOT NULL,
    name TEXT NOT NULL,
    data BYTEA NOT NULL
);
