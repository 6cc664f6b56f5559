package inspect

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// stepped is how many scopes are looked at for a page of those that have a tool.
const stepped = 1000

// ScopedTool is a tool in a scope that has records of it.
type ScopedTool struct{ Scope, Tool string }

// Tools reads at most limit tools that have records, by scope and tool, those after one where
// it is not zero. Of only, a scope has its tools listed, and a tool its scopes; with neither all
// are. Where there may be more, next is where to go on from. Each step is one probe of the primary
// key, however many records it jumps over.
func Tools(ctx context.Context, tx pgx.Tx, schema string, only, after ScopedTool, limit int) (found []ScopedTool, next ScopedTool, err error) {
	table := tableIn(schema, "tool_dedup")
	at := after
	for steps := 0; ; steps++ {
		switch {
		case len(found) > limit: // the last one says that there is more
			return found[:limit], found[limit-1], nil
		case steps == stepped:
			return found, at, nil
		}
		where, args := toolsAfter(only, at)
		var tool ScopedTool
		switch err := tx.QueryRow(ctx, toolSQL(table, where), args...).Scan(&tool.Scope, &tool.Tool); {
		case errors.Is(err, pgx.ErrNoRows):
			return found, ScopedTool{}, nil
		case err != nil:
			return nil, at, err
		}
		at = tool
		if only.Tool != "" && tool.Tool < only.Tool { // its scope may have the one that is asked for
			switch err := tx.QueryRow(ctx, toolSQL(table, "scope = $1::text AND tool = $2::text"), tool.Scope, only.Tool).Scan(&at.Scope, &at.Tool); {
			case errors.Is(err, pgx.ErrNoRows):
				continue
			case err != nil:
				return nil, at, err
			}
		}
		if only.Tool == "" || at.Tool == only.Tool {
			found = append(found, at)
		}
	}
}

// Greatest reads the record with the greatest key of each tool that has records, in one round
// trip.
func Greatest(ctx context.Context, tx pgx.Tx, schema string, tools []ScopedTool) (found []Record, err error) {
	var batch pgx.Batch
	for _, t := range tools {
		sql, args := (&Listing{Scope: t.Scope, Tool: t.Tool}).listSQL(tableIn(schema, "tool_dedup"), "", nil, 1)
		batch.Queue(sql, args...).Query(func(rows pgx.Rows) (err error) {
			found, err = pgx.AppendRows(found, rows, scanRecord)
			return err
		})
	}
	err = tx.SendBatch(ctx, &batch).Close()
	return found, err
}

// toolsAfter is where the next tool is: in this scope, or of one tool in another.
func toolsAfter(only, at ScopedTool) (where string, args []any) {
	switch {
	case only.Scope != "" && only.Tool != "":
		return "scope = $1::text AND tool = $2::text AND tool > $3::text", []any{only.Scope, only.Tool, at.Tool}
	case only.Scope != "":
		return "scope = $1::text AND tool > $2::text", []any{only.Scope, at.Tool}
	case only.Tool != "":
		return "scope > $1::text", []any{at.Scope}
	default:
		return "(scope, tool) > ($1::text, $2::text)", []any{at.Scope, at.Tool}
	}
}

func toolSQL(table, where string) string {
	return fmt.Sprintf(`SELECT scope, tool FROM %s
 WHERE %s
 ORDER BY scope, tool, key LIMIT 1`, table, where)
}
