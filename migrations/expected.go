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

// wantedCheck is a CHECK constraint as the migrations make it.
type wantedCheck struct{ name, expression string }

func wantedChecks() []wantedCheck {
	return []wantedCheck{
		{"tool_dedup_scope_length", "octet_length(scope) BETWEEN 1 AND 255"},
		{"tool_dedup_tool_length", "octet_length(tool) BETWEEN 1 AND 255"},
		{"tool_dedup_key_length", "octet_length(key) BETWEEN 1 AND 255"},
		{"tool_dedup_fingerprint_length", "octet_length(fingerprint) = 32"},
		{"tool_dedup_outcome_known", "outcome IN ('done', 'refused', 'broken', 'claimed')"},
		{"tool_dedup_result_of_outcome", "outcome IN ('done', 'refused') OR result IS NULL"},
		{"tool_dedup_times_ordered", "created_at <= expires_at AND expires_at <= forget_at"},
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

// sameExpression tells whether two expressions are one but for the spaces and
// parentheses that the server's printing of it adds.
func sameExpression(a, b string) bool {
	bare := strings.NewReplacer(" ", "", "\n", "", "(", "", ")", "")
	return bare.Replace(a) == bare.Replace(b)
}
