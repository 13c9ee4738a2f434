-- `record` is the key as JSON, so that a new field needs no new column; `revoked` is kept beside it, for it changes.
CREATE TABLE midstream_gateway.keys (
    seq BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    digest BYTEA NOT NULL UNIQUE,
    record BYTEA NOT NULL,
    revoked DOUBLE PRECISION
);

CREATE TABLE midstream_gateway.seal_keys (
    seq BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    secret BYTEA NOT NULL,
    created DOUBLE PRECISION NOT NULL,
    retired DOUBLE PRECISION
);

-- `address` is a digest of the tenant and the id (protocol.py: address).
CREATE TABLE midstream_gateway.vault (
    address BYTEA PRIMARY KEY,
    expires DOUBLE PRECISION NOT NULL,
    thinking BYTEA NOT NULL
);

CREATE INDEX vault_by_expiry ON midstream_gateway.vault (expires);

CREATE TABLE midstream_gateway.responses (
    address BYTEA PRIMARY KEY,
    expires DOUBLE PRECISION NOT NULL,
    record BYTEA NOT NULL
);

CREATE INDEX responses_by_expiry ON midstream_gateway.responses (expires);

CREATE TABLE midstream_gateway.spend (
    key_id TEXT NOT NULL,
    "window" TEXT NOT NULL,
    amount BIGINT NOT NULL,
    PRIMARY KEY (key_id, "window")
);

CREATE TABLE midstream_gateway.rates (
    key_id TEXT NOT NULL,
    minute BIGINT NOT NULL,
    count BIGINT NOT NULL,
    PRIMARY KEY (key_id, minute)
);

CREATE INDEX rates_by_minute ON midstream_gateway.rates (minute);

-- The columns are those of protocol.py: UsageRow, in its order.
CREATE TABLE midstream_gateway.usage (
    seq BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    time DOUBLE PRECISION NOT NULL,
    tenant TEXT NOT NULL,
    key_id TEXT NOT NULL,
    model TEXT NOT NULL,
    provider TEXT NOT NULL,
    wire TEXT NOT NULL,
    status INTEGER NOT NULL,
    input BIGINT,
    output BIGINT,
    cache_read BIGINT,
    cache_write BIGINT,
    cost BIGINT,
    latency_ms DOUBLE PRECISION,
    ttft_ms DOUBLE PRECISION
);

CREATE INDEX usage_by_time ON midstream_gateway.usage (time);

-- Writes that must not be done twice: when a connection is lost during one, the same call looks here before it tries again.
CREATE TABLE midstream_gateway.applied (
    token UUID PRIMARY KEY,
    time TIMESTAMPTZ NOT NULL DEFAULT now()
);

CREATE INDEX applied_by_time ON midstream_gateway.applied (time);
