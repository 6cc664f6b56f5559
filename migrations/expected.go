package migrations

import "strings"

// wantedColumn is a column as the migrations make it.
type wantedColumn struct {
	name     string
	typ      string // as format_type prints it
	ordered  bool   // COLLATE "C"
	nullable bool
}

// definition is the column's type as DDL.
func (c wantedColumn) definition() string {
	if c.ordered {
		return c.typ + ` COLLATE "C"`
	}
	return c.typ
}

// wantedTable is a table as the migrations make it.
type wantedTable struct {
	columns []wantedColumn
	// key are the columns of the primary key, and keyDefinition it as DDL.
	key, keyDefinition string
	// keyless says what a table without that key leads to, keyWrong one with
	// another.
	keyless, keyWrong string
}

func wantedDedup() *wantedTable {
	return &wantedTable{
		columns: []wantedColumn{
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
		key:           "scope, tool, key",
		keyDefinition: "CONSTRAINT tool_dedup_pkey PRIMARY KEY (scope, tool, key) WITH (fillfactor = 75)",
		keyless:       "nothing keeps a twin from running a call again",
		keyWrong:      "it tells calls apart wrongly",
	}
}

func wantedLookalike() *wantedTable {
	const refused = "calls of tools with a look-alike guard are refused"
	return &wantedTable{
		columns: []wantedColumn{
			{name: "likeness", typ: "bytea"},
			{name: "key", typ: "text", ordered: true},
			{name: "at", typ: "timestamp with time zone"},
			{name: "until", typ: "timestamp with time zone"},
			{name: "earlier_key", typ: "text", ordered: true, nullable: true},
			{name: "earlier_at", typ: "timestamp with time zone", nullable: true},
		},
		key:           "likeness, key",
		keyDefinition: "CONSTRAINT tool_lookalike_pkey PRIMARY KEY (likeness, key)",
		keyless:       refused,
		keyWrong:      refused,
	}
}

const (
	// The migrations that make the tables.
	dedupMigration     int64 = 1
	lookalikeMigration int64 = 2

	// dueExpression is what tool_dedup_due indexes.
	dueExpression = "CASE WHEN result IS NULL THEN forget_at ELSE expires_at END"

	// distribution is the partition key that keeps an identity unique.
	distribution = "HASH (scope)"
)

// sameExpression reports whether two expressions are one but for the spaces and
// parentheses that the server's printing of it adds.
func sameExpression(a, b string) bool {
	bare := strings.NewReplacer(" ", "", "\n", "", "(", "", ")", "")
	return bare.Replace(a) == bare.Replace(b)
}
