package examiner

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// VersionTable is where goose records which migrations have been applied.
const VersionTable = "tool_dedup_version"

// Table is a table as the migrations make it.
type Table struct {
	Name string
	// Migrations are those that make the table and change it, in order.
	Migrations []int64

	columns []column
	// key are the columns of the primary key, and with its storage parameters.
	key, with string
	// without says what calls do without that key, and otherKey with another.
	without, otherKey string

	// optional begins the names of the problems of a table that only some programs use. It is
	// empty for tool_dedup, whose problems have names of their own.
	optional string
	// warning is true where no call needs the table.
	warning bool
}

type column struct {
	name     string
	typ      string // as format_type prints it
	ordered  bool   // COLLATE "C"
	nullable bool
}

// Tables are those that the migrations make, tool_dedup first. FindProblems reports any
// of them that is missing or not as it is here, but for its other indexes.
func Tables() []Table {
	return append([]Table{dedupTable()}, optionalTables()...)
}

func dedupTable() Table {
	return Table{
		Name: "tool_dedup", Migrations: []int64{1},
		columns: []column{
			{name: "scope", typ: "text", ordered: true},
			{name: "tool", typ: "text", ordered: true},
			{name: "key", typ: "text", ordered: true},
			{name: "fingerprint", typ: "bytea"},
			{name: "arg_digests", typ: "bytea", nullable: true},
			{name: "outcome", typ: "text", ordered: true},
			{name: "result", typ: "text", nullable: true},
			{name: "created_at", typ: "timestamp with time zone"},
			{name: "expires_at", typ: "timestamp with time zone"},
			{name: "forget_at", typ: "timestamp with time zone"},
		},
		key: "scope, tool, key", with: " WITH (fillfactor = 75)",
		without:  "nothing keeps a twin from running a call again",
		otherKey: "it distinguishes calls wrongly",
	}
}

// optionalTables are those that only some programs use. FindProblems cannot know which
// programs those are.
func optionalTables() []Table {
	const refused = "calls of tools with a look-alike guard are refused"
	return []Table{{
		Name: "tool_lookalike", Migrations: []int64{2},
		columns: []column{
			{name: "likeness", typ: "bytea"},
			{name: "key", typ: "text", ordered: true},
			{name: "at", typ: "timestamp with time zone"},
			{name: "until", typ: "timestamp with time zone"},
			{name: "earlier_key", typ: "text", ordered: true, nullable: true},
			{name: "earlier_at", typ: "timestamp with time zone", nullable: true},
		},
		key:     "likeness, key",
		without: refused, otherKey: refused,
		optional: "lookalike",
	}, {
		Name: "tool_effect", Migrations: []int64{3},
		columns: []column{
			{name: "scope", typ: "text", ordered: true},
			{name: "tool", typ: "text", ordered: true},
			{name: "key", typ: "text", ordered: true},
			{name: "state", typ: "text", ordered: true},
			{name: "fence", typ: "bigint"},
			{name: "due_at", typ: "timestamp with time zone", nullable: true},
			{name: "sent_at", typ: "timestamp with time zone", nullable: true},
			{name: "sent_until", typ: "timestamp with time zone", nullable: true},
			{name: "tries", typ: "integer"},
			{name: "looked", typ: "boolean"},
			{name: "fingerprint", typ: "bytea"},
			{name: "arg_digests", typ: "bytea", nullable: true},
			{name: "input", typ: "text", nullable: true},
			{name: "ref", typ: "text", nullable: true},
			{name: "note", typ: "text", nullable: true},
			{name: "twice", typ: "text", nullable: true},
			{name: "verdict", typ: "text", ordered: true, nullable: true},
			{name: "verdict_value", typ: "text", nullable: true},
			{name: "created_at", typ: "timestamp with time zone"},
			{name: "changed_at", typ: "timestamp with time zone"},
			{name: "forget_at", typ: "timestamp with time zone", nullable: true},
		},
		key: "scope, tool, key", with: " WITH (fillfactor = 75)",
		without:  "calls of tools with effects outside of the database fail, or take effect twice",
		otherKey: "effects outside of the database may happen twice",
		optional: "effect",
	}, {
		Name: "tool_dedup_audit", Migrations: []int64{4},
		columns: []column{
			{name: "id", typ: "bigint"},
			{name: "at", typ: "timestamp with time zone"},
			{name: "actor", typ: "text"},
			{name: "role", typ: "text"},
			{name: "action", typ: "text", ordered: true},
			{name: "scope", typ: "text", ordered: true},
			{name: "tool", typ: "text", ordered: true},
			{name: "key", typ: "text", ordered: true},
			{name: "outcome", typ: "text", ordered: true},
			{name: "created_at", typ: "timestamp with time zone"},
			{name: "reason", typ: "text"},
		},
		key:     "id",
		without: "nobody can read who freed a record, or which are broken", otherKey: "its lines may not be written",
		optional: "audit", warning: true,
	}, {
		Name: "tool_dedup_stat", Migrations: []int64{5},
		columns: []column{
			{name: "at", typ: "timestamp with time zone"},
			{name: "instance", typ: "text", ordered: true},
			{name: "tool", typ: "text", ordered: true},
			{name: "outcome", typ: "text", ordered: true},
			{name: "calls", typ: "bigint"},
			{name: "seconds", typ: "double precision"},
			{name: "waited", typ: "double precision"},
		},
		key:     "at, instance, tool, outcome",
		without: "no Sweeper can record what it counts", otherKey: "what is recorded may be counted twice",
		optional: "stat", warning: true,
	}}
}

// File is the file of the migration that makes the table.
func (e Table) File() string { return fmt.Sprintf("%05d_%s.sql", e.Migrations[0], e.Name) }

// tablesJSON are tables as the server is asked for them.
func tablesJSON(tables ...Table) string {
	type wantedColumn struct {
		Name     string `json:"name"`
		Type     string `json:"type"`
		Ordered  bool   `json:"ordered"`
		Nullable bool   `json:"nullable"`
		DDL      string `json:"ddl"`
	}
	type wanted struct {
		Bare       string         `json:"bare"`
		Optional   string         `json:"optional,omitempty"`
		Versions   []int64        `json:"versions"`
		File       string         `json:"file"`
		Key        string         `json:"key"`
		KeyColumns string         `json:"key_columns"` // sorted
		KeyDDL     string         `json:"key_ddl"`
		Without    string         `json:"without"`
		OtherKey   string         `json:"other_key"`
		Columns    []wantedColumn `json:"columns"`
	}
	var all []wanted
	for _, t := range tables {
		w := wanted{
			Bare: t.Name, Optional: t.optional, Versions: t.Migrations, File: t.File(), Without: t.without, OtherKey: t.otherKey,
			Key: t.key, KeyColumns: strings.Join(slices.Sorted(strings.SplitSeq(t.key, ", ")), ", "),
			KeyDDL: fmt.Sprintf("CONSTRAINT %s_pkey PRIMARY KEY (%s)%s", t.Name, t.key, t.with),
		}
		for _, c := range t.columns {
			w.Columns = append(w.Columns, wantedColumn{c.name, c.typ, c.ordered, c.nullable, c.definition()})
		}
		all = append(all, w)
	}
	text, err := json.Marshal(all)
	if err != nil {
		panic("dedup: " + err.Error()) // they are texts
	}
	return string(text)
}

// definition is the column's type as DDL.
func (c column) definition() string {
	if c.ordered {
		return c.typ + ` COLLATE "C"`
	}
	return c.typ
}

// DueExpression is the expression of the index tool_dedup_due; the planner
// uses the index only for these very words.
const DueExpression = `(CASE WHEN result IS NULL THEN forget_at ELSE expires_at END)`
