-- +goose Up

-- How many calls had which outcome, as every process has counted them since its row
-- before. Only Sweepers with RecordStats write to it. They add up what is older than an
-- hour by quarters of an hour, and delete what is older than 14 days.
CREATE TABLE tool_dedup_stat (
    at       timestamptz      NOT NULL,
    instance text             COLLATE "C" NOT NULL,
    tool     text             COLLATE "C" NOT NULL,
    outcome  text             COLLATE "C" NOT NULL,
    calls    bigint           NOT NULL,
    seconds  double precision NOT NULL,
    waited   double precision NOT NULL,
    CONSTRAINT tool_dedup_stat_pkey PRIMARY KEY (at, instance, tool, outcome)
);

COMMENT ON TABLE tool_dedup_stat IS 'Calls by tool and outcome, counted by the processes that make them (github.com/tooldedup/dedup, SweeperOptions.RecordStats).';
COMMENT ON COLUMN tool_dedup_stat.at IS 'When they were counted, by the database''s clock; of a sum the quarter of an hour.';
COMMENT ON COLUMN tool_dedup_stat.instance IS 'The process: its host, its pid and a random part. Empty for the sum of all.';
COMMENT ON COLUMN tool_dedup_stat.tool IS 'The calls'' tool; _other for tools beyond those that a process counts by name.';
COMMENT ON COLUMN tool_dedup_stat.outcome IS 'What the calls came to, as dedup.Outcome has it.';
COMMENT ON COLUMN tool_dedup_stat.calls IS 'How many ended since the process''s row before.';
COMMENT ON COLUMN tool_dedup_stat.seconds IS 'The time that they took together.';
COMMENT ON COLUMN tool_dedup_stat.waited IS 'The part of it that they waited for twins.';

-- +goose Down

DROP TABLE tool_dedup_stat;
