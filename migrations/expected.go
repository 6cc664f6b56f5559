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

func wantedColumns() []wantedColumn {
	return []wantedColumn{
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
	}
}

const (
	// identityColumns are those of the primary key.
	identityColumns = "scope, tool, key"

	// dueExpression is what tool_dedup_due indexes.
	dueExpression = "CASE WHEN result IS NULL THEN forget_at ELSE expires_at END"

	// distribution is the partition key that keeps an identity unique.
	distribution = "HASH (scope)"
)

// isOptional tells whether dedup keeps its promise without a migration. The
// second makes tool_lookalike, which is for tools with a look-alike guard only:
// a program without such tools may start before it is applied, and one with them
// asks its registry (tool.Registry.Check).
func isOptional(version int64) bool { return version == 2 }

// sameExpression tells whether two expressions are one but for the spaces and
// parentheses that the server's printing of it adds.
func sameExpression(a, b string) bool {
	bare := strings.NewReplacer(" ", "", "\n", "", "(", "", ")", "")
	return bare.Replace(a) == bare.Replace(b)
}
