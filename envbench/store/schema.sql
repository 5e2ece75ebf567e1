-- The tables of an envbench store, schema version 1.
--
-- No primary keys, foreign keys or indexes: DuckDB keeps them in memory and replays them from the
-- WAL, and a recorder only ever appends. Text that is bulk is JSON with zstd forced, because left to
-- itself DuckDB picks a string compression that is ten times larger on snapshots.
-- An episode exists when its `episodes` row does; that row is written last and is the seal.

CREATE TABLE schema_info (
    version INTEGER NOT NULL,
    created_at TIMESTAMP NOT NULL,
    created_by VARCHAR NOT NULL
);

CREATE TABLE runs (
    run_id VARCHAR NOT NULL,
    started_at TIMESTAMP NOT NULL,
    python_version VARCHAR NOT NULL,
    packages JSON NOT NULL,
    platform VARCHAR NOT NULL
);

CREATE TABLE cases (
    case_id VARCHAR NOT NULL,
    case_digest VARCHAR NOT NULL,
    source_id VARCHAR,
    tags JSON NOT NULL,
    expects VARCHAR NOT NULL,
    input JSON NOT NULL USING COMPRESSION zstd,
    reference_digest VARCHAR
);

CREATE TABLE environments (
    environment_key VARCHAR NOT NULL,
    environment_id VARCHAR NOT NULL,
    environment_version VARCHAR,
    environment_fingerprint VARCHAR,
    gymnasium_version VARCHAR NOT NULL,
    spec JSON,
    wrappers JSON NOT NULL,
    packages JSON NOT NULL,
    spaces JSON USING COMPRESSION zstd
);

CREATE TABLE open_episodes (
    episode_id VARCHAR NOT NULL,
    opened_at TIMESTAMP NOT NULL,
    header JSON NOT NULL USING COMPRESSION zstd
);

CREATE TABLE episodes (
    episode_id VARCHAR NOT NULL,
    run_id VARCHAR,
    case_id VARCHAR NOT NULL,
    case_digest VARCHAR NOT NULL,
    source_id VARCHAR,
    environment_id VARCHAR NOT NULL,
    environment_version VARCHAR,
    environment_fingerprint VARCHAR,
    environment_key VARCHAR NOT NULL,
    observer_id VARCHAR,
    agent_id VARCHAR,
    seed BIGINT,
    repeat INTEGER NOT NULL,
    previous VARCHAR,
    labels JSON NOT NULL,
    ending VARCHAR NOT NULL,
    terminated BOOLEAN NOT NULL,
    truncated BOOLEAN NOT NULL,
    n_steps BIGINT NOT NULL,
    episode_return DOUBLE,
    recorded_at TIMESTAMP NOT NULL,
    duration_ms DOUBLE NOT NULL,
    max_steps BIGINT,
    options JSON,
    initial_observation JSON USING COMPRESSION zstd,
    initial_info JSON USING COMPRESSION zstd,
    initial_state_hash VARCHAR,
    final_state_hash VARCHAR,
    -- A copy of one body of `states`: DuckDB unpacks zstd 2,048 rows at a time, so that reading 1,000
    -- final states from there unpacks every state (60 ms against 10).
    final_state JSON USING COMPRESSION zstd,
    output JSON USING COMPRESSION zstd,
    errors JSON NOT NULL USING COMPRESSION zstd,
    issues JSON NOT NULL USING COMPRESSION zstd,
    cleanup JSON NOT NULL,
    row_keys JSON,
    audited BOOLEAN NOT NULL,
    extra JSON NOT NULL,
    digest VARCHAR NOT NULL,
    trajectory_digest VARCHAR NOT NULL
);

CREATE TABLE steps (
    episode_id VARCHAR NOT NULL,
    step_index BIGINT NOT NULL,
    action JSON USING COMPRESSION zstd,
    observation JSON USING COMPRESSION zstd,
    reward DOUBLE,
    terminated BOOLEAN,
    truncated BOOLEAN,
    info JSON USING COMPRESSION zstd,
    state_hash VARCHAR,
    error JSON USING COMPRESSION zstd,
    started_at TIMESTAMP,
    step_us DOUBLE,
    observe_us DOUBLE
);

CREATE TABLE states (
    episode_id VARCHAR NOT NULL,
    state_hash VARCHAR NOT NULL,
    first_step BIGINT NOT NULL,
    body JSON NOT NULL USING COMPRESSION zstd
);

CREATE TABLE state_changes (
    episode_id VARCHAR NOT NULL,
    step_index BIGINT NOT NULL,
    since BIGINT NOT NULL,
    path VARCHAR NOT NULL,
    op VARCHAR NOT NULL,
    before JSON USING COMPRESSION zstd,
    after JSON USING COMPRESSION zstd,
    restored_at BIGINT,
    restored_after BIGINT,
    to_initial BOOLEAN
);

CREATE TABLE audit_events (
    episode_id VARCHAR NOT NULL,
    step_index BIGINT NOT NULL,
    event_index BIGINT NOT NULL,
    table_name VARCHAR NOT NULL,
    op VARCHAR NOT NULL,
    key JSON,
    before JSON USING COMPRESSION zstd,
    after JSON USING COMPRESSION zstd
);

CREATE TABLE frames (
    episode_id VARCHAR NOT NULL,
    step_index BIGINT NOT NULL,
    kind VARCHAR NOT NULL,
    blob_hash VARCHAR,
    body VARCHAR USING COMPRESSION zstd
);

CREATE TABLE blobs (
    episode_id VARCHAR NOT NULL,
    blob_hash VARCHAR NOT NULL,
    n_bytes BIGINT NOT NULL,
    codec VARCHAR NOT NULL,
    body BLOB NOT NULL
);

CREATE TABLE reports (
    report_id VARCHAR NOT NULL,
    name VARCHAR NOT NULL,
    created_at TIMESTAMP NOT NULL,
    checks JSON NOT NULL,
    lock JSON NOT NULL USING COMPRESSION zstd,
    episodes JSON NOT NULL USING COMPRESSION zstd,
    digest VARCHAR NOT NULL
);

CREATE TABLE check_results (
    report_id VARCHAR NOT NULL,
    episode_id VARCHAR NOT NULL,
    case_id VARCHAR NOT NULL,
    check_name VARCHAR NOT NULL,
    check_version VARCHAR NOT NULL,
    passed BOOLEAN,
    reason VARCHAR USING COMPRESSION zstd,
    evidence JSON USING COMPRESSION zstd,
    error VARCHAR USING COMPRESSION zstd
);

CREATE TABLE findings (
    report_id VARCHAR NOT NULL,
    episode_id VARCHAR NOT NULL,
    check_name VARCHAR NOT NULL,
    finding_index INTEGER NOT NULL,
    rule VARCHAR NOT NULL,
    path VARCHAR NOT NULL,
    kind VARCHAR NOT NULL,
    step_index BIGINT NOT NULL,
    action JSON,
    restored_at BIGINT,
    before JSON USING COMPRESSION zstd,
    during JSON USING COMPRESSION zstd,
    after JSON USING COMPRESSION zstd,
    resolution VARCHAR NOT NULL
);

CREATE TABLE decisions (
    decision_id VARCHAR NOT NULL,
    report_id VARCHAR NOT NULL,
    decided_at TIMESTAMP NOT NULL,
    decision VARCHAR NOT NULL,
    policy JSON NOT NULL,
    findings JSON NOT NULL USING COMPRESSION zstd,
    measurements JSON NOT NULL USING COMPRESSION zstd
);

CREATE TABLE tasks (
    dataset_hash VARCHAR NOT NULL,
    dataset_name VARCHAR NOT NULL,
    dataset_version VARCHAR NOT NULL,
    task_index INTEGER NOT NULL,
    task_id VARCHAR NOT NULL,
    input JSON NOT NULL USING COMPRESSION zstd,
    metadata JSON NOT NULL USING COMPRESSION zstd
);
