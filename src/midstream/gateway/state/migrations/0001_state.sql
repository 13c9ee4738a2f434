-- `record` is the key as JSON, so that a new field needs no new column; `revoked` is kept beside it, for it changes.
CREATE TABLE keys (
    seq INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    digest BLOB NOT NULL UNIQUE,
    record BLOB NOT NULL,
    revoked REAL
);

CREATE TABLE seal_keys (
    seq INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    secret BLOB NOT NULL,
    created REAL NOT NULL,
    retired REAL
);

-- `address` is a digest of the tenant and the id (protocol.py: address).
CREATE TABLE vault (
    seq INTEGER PRIMARY KEY,
    address BLOB NOT NULL UNIQUE,
    expires REAL NOT NULL,
    thinking BLOB NOT NULL
);

CREATE INDEX vault_by_expiry ON vault (expires);

CREATE TABLE responses (
    seq INTEGER PRIMARY KEY,
    address BLOB NOT NULL UNIQUE,
    expires REAL NOT NULL,
    record BLOB NOT NULL
);

CREATE INDEX responses_by_expiry ON responses (expires);

CREATE TABLE spend (
    key_id TEXT NOT NULL,
    window TEXT NOT NULL,
    amount INTEGER NOT NULL,
    PRIMARY KEY (key_id, window)
) WITHOUT ROWID;

CREATE TABLE rates (
    key_id TEXT NOT NULL,
    minute INTEGER NOT NULL,
    count INTEGER NOT NULL,
    PRIMARY KEY (key_id, minute)
) WITHOUT ROWID;

CREATE INDEX rates_by_minute ON rates (minute);

-- The columns are those of protocol.py: UsageRow, in its order.
CREATE TABLE usage (
    seq INTEGER PRIMARY KEY,
    time REAL NOT NULL,
    tenant TEXT NOT NULL,
    key_id TEXT NOT NULL,
    model TEXT NOT NULL,
    provider TEXT NOT NULL,
    wire TEXT NOT NULL,
    status INTEGER NOT NULL,
    input INTEGER,
    output INTEGER,
    cache_read INTEGER,
    cache_write INTEGER,
    cost INTEGER,
    latency_ms REAL,
    ttft_ms REAL
);

CREATE INDEX usage_by_time ON usage (time);
