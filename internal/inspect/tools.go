package inspect

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// stepped is the most scopes that are searched for a page of tools.
const stepped = 1000

// ScopedTool is a tool with records in a scope. `dedup list --json` writes it.
type ScopedTool struct {
	Scope string `json:"scope"`
	Tool  string `json:"tool"`
	Entry
}

func (t *ScopedTool) place() place { return place{Scope: t.Scope, Tool: t.Tool} }

// WithRecords reads at most limit tools with records, by scope and tool, or those after a cursor.
// If only has a scope, that scope's tools are listed; if it has a tool, that tool's scopes. Each
// step is one probe of the primary key, however many records it skips.
func (db *Database) WithRecords(ctx context.Context, only ScopedTool, after string, limit int) (Page[ScopedTool], error) {
	return pageOf(ctx, db, "tools", after, limit, func(r *reader, at place, limit int) (found []ScopedTool, rest place, err error) {
		for range stepped {
			if len(found) == limit {
				return found, rest, nil
			}
			there, err := r.first(nextTool(only, at), &at.Scope, &at.Tool)
			if err != nil || !there {
				return found, rest, err
			}
			if only.Scope == "" && only.Tool != "" { // the scope may have the tool
				if there, err = r.first(toolOf(at.Scope, only.Tool), &at.Scope, &at.Tool); err != nil {
					return nil, rest, err
				}
			}
			if there {
				found = append(found, ScopedTool{Scope: at.Scope, Tool: at.Tool})
			}
		}
		return found, at, nil
	})
}

// nextTool selects the next tool of a scope, the next scope, or the next tool of any scope.
func nextTool(only ScopedTool, at place) query {
	args := pgx.NamedArgs{"scope": only.Scope, "tool": only.Tool, "after_scope": at.Scope, "after_tool": at.Tool}
	switch {
	case only.Scope != "":
		return toolQuery("tool > @after_tool::text AND "+where(args, "scope = @scope::text", "tool = @tool::text"), args)
	case only.Tool != "":
		return toolQuery("scope > @after_scope::text", args)
	default:
		return toolQuery("(scope, tool) > (@after_scope::text, @after_tool::text)", args)
	}
}

// toolOf selects a tool of a scope.
func toolOf(scope, tool string) query {
	return toolQuery(ofTool, pgx.NamedArgs{"scope": scope, "tool": tool})
}

func toolQuery(where string, args pgx.NamedArgs) query {
	return query{"SELECT scope, tool FROM {dedup}\n WHERE " + where + "\n ORDER BY scope, tool, key LIMIT 1", args}
}
