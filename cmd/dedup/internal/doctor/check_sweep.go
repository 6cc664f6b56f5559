package doctor

import (
	"context"
	"fmt"
	"time"

	"github.com/tooldedup/dedup/cmd/dedup/internal/cli"
	"github.com/tooldedup/dedup/internal/examiner"
)

// mostCounted bounds how many due records are counted.
const mostCounted = 100_000

// dueSQL reads when the oldest of the first due records of the table %s fell due.
const dueSQL = `
SELECT min(due), count(*), clock_timestamp()
  FROM (SELECT ` + examiner.DueExpression + ` AS due
          FROM %s
         WHERE ` + examiner.DueExpression + ` <= now()
         ORDER BY 1
         LIMIT $1::bigint) AS first`

// checkSweep looks at how long records have been due. What calls are answered
// goes by time alone: what is behind costs room.
func checkSweep(ctx context.Context, s *session) ([]Finding, error) {
	var oldest *time.Time
	var count int64
	var now time.Time
	if err := s.read(ctx, fmt.Sprintf(dueSQL, s.Table()), []any{int64(mostCounted)}, &oldest, &count, &now); err != nil {
		return nil, err
	}
	if oldest == nil {
		return []Finding{sound("sweep", "nothing is due")}, nil
	}
	behind := now.Sub(*oldest)
	many := fmt.Sprint(count)
	if count == mostCounted {
		many += " or more"
	}
	evidence := fmt.Sprintf("%s records are due, the oldest since %s (%s)", many, oldest.UTC().Format(time.RFC3339), cli.Lasting(behind))
	if behind <= s.overdue {
		return []Finding{sound("sweep", evidence)}, nil
	}
	return []Finding{{
		ID: IDSweepBehind, Severity: SeverityWarning,
		What:     "the sweep is behind schedule: the table grows, and holds results for longer than Retention.Result says. No call is answered otherwise for it",
		Evidence: evidence,
		Fix:      "run a Sweeper on every instance; if there is one, look for its errors (tool_dedup_swept) and shorten its Interval",
	}}, nil
}
