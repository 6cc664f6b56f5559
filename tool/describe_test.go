package tool_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/tool"
)

var update = flag.Bool("update", false, "write the golden files anew")

func TestDescribe(t *testing.T) {
	t.Parallel()
	b := setup(t, nil, nil)
	require.Equal(t, tool.Catalogue{Tools: []tool.Entry{}}, b.tools.Describe())

	type keyed struct {
		Order string `json:"order" dedup:"key"`
		Line  int    `json:"line" dedup:"key"`
		Card  string `json:"card" dedup:"redact"`
	}
	b.add(t, "search", tool.ReadOnly, func(d *tool.Tool[ticketIn, ticket]) { d.Description = "Find tickets." })
	b.add(t, "set_title", tool.Idempotent)
	b.add(t, "create", tool.Write, func(d *tool.Tool[ticketIn, ticket]) {
		d.Retention = dedup.Retention{Result: 90 * time.Minute, Tombstone: -1}
	})
	require.NoError(t, b.tools.Add(tool.Tool[keyed, string]{
		Name: "refund", Description: "Refund | an order.", Class: tool.Destructive, Scope: tool.PerSession,
		Retention: dedup.FinancialRetention(),
		Run:       func(context.Context, pgx.Tx, keyed) (string, error) { return "", nil },
	}))

	catalogue := b.tools.Describe()
	asJSON, err := json.MarshalIndent(catalogue, "", "  ")
	require.NoError(t, err)
	var asMarkdown bytes.Buffer
	require.NoError(t, catalogue.WriteMarkdown(&asMarkdown))
	for file, got := range map[string][]byte{"testdata/catalogue.json": append(asJSON, '\n'), "testdata/catalogue.md": asMarkdown.Bytes()} {
		if *update {
			require.NoError(t, os.WriteFile(file, got, 0o644))
		}
		want, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Equal(t, string(want), string(got), "run the test with -update")
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	for want, value := range map[string]interface{ String() string }{
		"unclassified": tool.Unclassified, "read_only": tool.ReadOnly, "idempotent": tool.Idempotent, "write": tool.Write,
		"destructive": tool.Destructive, "external": tool.External, "class(9)": tool.Class(9),
		"per_caller": tool.PerCaller, "per_session": tool.PerSession, "scope_rule(9)": tool.ScopeRule(9),
	} {
		require.Equal(t, want, value.String())
		text, err := json.Marshal(value)
		require.NoError(t, err)
		require.Equal(t, `"`+want+`"`, string(text))
	}
}
