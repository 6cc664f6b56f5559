package kit

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/tool"
)

type sayIn struct {
	Say string `json:"say"`
}

func echo(_ context.Context, _ pgx.Tx, in sayIn) (*string, error) {
	switch in.Say {
	case "no":
		return nil, Refuse("it is %s", "100% no")
	case "":
		return nil, nil
	}
	return &in.Say, nil
}

func TestRun(t *testing.T) {
	t.Parallel()
	echo := Define("echo", tool.ReadOnly, echo)

	t.Run("Result", func(t *testing.T) {
		t.Parallel()
		got, err := echo.Run(t.Context(), nil, json.RawMessage(`{"say":"a<b & ä"}`))
		require.NoError(t, err)
		require.Equal(t, `"a<b & ä"`, string(got))
	})
	t.Run("Refusal", func(t *testing.T) {
		t.Parallel()
		_, err := echo.Run(t.Context(), nil, json.RawMessage(`{"say":"no"}`))
		var refusal *Refusal
		require.ErrorAs(t, err, &refusal)
		require.Equal(t, "Error: it is 100% no", refusal.Answer())
	})
	t.Run("Arguments", func(t *testing.T) {
		t.Parallel()
		for args, says := range map[string]string{
			``:                    "EOF",
			`[]`:                  "cannot unmarshal array",
			`{"say":1}`:           "cannot unmarshal number",
			`{"say":"","more":1}`: `unknown field "more"`,
		} {
			_, err := echo.Run(t.Context(), nil, json.RawMessage(args))
			require.ErrorContains(t, err, "arguments of echo: ")
			require.ErrorContains(t, err, says)
		}
	})
}

func TestText(t *testing.T) {
	t.Parallel()
	for result, want := range map[string]string{
		`"a sentence"`:     "a sentence",
		`""`:               "",
		`null`:             "null",
		`{"a": "b"}`:       `{"a": "b"}`,
		`[{"a":"\u00e4"}]`: `[{"a":"\u00e4"}]`,
	} {
		require.Equal(t, want, Text(json.RawMessage(result)))
	}
}
