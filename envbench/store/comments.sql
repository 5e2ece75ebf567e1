-- What every table, view and column means. `docs/schema.md` is made from these comments.

COMMENT ON TABLE schema_info IS 'One row: which version of this schema the file has.';
COMMENT ON COLUMN schema_info.version IS 'Version of the schema. A newer one than the library knows is refused.';
COMMENT ON COLUMN schema_info.created_at IS 'When the file was made, UTC.';
COMMENT ON COLUMN schema_info.created_by IS 'Name and version of the program that made the file.';

COMMENT ON TABLE runs IS 'One row for each process that recorded episodes: what it ran on.';
COMMENT ON COLUMN runs.run_id IS 'Name of the run, as the caller gave it or made up at the first episode.';
COMMENT ON COLUMN runs.started_at IS 'When the run recorded its first episode, UTC.';
COMMENT ON COLUMN runs.python_version IS 'Version of Python that ran.';
COMMENT ON COLUMN runs.packages IS 'JSON object: installed version by package name.';
COMMENT ON COLUMN runs.platform IS 'Operating system and processor architecture.';

COMMENT ON TABLE cases IS 'One row for each case as it was asked: a case whose definition changed has a row for each definition.';
COMMENT ON COLUMN cases.case_id IS 'Stable name of the case; episodes are paired by it.';
COMMENT ON COLUMN cases.case_digest IS 'SHA-256 of the canonical form of the case as recorded.';
COMMENT ON COLUMN cases.source_id IS 'Where the case came from; cases of one source are not independent. NULL when not given.';
COMMENT ON COLUMN cases.tags IS 'JSON array of the names of the slices that the case belongs to.';
COMMENT ON COLUMN cases.expects IS 'The end that makes an episode of this case complete: termination, truncation or either.';
COMMENT ON COLUMN cases.input IS 'The task as given to the agent, portable JSON.';
COMMENT ON COLUMN cases.reference_digest IS 'SHA-256 of the canonical form of the answer key, which itself is never recorded. NULL when there is none.';

COMMENT ON TABLE environments IS 'One row for each environment as it was set up: its identity, wrappers and spaces.';
COMMENT ON COLUMN environments.environment_key IS 'Digest of the other columns; episodes refer to it.';
COMMENT ON COLUMN environments.environment_id IS 'Name of the environment, as the caller gave it or from its Gymnasium spec.';
COMMENT ON COLUMN environments.environment_version IS 'Version of the environment as the caller named it. NULL when not given.';
COMMENT ON COLUMN environments.environment_fingerprint IS 'Digest of what the environment does, where it can tell. NULL when not known.';
COMMENT ON COLUMN environments.gymnasium_version IS 'Version of Gymnasium that ran the environment.';
COMMENT ON COLUMN environments.spec IS 'JSON of the Gymnasium spec. NULL when the environment has none.';
COMMENT ON COLUMN environments.wrappers IS 'JSON array of the wrappers, outermost first.';
COMMENT ON COLUMN environments.packages IS 'JSON object: version by name of the packages that the environment ran on.';
COMMENT ON COLUMN environments.spaces IS 'JSON object with the action space and the observation space. NULL when they were not seen.';

COMMENT ON TABLE open_episodes IS 'One row for each long episode that is being written in chunks and has no row in episodes yet. One left by a process that died becomes an interrupted episode at the next writable open.';
COMMENT ON COLUMN open_episodes.episode_id IS 'The episode being written.';
COMMENT ON COLUMN open_episodes.opened_at IS 'When its first chunk was written, UTC.';
COMMENT ON COLUMN open_episodes.header IS 'JSON of what was known of the episode at its start, enough to seal it as interrupted.';

COMMENT ON TABLE episodes IS 'One row for each sealed episode. The row is written last: an episode exists when it does.';
COMMENT ON COLUMN episodes.episode_id IS 'Identity of the episode, a UUID of version 7: sorted by time of creation.';
COMMENT ON COLUMN episodes.run_id IS 'The run that recorded it. NULL when not known.';
COMMENT ON COLUMN episodes.case_id IS 'The case that the episode answers.';
COMMENT ON COLUMN episodes.case_digest IS 'SHA-256 of that case as it was asked.';
COMMENT ON COLUMN episodes.source_id IS 'Source of the case. NULL when not given.';
COMMENT ON COLUMN episodes.environment_id IS 'Name of the environment.';
COMMENT ON COLUMN episodes.environment_version IS 'Version of the environment as the caller named it. NULL when not given.';
COMMENT ON COLUMN episodes.environment_fingerprint IS 'Digest of what the environment does, where it can tell. NULL when not known.';
COMMENT ON COLUMN episodes.environment_key IS 'Row of environments with the wrappers and spaces of this episode.';
COMMENT ON COLUMN episodes.observer_id IS 'Name of the observer that read the states. NULL when there was none.';
COMMENT ON COLUMN episodes.agent_id IS 'Name of the agent. NULL when not given.';
COMMENT ON COLUMN episodes.seed IS 'Seed given to reset. NULL when none was.';
COMMENT ON COLUMN episodes.repeat IS 'Number of this repeat of the case, from 0.';
COMMENT ON COLUMN episodes.previous IS 'The failed episode that this one deliberately recovers from. NULL when it is a first attempt.';
COMMENT ON COLUMN episodes.labels IS 'JSON object of the caller''s own labels.';
COMMENT ON COLUMN episodes.ending IS 'How it ended: terminated, truncated, policy_stop, step_limit, error, interrupted, reset_early or closed_early.';
COMMENT ON COLUMN episodes.terminated IS 'True when a step returned terminated.';
COMMENT ON COLUMN episodes.truncated IS 'True when a step returned truncated.';
COMMENT ON COLUMN episodes.n_steps IS 'Number of attempted steps, refused and failed ones included.';
COMMENT ON COLUMN episodes.episode_return IS 'Sum of the rewards, not discounted. NULL when a reward was no number.';
COMMENT ON COLUMN episodes.recorded_at IS 'When the episode began, UTC.';
COMMENT ON COLUMN episodes.duration_ms IS 'From before reset to after cleanup, in milliseconds.';
COMMENT ON COLUMN episodes.max_steps IS 'The most steps allowed. NULL when there was no limit of ours.';
COMMENT ON COLUMN episodes.options IS 'JSON of the options given to reset. NULL when none were.';
COMMENT ON COLUMN episodes.initial_observation IS 'Observation returned by reset, in the batched form of its space. NULL when reset failed.';
COMMENT ON COLUMN episodes.initial_info IS 'Info returned by reset, tagged JSON. NULL when reset failed.';
COMMENT ON COLUMN episodes.initial_state_hash IS 'SHA-256 of the state after reset; its body is in states. NULL when it was not seen.';
COMMENT ON COLUMN episodes.final_state_hash IS 'SHA-256 of the last state, read before cleanup. NULL when it was not seen.';
COMMENT ON COLUMN episodes.final_state IS 'The last state, tagged JSON: a copy of its body in states, for quick checks. NULL when it was not seen.';
COMMENT ON COLUMN episodes.output IS 'What the agent answered, JSON. NULL when it returned nothing.';
COMMENT ON COLUMN episodes.errors IS 'JSON array of the errors of the episode: phase, type, message and step.';
COMMENT ON COLUMN episodes.issues IS 'JSON array of what a reader must know about this evidence: kind, message, step, and whether it limits what can be judged.';
COMMENT ON COLUMN episodes.cleanup IS 'JSON object: whether cleanup was attempted, whether it completed, and its error.';
COMMENT ON COLUMN episodes.row_keys IS 'JSON object: key column by path of the tables inside states. NULL when none was named or found.';
COMMENT ON COLUMN episodes.audited IS 'True when an audit history was recorded: only then are changes undone inside one step seen.';
COMMENT ON COLUMN episodes.extra IS 'JSON object with what else the evidence keeps of the episode.';
COMMENT ON COLUMN episodes.digest IS 'SHA-256 over all evidence of the episode. It shows alteration, not who made it.';
COMMENT ON COLUMN episodes.trajectory_digest IS 'SHA-256 over what happened, without times and identities: identical runs agree.';

COMMENT ON TABLE steps IS 'One row for each attempted step.';
COMMENT ON COLUMN steps.episode_id IS 'The episode.';
COMMENT ON COLUMN steps.step_index IS 'Number of the step, from 1.';
COMMENT ON COLUMN steps.action IS 'The action as sent, in the batched form of its space or tagged JSON.';
COMMENT ON COLUMN steps.observation IS 'Observation returned, in the batched form of its space or tagged JSON. NULL when the step returned nothing.';
COMMENT ON COLUMN steps.reward IS 'Reward returned. NULL when the step returned nothing, or no number.';
COMMENT ON COLUMN steps.terminated IS 'Flag as returned. NULL when the step returned nothing, or no boolean.';
COMMENT ON COLUMN steps.truncated IS 'Flag as returned. NULL when the step returned nothing, or no boolean.';
COMMENT ON COLUMN steps.info IS 'Info returned, tagged JSON; JSON null when it was no dict. NULL when the step returned nothing: refused, failed or interrupted.';
COMMENT ON COLUMN steps.state_hash IS 'SHA-256 of the state read after the step; its body is in states. NULL when it was not seen.';
COMMENT ON COLUMN steps.error IS 'JSON object of what went wrong in the step: phase, type, message. NULL when nothing did.';
COMMENT ON COLUMN steps.started_at IS 'When the step was called, UTC.';
COMMENT ON COLUMN steps.step_us IS 'Time that the environment took, in microseconds.';
COMMENT ON COLUMN steps.observe_us IS 'Time that the observer took, in microseconds. NULL when there was none.';

COMMENT ON TABLE states IS 'One row for each distinct state of an episode. The snapshots are the evidence; changes are derived from them.';
COMMENT ON COLUMN states.episode_id IS 'The episode.';
COMMENT ON COLUMN states.state_hash IS 'SHA-256 of body.';
COMMENT ON COLUMN states.first_step IS 'First step after which the state was seen: 0 is the reset, one more than the last step is before cleanup.';
COMMENT ON COLUMN states.body IS 'The state in canonical tagged JSON.';

COMMENT ON TABLE state_changes IS 'One row for each change of a path between two states seen one after the other. Derived from states, and can be rebuilt.';
COMMENT ON COLUMN state_changes.episode_id IS 'The episode.';
COMMENT ON COLUMN state_changes.step_index IS 'Step after which the new value was first seen.';
COMMENT ON COLUMN state_changes.since IS 'Last step at which the old value was seen: step_index - 1, but for states that were not seen.';
COMMENT ON COLUMN state_changes.path IS 'JSON Pointer of what changed; a row of a table is named by its key, as in /invoice_rows/invoice_id="invoice-17".';
COMMENT ON COLUMN state_changes.op IS 'add, remove or edit.';
COMMENT ON COLUMN state_changes.before IS 'Old value, JSON. SQL NULL when there was none; a JSON null is a value.';
COMMENT ON COLUMN state_changes.after IS 'New value, JSON. SQL NULL when there is none; a JSON null is a value.';
COMMENT ON COLUMN state_changes.restored_at IS 'First later step at which the path had its old value again. NULL when it never had.';
COMMENT ON COLUMN state_changes.restored_after IS 'Last step before that at which it was still different. NULL when not restored.';
COMMENT ON COLUMN state_changes.to_initial IS 'Whether the value that came back was also the initial one. NULL when not restored.';

COMMENT ON TABLE audit_events IS 'One row for each event of an authoritative history, such as a database trigger''s: it sees changes undone inside one step.';
COMMENT ON COLUMN audit_events.episode_id IS 'The episode.';
COMMENT ON COLUMN audit_events.step_index IS 'Step during which the event was recorded: 0 is the reset.';
COMMENT ON COLUMN audit_events.event_index IS 'Place of the event in the episode''s history, from 0.';
COMMENT ON COLUMN audit_events.table_name IS 'Table in which something changed.';
COMMENT ON COLUMN audit_events.op IS 'What was done to the row, such as insert, update or delete.';
COMMENT ON COLUMN audit_events.key IS 'Key of the row, JSON.';
COMMENT ON COLUMN audit_events.before IS 'The row before, JSON. NULL when there was none.';
COMMENT ON COLUMN audit_events.after IS 'The row after, JSON. NULL when there is none.';

COMMENT ON TABLE frames IS 'One row for each frame that was kept, when rendering was asked for.';
COMMENT ON COLUMN frames.episode_id IS 'The episode.';
COMMENT ON COLUMN frames.step_index IS 'Step after which the frame was rendered: 0 is the reset.';
COMMENT ON COLUMN frames.kind IS 'rgb_array or ansi.';
COMMENT ON COLUMN frames.blob_hash IS 'SHA-256 of the frame: of the picture in blobs, a PNG file, or of the text.';
COMMENT ON COLUMN frames.body IS 'The text, where it is shown for the first time. NULL where it comes again, and for a picture.';

COMMENT ON TABLE blobs IS 'One row for each large array or picture of an episode, by content.';
COMMENT ON COLUMN blobs.episode_id IS 'The episode.';
COMMENT ON COLUMN blobs.blob_hash IS 'SHA-256 of the content, decompressed.';
COMMENT ON COLUMN blobs.n_bytes IS 'Size of the content, decompressed, in bytes.';
COMMENT ON COLUMN blobs.codec IS 'How body is compressed.';
COMMENT ON COLUMN blobs.body IS 'The content, compressed; an array is in C order.';

COMMENT ON TABLE reports IS 'One row for each saved report: checks applied to episodes.';
COMMENT ON COLUMN reports.report_id IS 'Identity of the report.';
COMMENT ON COLUMN reports.name IS 'Name of the report.';
COMMENT ON COLUMN reports.created_at IS 'When the checks were applied, UTC.';
COMMENT ON COLUMN reports.checks IS 'JSON array of the checks, name and version.';
COMMENT ON COLUMN reports.lock IS 'JSON object of what must be equal for another report to be comparable.';
COMMENT ON COLUMN reports.episodes IS 'JSON array of the judged episodes.';
COMMENT ON COLUMN reports.digest IS 'SHA-256 over the report.';

COMMENT ON TABLE check_results IS 'One row for each check of each episode of a report.';
COMMENT ON COLUMN check_results.report_id IS 'The report.';
COMMENT ON COLUMN check_results.episode_id IS 'The episode judged.';
COMMENT ON COLUMN check_results.case_id IS 'The case of the episode.';
COMMENT ON COLUMN check_results.check_name IS 'Name of the check.';
COMMENT ON COLUMN check_results.check_version IS 'Version of the check.';
COMMENT ON COLUMN check_results.passed IS 'The verdict. NULL when the evidence does not say, which is neither a pass nor a failure.';
COMMENT ON COLUMN check_results.reason IS 'Why, in words.';
COMMENT ON COLUMN check_results.evidence IS 'JSON of what the verdict rests on.';
COMMENT ON COLUMN check_results.error IS 'Error of the check itself. NULL when it ran; a result with one has no verdict.';

COMMENT ON TABLE findings IS 'One row for each forbidden change that a check found.';
COMMENT ON COLUMN findings.report_id IS 'The report.';
COMMENT ON COLUMN findings.episode_id IS 'The episode.';
COMMENT ON COLUMN findings.check_name IS 'Name of the check.';
COMMENT ON COLUMN findings.finding_index IS 'Place of the finding in the check''s result, from 0.';
COMMENT ON COLUMN findings.rule IS 'The rule that was broken.';
COMMENT ON COLUMN findings.path IS 'JSON Pointer of what changed.';
COMMENT ON COLUMN findings.kind IS 'restored (put back later), net (still different at the end) or inside_step (undone within the step).';
COMMENT ON COLUMN findings.step_index IS 'Step of the change.';
COMMENT ON COLUMN findings.action IS 'Action of that step, JSON. NULL when the change has none.';
COMMENT ON COLUMN findings.restored_at IS 'Step at which the value was back. NULL when it never was.';
COMMENT ON COLUMN findings.before IS 'Value before the change, JSON.';
COMMENT ON COLUMN findings.during IS 'JSON array of the distinct values in between.';
COMMENT ON COLUMN findings.after IS 'Value at the end of the episode, JSON.';
COMMENT ON COLUMN findings.resolution IS 'How finely the method saw: step (states) or audit (an authoritative history).';

COMMENT ON TABLE decisions IS 'One row for each time an acceptance policy was applied to a report.';
COMMENT ON COLUMN decisions.decision_id IS 'Identity of the decision.';
COMMENT ON COLUMN decisions.report_id IS 'The report judged.';
COMMENT ON COLUMN decisions.decided_at IS 'When, UTC.';
COMMENT ON COLUMN decisions.decision IS 'accept, reject or indeterminate.';
COMMENT ON COLUMN decisions.policy IS 'JSON of the policy applied.';
COMMENT ON COLUMN decisions.findings IS 'JSON array of the reasons.';
COMMENT ON COLUMN decisions.measurements IS 'JSON of the figures that the decision rests on.';

COMMENT ON TABLE tasks IS 'One row for each task of a frozen data set that episodes were run on.';
COMMENT ON COLUMN tasks.dataset_hash IS 'Digest of the data set: order and content of its tasks.';
COMMENT ON COLUMN tasks.dataset_name IS 'Name of the data set.';
COMMENT ON COLUMN tasks.dataset_version IS 'Version of the data set.';
COMMENT ON COLUMN tasks.task_index IS 'Place of the task in the data set, from 0.';
COMMENT ON COLUMN tasks.task_id IS 'Name of the task.';
COMMENT ON COLUMN tasks.input IS 'The task as given to the policy, JSON.';
COMMENT ON COLUMN tasks.metadata IS 'JSON object of what else the task carries.';

COMMENT ON VIEW steps_full IS 'The steps of sealed episodes with their state and what they belong to, one row a step.';
COMMENT ON COLUMN steps_full.state IS 'The state read after the step, tagged JSON. NULL when it was not seen.';

COMMENT ON VIEW transitions IS 'What a learner needs: observation, action, reward, next observation and flags, one row for each step that the environment took. Steps that were refused, failed or were interrupted have none.';
COMMENT ON COLUMN transitions.observation IS 'What the agent last saw before it acted: the observation of the last step that returned one, else that of reset.';
COMMENT ON COLUMN transitions.next_observation IS 'The observation that the step returned.';

COMMENT ON VIEW restorations IS 'The changes that were put back: state_changes with a restored_at.';

COMMENT ON VIEW latest_results IS 'For each episode and check, the result in the latest report that has one.';
COMMENT ON COLUMN latest_results.created_at IS 'When that report was made, UTC.';

COMMENT ON VIEW initial_states IS 'The state after reset of each sealed episode, one row an episode.';
COMMENT ON COLUMN initial_states.episode_id IS 'The episode.';
COMMENT ON COLUMN initial_states.state IS 'The state, tagged JSON. NULL when it was not seen.';

COMMENT ON VIEW final_states IS 'The last state of each sealed episode, one row an episode.';
COMMENT ON COLUMN final_states.episode_id IS 'The episode.';
COMMENT ON COLUMN final_states.state IS 'The state, tagged JSON. NULL when it was not seen.';
