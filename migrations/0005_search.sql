-- 0005_search: the full text under a declaration that Datasette and sqlite-utils recognise. They look
-- for content="messages"; without it there is no search box, and `_search=` is passed over in silence.

DROP TABLE messages_fts;
CREATE VIRTUAL TABLE messages_fts USING fts5(text, thinking, content="messages", content_rowid="id", tokenize='unicode61 remove_diacritics 2');
INSERT INTO messages_fts(messages_fts) VALUES ('rebuild');

DROP TABLE tool_uses_fts;
CREATE VIRTUAL TABLE tool_uses_fts USING fts5(target, input, result_text, content="tool_uses", content_rowid="id", tokenize='unicode61 remove_diacritics 2');
INSERT INTO tool_uses_fts(tool_uses_fts) VALUES ('rebuild');

-- Events that go, and entries that are merged, were looked for among all turns and all aliases.
CREATE INDEX turns_event_id ON turns(event_id) WHERE event_id IS NOT NULL;
CREATE INDEX _aliases_message_id ON _aliases(message_id);

-- Nobody asks these any more.
DROP INDEX messages_no_request;
DROP INDEX _summaries_leaf_uuid;
