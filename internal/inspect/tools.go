package inspect

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// stepped is how many scopes are looked at for a page of those that have a tool.
const stepped = 1000

// ScopedTool is a tool in a scope that has records of it, as `dedup list --json` writes it.
type ScopedTool struct {
	Scope  string `json:"scope"`
	Tool   string `json:"tool"`
	Cursor string `json:"cursor,omitempty"`
}

// toolPlace is where a tool stands in the order of scopes and tools.
type toolPlace struct{ Scope, Tool string }

// WithRecords reads at most limit tools that have records, by scope and tool, those after a cursor
// where it is not empty. Of only, a scope has its tools listed, and a tool its scopes; with neither
// all are. Each step is one probe of the primary key, however many records it jumps over.
func (db *Database) WithRecords(ctx context.Context, only ScopedTool, after string, limit int) (page Page[ScopedTool], err error) {
	at, err := place[toolPlace](after)
	if err != nil {
		return page, err
	}
	of := toolPlace{only.Scope, only.Tool}
	err = db.read(ctx, func(r *reader) error {
		step := func(where string, args []any) (bool, error) {
			return r.first(toolSQL(r.table("tool_dedup"), where), args, &at.Scope, &at.Tool)
		}
		var found []ScopedTool
		steps := 0
		for ; steps < stepped && len(found) <= limit; steps++ { // one more says that there is more
			there, err := step(toolsAfter(of, at))
			if there && of.Tool != "" && at.Tool < of.Tool { // its scope may have the one that is asked for
				if there, err = step("scope = $1::text AND tool = $2::text", []any{at.Scope, of.Tool}); !there && err == nil {
					continue
				}
			}
			if err != nil || !there {
				page = cut(found, limit, markTool)
				return err
			}
			if of.Tool == "" || at.Tool == of.Tool {
				found = append(found, ScopedTool{Scope: at.Scope, Tool: at.Tool})
			}
		}
		if page = cut(found, limit, markTool); page.Next == "" {
			page.Next = cursor(at)
		}
		return nil
	})
	return page, err
}

func markTool(t *ScopedTool) string {
	t.Cursor = cursor(toolPlace{t.Scope, t.Tool})
	return t.Cursor
}

// Greatest reads the record with the greatest key of each tool that has records, in one round
// trip.
func (db *Database) Greatest(ctx context.Context, tools []ScopedTool) (found []Record, err error) {
	err = db.read(ctx, func(r *reader) error {
		var batch pgx.Batch
		for _, t := range tools {
			sql, args := (&Listing{Scope: t.Scope, Tool: t.Tool}).listSQL(r.table("tool_dedup"), "", nil, 1)
			batch.Queue(sql, args...).Query(func(rows pgx.Rows) (err error) {
				found, err = pgx.AppendRows(found, rows, scanRecord)
				return err
			})
		}
		return r.SendBatch(ctx, &batch).Close()
	})
	return found, err
}

// toolsAfter is where the next tool is: in this scope, or of one tool in another.
func toolsAfter(only, at toolPlace) (where string, args []any) {
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
