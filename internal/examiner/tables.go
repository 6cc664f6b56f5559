package examiner

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// VersionTable is the table in which goose records the applied migrations.
const VersionTable = "tool_dedup_version"

// Table is a table that the migrations make.
type Table struct {
	Name string
	// Migrations are the migrations that make and change the table, in order.
	Migrations []int64

	columns string // as DDL
	// privileges are the privileges on it that a role needs. operations.md has the GRANTs.
	privileges string
	// key are the columns of the primary key. with are its storage parameters.
	key, with string
	// without is the consequence for calls if that key is missing, and otherKey with another key.
	without, otherKey string

	// optional is the prefix of the problems of a table that only some programs use. It is empty
	// for tool_dedup, whose problems have names without a prefix.
	optional string
	// warning is true if no call needs the table.
	warning bool
}

// Tables returns the tables that the migrations make, tool_dedup first. FindProblems reports each
// one that is missing or differs, except in additional indexes.
func Tables() []Table {
	return append([]Table{dedupTable()}, optionalTables()...)
}

// everything are the privileges that a role needs on a table whose rows come and go.
const everything = "SELECT, INSERT, UPDATE, DELETE"

func dedupTable() Table {
	return Table{
		Name: "tool_dedup", Migrations: []int64{1},
		columns: `
			scope text COLLATE "C", tool text COLLATE "C", key text COLLATE "C", fingerprint bytea, arg_digests bytea NULL,
			outcome text COLLATE "C", result text NULL, created_at timestamp with time zone, expires_at timestamp with time zone,
			forget_at timestamp with time zone`,
		key: "scope, tool, key", with: " WITH (fillfactor = 75)", privileges: everything,
		without:  "nothing keeps a twin from running a call again",
		otherKey: "it distinguishes calls wrongly",
	}
}

// optionalTables returns the tables that only some programs use. FindProblems cannot know those
// programs.
func optionalTables() []Table {
	return []Table{{
		Name: "tool_effect", Migrations: []int64{2},
		columns: `
			scope text COLLATE "C", tool text COLLATE "C", key text COLLATE "C", state text COLLATE "C", fence bigint,
			due_at timestamp with time zone NULL, sent_at timestamp with time zone NULL, sent_until timestamp with time zone NULL,
			tries integer, looked boolean, keyless boolean, unmarked boolean, confirmed boolean, fingerprint bytea, arg_digests bytea NULL, input text NULL, ref text NULL, note text NULL,
			twice text NULL, verdict text COLLATE "C" NULL, verdict_value text NULL, created_at timestamp with time zone,
			changed_at timestamp with time zone, forget_at timestamp with time zone NULL`,
		key: "scope, tool, key", with: " WITH (fillfactor = 75)", privileges: everything,
		without:  "calls of tools with effects outside the database fail, or take effect twice",
		otherKey: "effects outside the database may happen twice",
		optional: "effect",
	}, {
		Name: "tool_dedup_audit", Migrations: []int64{1},
		columns: `
			at timestamp with time zone, id uuid, actor text, role text, action text COLLATE "C", scope text COLLATE "C",
			tool text COLLATE "C", key text COLLATE "C", outcome text COLLATE "C", created_at timestamp with time zone, reason text`,
		key: "at, id", privileges: "SELECT, INSERT",
		without: "nobody can read who freed a record, or which are broken", otherKey: "its lines may not be written",
		optional: "audit", warning: true,
	}, {
		Name: "tool_dedup_stat", Migrations: []int64{1},
		columns: `
			at timestamp with time zone, instance text COLLATE "C", tool text COLLATE "C", outcome text COLLATE "C", calls bigint,
			seconds double precision, waited double precision`,
		key: "at, instance, tool, outcome", privileges: everything,
		without: "no Sweeper can record what it counts", otherKey: "what is recorded may be counted twice",
		optional: "stat", warning: true,
	}}
}

// tablesJSON returns tables as a JSON parameter of the query.
func tablesJSON(tables ...Table) string {
	var all []map[string]any
	for _, t := range tables {
		w := map[string]any{
			"bare": t.Name, "versions": t.Migrations, "without": t.without, "other_key": t.otherKey,
			"privileges": t.privileges, "key": t.key, "key_columns": strings.Join(slices.Sorted(strings.SplitSeq(t.key, ", ")), ", "),
			"key_ddl": fmt.Sprintf("CONSTRAINT %s_pkey PRIMARY KEY (%s)%s", t.Name, t.key, t.with), "columns": columns(t.columns),
		}
		if t.optional != "" {
			w["optional"] = t.optional
		}
		all = append(all, w)
	}
	text, _ := json.Marshal(all) // texts and numbers
	return string(text)
}

// columns splits the columns of a table.
func columns(list string) (all []map[string]any) {
	for column := range strings.SplitSeq(list, ",") {
		name, ddl, _ := strings.Cut(strings.TrimSpace(column), " ")
		ddl, nullable := strings.CutSuffix(ddl, " NULL")
		typ, ordered := strings.CutSuffix(ddl, ` COLLATE "C"`)
		all = append(all, map[string]any{"name": name, "ddl": ddl, "type": typ, "ordered": ordered, "nullable": nullable})
	}
	return all
}

// DueExpression is the expression of the index tool_dedup_due. The planner uses the index only for
// this exact text.
const DueExpression = `(CASE WHEN result IS NULL THEN forget_at ELSE expires_at END)`
