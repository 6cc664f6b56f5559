package world

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup/internal/recording"
)

const changedSQL = `
WITH present AS (
	SELECT 'airline_users' AS table_name, user_id AS id, doc
	FROM airline_users
	JOIN dirty ON table_name = 'airline_users' AND id = user_id
	UNION ALL
	SELECT 'airline_reservations', reservation_id, doc
	FROM airline_reservations
	JOIN dirty ON table_name = 'airline_reservations' AND id = reservation_id
	UNION ALL
	SELECT 'retail_users', user_id, doc
	FROM retail_users
	JOIN dirty ON table_name = 'retail_users' AND id = user_id
	UNION ALL
	SELECT 'retail_orders', order_id, doc
	FROM retail_orders
	JOIN dirty ON table_name = 'retail_orders' AND id = order_id
)
SELECT table_name, id, present.doc, pristine.doc
FROM dirty
LEFT JOIN present USING (table_name, id)
LEFT JOIN pristine USING (table_name, id)`

// Changed returns the documents of a domain's tables that differ in value from
// what Load wrote, under the table names of a recording: "users",
// "reservations", "orders". A row that is gone is null. The state is that of
// one moment.
func Changed(ctx context.Context, db DB, domain string) (recording.State, error) {
	rows, err := db.Query(ctx, changedSQL)
	if err != nil {
		return nil, fmt.Errorf("reading changes: %w", err)
	}
	state := recording.State{}
	var table, id string
	var now, loaded []byte
	_, err = pgx.ForEachRow(rows, []any{&table, &id, &now, &loaded}, func() error {
		name, ours := strings.CutPrefix(table, domain+"_")
		if !ours || recording.EqualJSON(orNull(now), orNull(loaded)) {
			return nil
		}
		if state[name] == nil {
			state[name] = map[string]json.RawMessage{}
		}
		state[name][id] = json.RawMessage(string(orNull(now)))
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading changes: %w", err)
	}
	return state, nil
}

func orNull(doc []byte) []byte {
	if doc == nil {
		return []byte(recording.Null)
	}
	return doc
}
