package dedup

import (
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/internal/table"
)

// TestStatementTextsAreForgotten puts values into texts.
func TestStatementTextsAreForgotten(t *testing.T) {
	t.Parallel()

	texts := statementTexts{table: table.New(table.Options{Schema: "public", Isolation: pgx.ReadCommitted})}
	for i := range 3 * maxStatementTexts {
		_, err := texts.of(t.Context(), SQL(fmt.Sprint("SELECT ", i)))
		require.NoError(t, err)
		require.LessOrEqual(t, len(texts.m), maxStatementTexts)
	}
	a, err := texts.of(t.Context(), SQL("SELECT 1"))
	require.NoError(t, err)
	b, err := texts.of(t.Context(), SQL("SELECT 1"))
	require.NoError(t, err)
	require.Same(t, a.statementText, b.statementText)
}
