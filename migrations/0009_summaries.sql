-- 0009_summaries: find the summaries that wait for an entry without going over all of them.

CREATE INDEX _summaries_waiting ON _summaries(leaf_uuid) WHERE leaf_session IS NULL;
CREATE INDEX _skipped_parents_ancestor ON _skipped_parents(ancestor);
