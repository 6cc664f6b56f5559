package scale

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup/bench/internal/bed"
)

// operatedSQL writes what stands beside the records: for each of two keys a broken record, a
// line of the audit that says so, and an operation that is parked, among others that are not;
// and what ten processes have counted of ten tools in the last hour, and its sums of 14 days.
const operatedSQL = `
UPDATE tool_dedup SET outcome = 'broken', result = NULL WHERE scope = 'acme' AND tool = 'book' AND key = ANY (ARRAY(SELECT key FROM drawn OFFSET %[1]d));

INSERT INTO tool_dedup_audit (at, actor, role, action, scope, tool, key, outcome, created_at, reason)
SELECT created_at, 'ada', 'app', action, scope, tool, key, outcome, created_at, 'the effect ended its own transaction'
  FROM tool_dedup, unnest(ARRAY['reset', 'broken', 'reset']) AS action
 WHERE scope = 'acme' AND tool = 'book' AND key = ANY (ARRAY(SELECT key FROM drawn OFFSET %[1]d));

INSERT INTO tool_effect (scope, tool, key, state, fence, tries, looked, fingerprint, created_at, changed_at)
SELECT 'acme', 'book', 'op-' || n, CASE WHEN n %% 100 = 0 THEN 'parked' ELSE 'done' END, n, 1, true, ''::bytea, now(), now() - n * interval '1 second'
  FROM generate_series(1, 100 * %[1]d) AS n;

INSERT INTO tool_dedup_stat
SELECT now() - minute * interval '1 minute', 'instance-' || instance, 'tool-' || tool, outcome, 100, 1, 0
  FROM generate_series(1, 60) AS minute, generate_series(1, 10) AS instance, generate_series(1, 10) AS tool,
       unnest(ARRAY['executed', 'replayed', 'in_flight']) AS outcome
 UNION ALL
SELECT now() - quarter * interval '15 minutes', '', 'tool-' || tool, outcome, 15000, 150, 0
  FROM generate_series(5, 14 * 24 * 4) AS quarter, generate_series(1, 10) AS tool,
       unnest(ARRAY['executed', 'replayed', 'in_flight']) AS outcome;

VACUUM (ANALYZE) tool_dedup, tool_dedup_audit, tool_effect, tool_dedup_stat;
CHECKPOINT`

// operated writes what stands beside the records, and returns a key for each run. They are
// drawn at random, and so are as many others, whose records are broken.
func operated(ctx context.Context, site *bed.Site, o OperateOptions) ([]string, error) {
	// One in so many, so that no more rows are sorted than have to be.
	share := 4 * float64(o.Runs) / float64(o.Records)
	draw := fmt.Sprintf("CREATE TABLE drawn AS SELECT key FROM tool_dedup WHERE random() < %g ORDER BY random() LIMIT %d", share, 2*o.Runs)
	for statement := range strings.SplitSeq(draw+";\n"+fmt.Sprintf(operatedSQL, o.Runs), ";\n") {
		if _, err := site.Pools[0].Exec(ctx, statement); err != nil {
			return nil, err
		}
	}
	rows, _ := site.Pools[0].Query(ctx, "SELECT key FROM drawn LIMIT $1", o.Runs)
	keys, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err == nil && len(keys) < o.Runs {
		err = fmt.Errorf("only %d keys of %d were drawn", len(keys), o.Records)
	}
	return keys, err
}
