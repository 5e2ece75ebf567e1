-- The views of an envbench store. They show sealed episodes only: those with a row in `episodes`.

CREATE VIEW steps_full AS
SELECT
    s.episode_id,
    s.step_index,
    s.action,
    s.observation,
    s.reward,
    s.terminated,
    s.truncated,
    s.info,
    t.body AS state,
    s.state_hash,
    s.error,
    s.started_at,
    s.step_us,
    s.observe_us,
    e.case_id,
    e.source_id,
    e.environment_id,
    e.environment_version,
    e.agent_id,
    e.seed,
    e.repeat,
    e.ending
FROM steps AS s
JOIN episodes AS e ON e.episode_id = s.episode_id
LEFT JOIN states AS t ON t.episode_id = s.episode_id AND t.state_hash = s.state_hash;

-- A refused action and a step that raised have no observation, so that `lag` passes over them: the
-- agent still held the last one it had got.
CREATE VIEW transitions AS
SELECT episode_id, step_index, observation, action, reward, next_observation, terminated, truncated,
    info
FROM (
    SELECT
        s.episode_id,
        s.step_index,
        coalesce(
            lag(s.observation IGNORE NULLS) OVER (PARTITION BY s.episode_id ORDER BY s.step_index),
            e.initial_observation
        ) AS observation,
        s.action,
        s.reward,
        s.observation AS next_observation,
        s.terminated,
        s.truncated,
        s.info
    FROM steps AS s
    JOIN episodes AS e ON e.episode_id = s.episode_id
)
WHERE info IS NOT NULL;

CREATE VIEW restorations AS
SELECT c.episode_id, c.step_index, c.since, c.path, c.op, c.before, c.after, c.restored_at,
    c.restored_after, c.to_initial
FROM state_changes AS c
SEMI JOIN episodes AS e ON e.episode_id = c.episode_id
WHERE c.restored_at IS NOT NULL;

CREATE VIEW latest_results AS
SELECT c.report_id, r.created_at, c.episode_id, c.case_id, c.check_name, c.check_version, c.passed,
    c.reason, c.evidence, c.error
FROM check_results AS c
JOIN reports AS r ON r.report_id = c.report_id
SEMI JOIN episodes AS e ON e.episode_id = c.episode_id
QUALIFY rank() OVER (
    PARTITION BY c.episode_id, c.check_name ORDER BY r.created_at DESC, r.report_id DESC
) = 1;

CREATE VIEW initial_states AS
SELECT e.episode_id, s.body AS state
FROM episodes AS e
LEFT JOIN states AS s ON s.episode_id = e.episode_id AND s.state_hash = e.initial_state_hash;

CREATE VIEW final_states AS
SELECT episode_id, final_state AS state
FROM episodes;
