package tool

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/cmd/dedup/internal/recording"
)

type decodeIn struct {
	Name  string   `json:"name"`
	Count int      `json:"count"`
	List  []string `json:"list"`
	Sub   []struct {
		ID string `json:"id"`
	} `json:"sub"`
}

func TestDecode(t *testing.T) {
	t.Parallel()
	in, err := decode[decodeIn](json.RawMessage(` {"sub":[{"id":"x"}],"list":[],"count":2,"name":""} `))
	require.NoError(t, err)
	require.Equal(t, 2, in.Count)
	require.Equal(t, "x", in.Sub[0].ID)

	for name, tt := range map[string]struct{ args, says string }{
		"Null":           {`null`, "got null"},
		"List":           {`[]`, "cannot unmarshal array"},
		"Empty":          {``, "unexpected end"},
		"Missing":        {`{"name":"","count":1,"list":[]}`, "sub is missing"},
		"NullField":      {`{"name":null,"count":1,"list":[],"sub":[]}`, "name is null"},
		"Unknown":        {`{"name":"","count":1,"list":[],"sub":[],"more":1}`, `unknown argument "more"`},
		"OtherCapitals":  {`{"Name":"","count":1,"list":[],"sub":[]}`, "name is missing"},
		"UnknownInside":  {`{"name":"","count":1,"list":[],"sub":[{"id":"","x":1}]}`, `unknown field "x"`},
		"FractionForInt": {`{"name":"","count":1.5,"list":[],"sub":[]}`, "cannot unmarshal number"},
		"TextForInt":     {`{"name":"","count":"1","list":[],"sub":[]}`, "cannot unmarshal string"},
		"TextAfter":      {`{"name":"","count":1,"list":[],"sub":[]} {}`, "after top-level value"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := decode[decodeIn](json.RawMessage(tt.args))
			require.ErrorContains(t, err, tt.says)
		})
	}
}

func TestTool(t *testing.T) {
	t.Parallel()
	type in struct {
		Say string `json:"say"`
	}
	echo := Text(Name{"d", "echo"}, recording.Noop, func(_ context.Context, _ pgx.Tx, in in) (*string, error) {
		switch in.Say {
		case "no":
			return nil, Refuse("it is %s", "100% no")
		case "":
			return nil, nil
		}
		return &in.Say, nil
	})

	t.Run("Text", func(t *testing.T) {
		t.Parallel()
		got, err := echo.Run(t.Context(), nil, json.RawMessage(`{"say":"<hi>"}`))
		require.NoError(t, err)
		require.Equal(t, "<hi>", got)
	})
	t.Run("Nothing", func(t *testing.T) {
		t.Parallel()
		got, err := echo.Run(t.Context(), nil, json.RawMessage(`{"say":""}`))
		require.NoError(t, err)
		require.Equal(t, recording.Null, got)
	})
	t.Run("RefusalIsAnErrorOrAnAnswer", func(t *testing.T) {
		t.Parallel()
		_, err := echo.Run(t.Context(), nil, json.RawMessage(`{"say":"no"}`))
		var refusal *Refusal
		require.ErrorAs(t, err, &refusal)
		require.Equal(t, "it is 100% no", refusal.Message)

		got, err := echo.Answer(t.Context(), nil, json.RawMessage(`{"say":"no"}`))
		require.NoError(t, err)
		require.Equal(t, "Error: it is 100% no", got)
	})
	t.Run("Arguments", func(t *testing.T) {
		t.Parallel()
		_, err := echo.Answer(t.Context(), nil, json.RawMessage(`{}`))
		var argumentErr *ArgumentError
		require.ErrorAs(t, err, &argumentErr)
		require.EqualError(t, err, "arguments of d echo: say is missing")
	})
	t.Run("JSONKeepsSigns", func(t *testing.T) {
		t.Parallel()
		same := JSON(Name{"d", "same"}, recording.Noop, func(_ context.Context, _ pgx.Tx, in in) (map[string]string, error) {
			return map[string]string{"said": in.Say}, nil
		})
		got, err := same.Run(t.Context(), nil, json.RawMessage(`{"say":"a<b & ä"}`))
		require.NoError(t, err)
		require.Equal(t, `{"said":"a<b & ä"}`, got)
	})
}
