package doctor

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup/cmd/dedup/internal/cli"
)

const (
	// mostEffects bounds how many operations of each index are read.
	mostEffects = 1000
	// parkedFor is how long an operation may be parked: somebody has had a day's time to look.
	parkedFor = 24 * time.Hour
)

// usesEffectsSQL reads whether there is a table tool_effect that this role may read.
const usesEffectsSQL = `
SELECT EXISTS (
    SELECT
      FROM pg_catalog.pg_class c
      JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
     WHERE n.nspname = $1::text AND c.relname = 'tool_effect' AND pg_catalog.has_table_privilege(c.oid, 'SELECT'))`

// effectsSQL reads the first entries of each partial index of the table %s.
const effectsSQL = `
WITH attention AS (
    SELECT changed_at, state = 'parked' AS parked, twice IS NOT NULL AS twice
      FROM %[1]s
     WHERE state = 'parked' OR twice IS NOT NULL
     ORDER BY changed_at
     LIMIT $1::bigint
), due AS (
    SELECT due_at, tool
      FROM %[1]s
     WHERE due_at IS NOT NULL AND due_at <= now()
     ORDER BY due_at
     LIMIT $1::bigint
), open AS (
    SELECT created_at
      FROM %[1]s
     WHERE due_at IS NOT NULL AND state IN ('pending', 'running') AND created_at <= now() - interval '1 day'
     LIMIT $1::bigint
), forget AS (
    SELECT forget_at
      FROM %[1]s
     WHERE forget_at IS NOT NULL AND forget_at <= now() AND due_at IS NULL
     ORDER BY forget_at
     LIMIT $1::bigint
)
SELECT json_build_object(
    'now', now(),
    'parked', (SELECT json_build_object('count', count(*), 'since', min(changed_at)) FROM attention WHERE parked),
    'twice', (SELECT json_build_object('count', count(*), 'since', min(changed_at)) FROM attention WHERE twice),
    'open', (SELECT json_build_object('count', count(*), 'since', min(created_at)) FROM open),
    'due', (SELECT json_build_object('count', count(*), 'since', min(due_at)) FROM due),
    'tools', (SELECT json_agg(DISTINCT tool) FROM (SELECT tool FROM due LIMIT 10) AS first),
    'forget', (SELECT json_build_object('count', count(*), 'since', min(forget_at)) FROM forget))`

// effectsState is what the indexes of tool_effect say.
type effectsState struct {
	Now    time.Time  `json:"now"`
	Parked effectsSum `json:"parked"`
	Twice  effectsSum `json:"twice"`
	Open   effectsSum `json:"open"` // for more than a day
	Due    effectsSum `json:"due"`
	Tools  []string   `json:"tools"` // some that are due
	Forget effectsSum `json:"forget"`
}

// effectsSum are some operations, of mostEffects at most.
type effectsSum struct {
	Count int        `json:"count"`
	Since *time.Time `json:"since"`
}

// checkEffects looks at what package external has left for somebody to do.
func checkEffects(ctx context.Context, s *session) ([]Finding, error) {
	const id = "effects"
	var used bool
	if err := s.read(ctx, usesEffectsSQL, []any{s.Schema}, &used); err != nil {
		return nil, err
	}
	if !used {
		return []Finding{sound(id, "no table tool_effect that this role may read: it has no effects outside of the database")}, nil
	}
	var e effectsState
	table := pgx.Identifier{s.Schema, "tool_effect"}.Sanitize()
	if err := s.read(ctx, fmt.Sprintf(effectsSQL, table), []any{int64(mostEffects)}, &e); err != nil {
		return nil, err
	}
	found := e.problems(s.overdue)
	if found == nil {
		found = []Finding{sound(id, fmt.Sprintf("%d parked, %d due, %d to be forgotten", e.Parked.Count, e.Due.Count, e.Forget.Count))}
	}
	return found, nil
}

func (e *effectsState) problems(overdue time.Duration) (found []Finding) {
	if e.Parked.longerThan(parkedFor, e.Now) {
		found = append(found, Finding{
			ID: IDEffectsParked, Severity: SeverityWarning,
			What:     "operations outside of the database have been parked for more than a day: each may have happened, and its callers get no answer before somebody has said so",
			Evidence: e.Parked.evidence("parked", e.Now),
			Fix:      "list them with `dedup parked`, look at the provider's books, and say what you found with `dedup resolve`",
		})
	}
	if e.Open.Count > 0 {
		found = append(found, Finding{
			ID: IDEffectsOpen, Severity: SeverityWarning,
			What:     "operations outside of the database have been open for more than a day: they are tried again and again, and get no answer",
			Evidence: e.Open.evidence("open", e.Now),
			Fix:      "list them with `dedup parked --open`, and see in their notes what fails: a look-up that may not ask, a provider that answers 500 for ever. Repair that, or say what you found in the provider's books with `dedup resolve`",
		})
	}
	if e.Twice.Count > 0 {
		found = append(found, Finding{
			ID: IDEffectsTwice, Severity: SeverityWarning,
			What:     "operations outside of the database happened twice: the provider has further effects beside the one that is recorded",
			Evidence: e.Twice.evidence("listed as twice", e.Now),
			Fix:      "list them with `dedup parked` and undo what is too much at the provider, say so with `dedup resolve --cleared`, and look for a Settles that is too short, a KeyKept that is longer than the provider's, or a verdict that was wrong",
		})
	}
	if e.Due.longerThan(overdue, e.Now) {
		found = append(found, Finding{
			ID: IDEffectsDue, Severity: SeverityWarning,
			What:     "operations outside of the database are due, and no process acts: what was accepted is not done, and what was cut off is not found out",
			Evidence: e.Due.evidence("due", e.Now) + fmt.Sprintf(", of the tools %q", e.Tools),
			Fix:      "run Tools.Recover in a process that has these tools; if there is one, look for its errors, and raise Options.Workers",
		})
	}
	if e.Forget.longerThan(overdue, e.Now) {
		found = append(found, Finding{
			ID: IDEffectsSweepBehind, Severity: SeverityWarning,
			What:     "operations that may be forgotten are not deleted: tool_effect grows. No call is answered otherwise for it",
			Evidence: e.Forget.evidence("to be forgotten", e.Now),
			Fix:      "run Tools.Recover in every process; it deletes them once a minute",
		})
	}
	return found
}

func (s effectsSum) longerThan(d time.Duration, now time.Time) bool {
	return s.Since != nil && now.Sub(*s.Since) > d
}

func (s effectsSum) evidence(what string, now time.Time) string {
	many := fmt.Sprint(s.Count)
	if s.Count == mostEffects {
		many += " or more"
	}
	return fmt.Sprintf("%s %s, the oldest since %s (%s)", many, what, s.Since.UTC().Format(time.RFC3339), cli.Lasting(now.Sub(*s.Since)))
}
