package outside

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// judge compares all books.
func (t *trial) judge(ctx context.Context) error {
	local, err := t.local(ctx)
	if err != nil {
		return err
	}
	if t.arm.control == leaseThenAgain { // it has no rows
		for _, effects := range t.provider.effects(t.arm.name) {
			t.verdict.Operations++
			if len(effects) > 1 {
				t.verdict.Twice++
				t.verdict.Silent++
				t.verdict.Extra += len(effects) - 1
			}
		}
	} else {
		effects := map[string]map[int][]effect{}
		for _, tool := range t.arm.tools() {
			rows, err := t.rows(ctx, tool)
			if err != nil {
				return err
			}
			effects[tool] = t.provider.effects(tool)
			f := facts{ops: t.ops, rows: rows, effects: effects[tool], local: local[tool]}
			if !t.arm.saga {
				f.told = t.books.told
			}
			t.verdict.judge(t.arm, t.form, f)
		}
		if t.arm.saga {
			t.verdict.judgeSaga(t.ops, t.books.told, effects, local)
		}
	}
	for _, text := range t.books.errs {
		t.verdict.Differing++
		t.verdict.say("told as a failure: %s", text)
	}
	t.judged = true
	return nil
}

func (t *trial) rows(ctx context.Context, tool string) (map[int]row, error) {
	found, err := t.db.Pool.Query(ctx, `SELECT e.key::int, e.state, d.outcome, d.result::text, e.twice IS NOT NULL, e.due_at IS NOT NULL, e.sent_at, e.changed_at, e.note
		FROM tool_effect AS e LEFT JOIN tool_dedup AS d USING (scope, tool, key) WHERE e.tool = $1`, tool)
	if err != nil {
		return nil, fmt.Errorf("reading the operations: %w", err)
	}
	all, err := pgx.CollectRows(found, pgx.RowToStructByPos[row])
	if err != nil {
		return nil, fmt.Errorf("reading the operations: %w", err)
	}
	rows := map[int]row{}
	for _, r := range all {
		rows[r.Op] = r
	}
	return rows, nil
}

// local reads the application's own table, by tool and operation.
func (t *trial) local(ctx context.Context) (map[string]map[int]written, error) {
	found, err := t.db.Pool.Query(ctx, `SELECT tool, op, kind, count(*)::int, min(ref) FROM local GROUP BY 1, 2, 3`)
	if err != nil {
		return nil, fmt.Errorf("reading the local writes: %w", err)
	}
	all := map[string]map[int]written{}
	var tool, kind, ref string
	var op, n int
	_, err = pgx.ForEachRow(found, []any{&tool, &op, &kind, &n, &ref}, func() error {
		if all[tool] == nil {
			all[tool] = map[int]written{}
		}
		w := all[tool][op]
		switch kind {
		case finished:
			w.Finished, w.Ref = n, ref
		case declined:
			w.Declined = n
		}
		all[tool][op] = w
		return nil
	})
	return all, err
}
