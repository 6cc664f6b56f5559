package inspect

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup/internal/table"
)

// Stored is everything that is stored of one call, without the audit and hashes. `dedup export`
// writes it.
type Stored struct {
	Scope string `json:"scope"`
	Tool  string `json:"tool"`
	Key   string `json:"key"`
	// Outcome and the times are the record's, zero without one. Result is the result or the
	// refusal, nil if it expired or was erased.
	Outcome   string          `json:"outcome,omitempty"`
	CreatedAt time.Time       `json:"created_at,omitzero"`
	ExpiresAt time.Time       `json:"expires_at,omitzero"`
	ForgetAt  time.Time       `json:"forget_at,omitzero"`
	Result    json.RawMessage `json:"result,omitempty"`
	// Effect is the effect outside the database, nil if there is none.
	Effect *StoredEffect `json:"effect,omitempty"`
	Entry
}

// StoredEffect is what is stored of an effect outside the database.
type StoredEffect struct {
	State        string          `json:"state"`
	CreatedAt    time.Time       `json:"created_at"`
	SentAt       time.Time       `json:"sent_at,omitzero"`
	Input        json.RawMessage `json:"input,omitempty"`
	Ref          string          `json:"ref,omitempty"`
	Twice        string          `json:"twice,omitempty"`
	Note         string          `json:"note,omitempty"`
	Verdict      string          `json:"verdict,omitempty"`
	VerdictValue string          `json:"verdict_value,omitempty"`
}

func (s *Stored) place() place { return place{Tool: s.Tool, Key: s.Key} }

// Export reads everything that is stored of a scope, or of a tool in it if f has one. It returns at
// most limit calls after a cursor, in the order of tools and keys.
func (db *Database) Export(ctx context.Context, f *Filter, after string, limit int) (Page[Stored], error) {
	return pageOf(ctx, db, "export", after, limit, func(r *reader, at place, limit int) (found []Stored, rest place, err error) {
		q := f.export(at, limit)
		rows, _ := r.Query(r.ctx, q.text(r.schema), q.args) // rows have its error
		found, err = pgx.CollectRows(rows, storedOf)
		return found, rest, err
	})
}

// export selects the next identities of both tables and their rows.
func (f *Filter) export(after place, limit int) query {
	args := f.args()
	if after.Key != "" {
		args["at"], args["after"] = after.Tool, after.Key
	}
	next := func(of string) string {
		return fmt.Sprintf(`(SELECT tool, key FROM %s
        WHERE %s
        ORDER BY tool, key LIMIT %d)`, of, filtered(args, "(tool, key) > (@at::text, @after::text)"), limit)
	}
	return query{fmt.Sprintf(`SELECT id.tool, id.key, d.outcome, d.created_at AT TIME ZONE 'UTC', d.expires_at AT TIME ZONE 'UTC', d.forget_at AT TIME ZONE 'UTC', d.result,
       e.state, e.created_at AT TIME ZONE 'UTC', e.sent_at AT TIME ZONE 'UTC', e.input, e.ref, e.twice, e.note, e.verdict, e.verdict_value,
       @scope::text, clock_timestamp()
  FROM (%s
        UNION
        %s
        ORDER BY tool, key LIMIT %d) AS id
  LEFT JOIN {dedup} AS d ON d.scope = @scope::text AND d.tool = id.tool AND d.key = id.key
  LEFT JOIN {effect} AS e ON e.scope = @scope::text AND e.tool = id.tool AND e.key = id.key
 ORDER BY id.tool, id.key`, next("{dedup}"), next("{effect}"), limit), args}
}

func storedOf(row pgx.CollectableRow) (s Stored, err error) {
	var e StoredEffect
	var outcome, result, state, input, ref, twice, note, verdict, value *string
	var created, expires, forget, began, sent *time.Time
	err = row.Scan(&s.Tool, &s.Key, &outcome, &created, &expires, &forget, &result,
		&state, &began, &sent, &input, &ref, &twice, &note, &verdict, &value, &s.Scope, &s.Now)
	s.Outcome, s.CreatedAt, s.ExpiresAt, s.ForgetAt, s.Result = orZero(outcome), orZero(created), orZero(expires), orZero(forget), jsonOf(result)
	if state != nil {
		e = StoredEffect{
			State: *state, CreatedAt: orZero(began), SentAt: orZero(sent), Input: jsonOf(input),
			Ref: orZero(ref), Twice: orZero(twice), Note: orZero(note), Verdict: orZero(verdict), VerdictValue: orZero(value),
		}
		s.Effect = &e
	}
	return s, err
}

func orZero[T any](v *T) (value T) {
	if v != nil {
		value = *v
	}
	return value
}

func jsonOf(text *string) json.RawMessage {
	if text == nil {
		return nil
	}
	return json.RawMessage(*text)
}

// Erasable counts what Deduper.Erase would find.
type Erasable struct {
	// Records and Effects are those that are not erased yet. Unresolved effects have no answer, or
	// happened twice: they must be resolved first.
	Records, Effects, Unresolved int64
	// Reasons are the lines of the audit that have one.
	Reasons int64
}

// Erasable counts the calls of a scope, or of a tool in it if f has one. Without a table of the
// audit it counts no reasons.
func (db *Database) Erasable(ctx context.Context, f *Filter) (n Erasable, err error) {
	err = db.read(ctx, func(r *reader) error {
		_, err := r.first(f.erasable(), &n.Records, &n.Effects, &n.Unresolved)
		return err
	})
	if err != nil {
		return n, err
	}
	err = db.read(ctx, func(r *reader) error {
		_, err := r.first(f.reasons(), &n.Reasons)
		return err
	})
	if IsMissing(err) {
		return n, nil
	}
	return n, err
}

func (f *Filter) erasable() query {
	args := f.args()
	return query{fmt.Sprintf(`SELECT (SELECT count(*) FROM {dedup} WHERE %[1]s AND fingerprint <> %[2]s),
       count(*) FILTER (WHERE fingerprint <> %[2]s), count(*) FILTER (WHERE state <> 'done' OR twice IS NOT NULL)
  FROM {effect}
 WHERE %[1]s`, filtered(args), table.Erased), args}
}

func (f *Filter) reasons() query {
	args := f.args()
	return query{"SELECT count(*) FROM {audit} WHERE action <> 'erased' AND reason <> '' AND " + filtered(args), args}
}
