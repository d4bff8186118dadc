-- 0002_costs: what stands behind the cost views, and what keeps prices sound when they are edited by
-- hand. Costs themselves are not stored: views compute them, so that a changed price counts at once.

-- The names under which a model's price is looked for, nearest first.
CREATE TABLE _model_names (
  model TEXT NOT NULL, -- model as transcripts write it
  place INTEGER NOT NULL, -- 0 is the name itself
  name TEXT NOT NULL, -- name to look for in prices
  PRIMARY KEY (model, place)
) WITHOUT ROWID;

-- Shipped prices that the user deleted or made his own; an upgrade does not bring them back.
CREATE TABLE _deleted_prices (
  model TEXT NOT NULL, -- as in prices
  effective_from TEXT NOT NULL, -- as in prices, empty for since ever
  prompt_tokens_gt INTEGER NOT NULL, -- as in prices
  PRIMARY KEY (model, effective_from, prompt_tokens_gt)
) WITHOUT ROWID;

-- Requests in the order in which sums are made: grouping needs no sorting then, which halves the time.
-- Local days, weeks and hours begin on a quarter of an hour wherever one lives.
DROP INDEX usage_session_id;
CREATE INDEX usage_session_id ON usage(session_id, model);
CREATE INDEX usage_quarter ON usage(substr(timestamp, 1, 14) || (substr(timestamp, 15, 2) / 15), model);

-- A price that is no number would silently count as 0, a huge one would overflow the sums.
CREATE TRIGGER prices_check_insert BEFORE INSERT ON prices
BEGIN
  SELECT CASE
    WHEN typeof(NEW.model) <> 'text' OR trim(NEW.model) = ''
      THEN RAISE(ABORT, 'a price needs a model')
    WHEN coalesce(NEW.effective_from, '') NOT GLOB '[0-9][0-9][0-9][0-9]-[01][0-9]-[0-3][0-9]'
        AND coalesce(NEW.effective_from, '') <> ''
      OR coalesce(NEW.effective_to, '') NOT GLOB '[0-9][0-9][0-9][0-9]-[01][0-9]-[0-3][0-9]'
        AND coalesce(NEW.effective_to, '') <> ''
      THEN RAISE(ABORT, 'a date is written YYYY-MM-DD, or left empty')
    WHEN typeof(NEW.prompt_tokens_gt) <> 'integer' OR NEW.prompt_tokens_gt < 0
      THEN RAISE(ABORT, 'prompt_tokens_gt is a whole number of tokens, 0 or more')
    WHEN typeof(NEW.input_usd_per_mtok) NOT IN ('real', 'integer')
      OR typeof(NEW.output_usd_per_mtok) NOT IN ('real', 'integer')
      OR typeof(NEW.cache_write_5m_usd_per_mtok) NOT IN ('real', 'integer')
      OR typeof(NEW.cache_write_1h_usd_per_mtok) NOT IN ('real', 'integer')
      OR typeof(NEW.cache_read_usd_per_mtok) NOT IN ('real', 'integer')
      OR NOT NEW.input_usd_per_mtok BETWEEN 0 AND 10000
      OR NOT NEW.output_usd_per_mtok BETWEEN 0 AND 10000
      OR NOT NEW.cache_write_5m_usd_per_mtok BETWEEN 0 AND 10000
      OR NOT NEW.cache_write_1h_usd_per_mtok BETWEEN 0 AND 10000
      OR NOT NEW.cache_read_usd_per_mtok BETWEEN 0 AND 10000
      THEN RAISE(ABORT, 'a price is a number of USD per million tokens, 0 to 10000')
    WHEN coalesce(NEW.fast_multiplier, '') <> '' AND (typeof(NEW.fast_multiplier) NOT IN ('real', 'integer')
        OR NOT NEW.fast_multiplier BETWEEN 0 AND 100)
      OR coalesce(NEW.us_geo_multiplier, '') <> '' AND (typeof(NEW.us_geo_multiplier) NOT IN ('real', 'integer')
        OR NOT NEW.us_geo_multiplier BETWEEN 0 AND 100)
      THEN RAISE(ABORT, 'a multiplier is a number, 0 to 100, or left empty')
  END;
END;
CREATE TRIGGER prices_check_update BEFORE UPDATE ON prices
BEGIN
  SELECT CASE
    WHEN typeof(NEW.model) <> 'text' OR trim(NEW.model) = ''
      THEN RAISE(ABORT, 'a price needs a model')
    WHEN coalesce(NEW.effective_from, '') NOT GLOB '[0-9][0-9][0-9][0-9]-[01][0-9]-[0-3][0-9]'
        AND coalesce(NEW.effective_from, '') <> ''
      OR coalesce(NEW.effective_to, '') NOT GLOB '[0-9][0-9][0-9][0-9]-[01][0-9]-[0-3][0-9]'
        AND coalesce(NEW.effective_to, '') <> ''
      THEN RAISE(ABORT, 'a date is written YYYY-MM-DD, or left empty')
    WHEN typeof(NEW.prompt_tokens_gt) <> 'integer' OR NEW.prompt_tokens_gt < 0
      THEN RAISE(ABORT, 'prompt_tokens_gt is a whole number of tokens, 0 or more')
    WHEN typeof(NEW.input_usd_per_mtok) NOT IN ('real', 'integer')
      OR typeof(NEW.output_usd_per_mtok) NOT IN ('real', 'integer')
      OR typeof(NEW.cache_write_5m_usd_per_mtok) NOT IN ('real', 'integer')
      OR typeof(NEW.cache_write_1h_usd_per_mtok) NOT IN ('real', 'integer')
      OR typeof(NEW.cache_read_usd_per_mtok) NOT IN ('real', 'integer')
      OR NOT NEW.input_usd_per_mtok BETWEEN 0 AND 10000
      OR NOT NEW.output_usd_per_mtok BETWEEN 0 AND 10000
      OR NOT NEW.cache_write_5m_usd_per_mtok BETWEEN 0 AND 10000
      OR NOT NEW.cache_write_1h_usd_per_mtok BETWEEN 0 AND 10000
      OR NOT NEW.cache_read_usd_per_mtok BETWEEN 0 AND 10000
      THEN RAISE(ABORT, 'a price is a number of USD per million tokens, 0 to 10000')
    WHEN coalesce(NEW.fast_multiplier, '') <> '' AND (typeof(NEW.fast_multiplier) NOT IN ('real', 'integer')
        OR NOT NEW.fast_multiplier BETWEEN 0 AND 100)
      OR coalesce(NEW.us_geo_multiplier, '') <> '' AND (typeof(NEW.us_geo_multiplier) NOT IN ('real', 'integer')
        OR NOT NEW.us_geo_multiplier BETWEEN 0 AND 100)
      THEN RAISE(ABORT, 'a multiplier is a number, 0 to 100, or left empty')
  END;
END;

-- Whoever edits a shipped price has made the model's prices his own: an upgrade leaves them alone.
CREATE TRIGGER prices_edited AFTER UPDATE ON prices
WHEN OLD.origin = 'shipped' AND NEW.origin = 'shipped'
  AND NOT EXISTS (SELECT 1 FROM _meta WHERE key = 'refreshing prices')
BEGIN
  INSERT OR IGNORE INTO _deleted_prices
  VALUES (OLD.model, coalesce(OLD.effective_from, ''), OLD.prompt_tokens_gt);
  INSERT OR IGNORE INTO _deleted_prices
  SELECT model, coalesce(effective_from, ''), prompt_tokens_gt FROM prices
  WHERE model IN (OLD.model, NEW.model) AND origin = 'shipped';
  UPDATE prices SET origin = 'user' WHERE model IN (OLD.model, NEW.model);
END;
CREATE TRIGGER prices_deleted AFTER DELETE ON prices
WHEN OLD.origin = 'shipped' AND NOT EXISTS (SELECT 1 FROM _meta WHERE key = 'refreshing prices')
BEGIN
  INSERT OR IGNORE INTO _deleted_prices
  VALUES (OLD.model, coalesce(OLD.effective_from, ''), OLD.prompt_tokens_gt);
END;
