package world

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup/internal/recording"
)

// change is a row that differs, as text, from what Create wrote. What is not there is null.
type change struct {
	table, id   string
	now, loaded json.RawMessage
}

// changes are those of a domain's tables, at one moment.
func changes(ctx context.Context, db DB, domain string) ([]change, error) {
	var parts []string
	for _, t := range written[domain] {
		parts = append(parts, fmt.Sprintf(`
			SELECT '%[1]s', COALESCE(t.%[2]s, p.id), COALESCE(t.doc, 'null'), COALESCE(p.doc, 'null')
			FROM %[1]s t
			FULL JOIN %[1]s_pristine p ON p.id = t.%[2]s
			WHERE t.doc::text IS DISTINCT FROM p.doc::text`, t.table, t.id))
	}
	rows, err := db.Query(ctx, strings.Join(parts, " UNION ALL"))
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (c change, err error) {
		return c, row.Scan(&c.table, &c.id, &c.now, &c.loaded)
	})
}

// Reset puts every row of a domain's tables back to what Create wrote and empties the audit log; all or nothing.
//
// Call it between sessions. A transaction of a tool that is still in flight is waited for where it has locked a row
// that is put back. What it commits later than the reset stays and is seen by Changed.
func Reset(ctx context.Context, db DB, domain string) error {
	err := pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
		all, err := changes(ctx, tx, domain)
		if err != nil {
			return err
		}
		ids := map[string][]string{}
		for _, c := range all {
			ids[c.table] = append(ids[c.table], c.id)
		}
		for _, t := range written[domain] {
			if ids[t.table] == nil {
				continue
			}
			if _, err := tx.Exec(ctx, fmt.Sprintf(`DELETE FROM %s WHERE %s = ANY ($1)`, t.table, t.id), ids[t.table]); err != nil {
				return err
			}
			_, err := tx.Exec(ctx, fmt.Sprintf(`
				INSERT INTO %[1]s (%[2]s, doc)
				SELECT id, doc
				FROM %[1]s_pristine
				WHERE id = ANY ($1)`, t.table, t.id), ids[t.table])
			if err != nil {
				return err
			}
		}
		_, err = tx.Exec(ctx, `DELETE FROM effects`)
		return err
	})
	if err != nil {
		return fmt.Errorf("resetting world: %w", err)
	}
	return nil
}

// Changed returns the documents of a domain's tables that differ in value from what Create wrote, under the
// table names of a recording: "users", "reservations", "orders". A row that is gone is null. The state is that of
// one moment.
func Changed(ctx context.Context, db DB, domain string) (recording.State, error) {
	all, err := changes(ctx, db, domain)
	if err != nil {
		return nil, fmt.Errorf("reading changes: %w", err)
	}
	state := recording.State{}
	for _, c := range all {
		if recording.EqualJSON(c.now, c.loaded) {
			continue
		}
		name := strings.TrimPrefix(c.table, domain+"_")
		if state[name] == nil {
			state[name] = map[string]json.RawMessage{}
		}
		state[name][c.id] = c.now
	}
	return state, nil
}

// Effects returns how many effects each call has had since the last reset, by the name that
// kit.WithCallRef gave it. A call without any is absent.
func Effects(ctx context.Context, db DB) (map[string]int, error) {
	rows, err := db.Query(ctx, `
		SELECT call_ref, count(*)
		FROM effects
		GROUP BY call_ref`)
	if err != nil {
		return nil, fmt.Errorf("counting effects: %w", err)
	}
	counts := map[string]int{}
	var ref string
	var count int
	_, err = pgx.ForEachRow(rows, []any{&ref, &count}, func() error {
		counts[ref] = count
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("counting effects: %w", err)
	}
	return counts, nil
}
