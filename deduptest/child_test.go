package deduptest

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestChildrenSayWhatIsWrong(t *testing.T) {
	t.Parallel()
	tool := Tool{Name: "known", Call: func(context.Context, Try) (any, error) { return 1, nil }}
	for name, test := range map[string]struct{ errand, says string }{
		"NoErrand":    {"{", "reading DEDUPTEST_CHILD"},
		"UnknownTool": {`{"Tool": "other"}`, `not given the tool "other"`},
		"BadURL":      {`{"Tool": "known", "URL": "mysql://"}`, "reading the database's URL"},
	} {
		var out bytes.Buffer
		require.Equal(t, 1, runChild(test.errand, []Tool{tool}, strings.NewReader(""), &out), name)
		var m message
		require.NoError(t, json.Unmarshal(out.Bytes(), &m))
		require.Contains(t, m.Err, test.says, name)
	}
}

func TestChildrenEndWithTheirParent(t *testing.T) {
	t.Parallel()
	tool := Tool{Name: "known", Call: func(context.Context, Try) (any, error) { return "done", nil }}
	text := `{"Tool": "known", "URL": "postgres://localhost/x", "Patience": 1000000000}`
	var out bytes.Buffer
	require.Zero(t, runChild(text, []Tool{tool}, strings.NewReader(""), &out))
	require.Empty(t, out.String())
	require.Zero(t, runChild(text, []Tool{tool}, strings.NewReader(`"one" "two"`), &out))
	require.Equal(t, 2, strings.Count(out.String(), `"Answer":"\"done\""`))
}
