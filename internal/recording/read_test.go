package recording

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io/fs"
	"maps"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

const (
	oneTrajectory = `{"trajectory_id":"s","domain":"retail","calls":1,"writes":0}` + "\n"
	oneCall       = `{"trajectory_id":"s","domain":"retail","seq":0,"turn":2,"tool_call_id":"c","tool":"think","class":"noop","arguments":{},"result":""}` + "\n"
	oneState      = `{"trajectory_id":"s","changed":{}}` + "\n"
)

// complete is the least that a recording can be.
func complete() fstest.MapFS {
	return fstest.MapFS{
		"trajectories.jsonl":      {Data: []byte(oneTrajectory)},
		"calls.jsonl":             {Data: []byte(oneCall)},
		"final_state.jsonl":       {Data: []byte(oneState)},
		"db/retail_users.json":    {Data: []byte(`{"u":{"orders":[]}}`)},
		"db/retail_orders.json":   {Data: []byte(`{}`)},
		"db/retail_products.json": {Data: []byte(`{}`)},
	}
}

func TestOpenFSReadsTheLeast(t *testing.T) {
	t.Parallel()
	rec, err := OpenFS(complete())
	require.NoError(t, err)
	require.Len(t, rec.Sessions, 1)
	require.Equal(t, []Row{{ID: "u", Doc: []byte(`{"orders":[]}`)}}, rec.Tables["retail_users"])
	require.Nil(t, rec.Tools)
}

func TestOpenFSDamage(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, file, content string
		line                int
		says                string
	}{
		{"CallIsNoJSON", "calls.jsonl", oneCall + "{\"traj", 2, "unexpected end"},
		{"CallOfUnknownSession", "calls.jsonl", strings.Replace(oneCall, `"s"`, `"other"`, 1), 1, `session "other" is not in trajectories.jsonl`},
		{"CallOfOtherDomain", "calls.jsonl", strings.Replace(oneCall, "retail", "airline", 1), 1, "domain"},
		{"CallMissingInBetween", "calls.jsonl", oneCall + strings.Replace(oneCall, `"seq":0`, `"seq":2`, 1), 2, "seq is 2, expected 1"},
		{"CallWithoutTool", "calls.jsonl", strings.Replace(oneCall, "think", "", 1), 1, "no tool"},
		{"CallOfUnknownClass", "calls.jsonl", strings.Replace(oneCall, "noop", "maybe", 1), 1, `unknown class "maybe"`},
		{"CallsCutShort", "calls.jsonl", "", 0, "session s has 0 calls and 0 writes"},
		{"WritesCutShort", "calls.jsonl", strings.Replace(oneCall, "noop", "write", 1), 0, "1 writes"},
		{"SessionTwice", "trajectories.jsonl", oneTrajectory + oneTrajectory, 2, "listed twice"},
		{"SessionWithoutID", "trajectories.jsonl", `{"domain":"retail"}`, 1, "required"},
		{"SessionOfUnknownDomain", "trajectories.jsonl", strings.Replace(oneTrajectory, "retail", "bank", 1), 1, `unknown domain "bank"`},
		{"NoFinalState", "final_state.jsonl", "\n", 0, "no final state"},
		{"TwoFinalStates", "final_state.jsonl", oneState + oneState, 2, "has two final states"},
		{"TableIsAList", "db/retail_users.json", `[]`, 0, "cannot unmarshal array"},
		{"TableCutShort", "db/retail_users.json", `{"a":{},`, 0, "unexpected end"},
		{"TableRowCutShort", "db/retail_users.json", `{"a":{},"b":{`, 0, "unexpected end"},
		{"TableRowTwice", "db/retail_users.json", `{"a":{},"a":{}}`, 0, "a row occurs twice"},
		{"TableAndMore", "db/retail_users.json", `{} {}`, 0, "after top-level value"},
		{"ToolsAreNoList", "tools.json", `{}`, 0, "cannot unmarshal"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			files := maps.Clone(complete())
			files[tt.file] = &fstest.MapFile{Data: []byte(tt.content)}
			_, err := OpenFS(files)
			where := "recording file " + tt.file
			if tt.line > 0 {
				where += fmt.Sprintf(", line %d", tt.line)
			}
			require.ErrorContains(t, err, where+": ")
			require.ErrorContains(t, err, tt.says)
		})
	}
}

func TestOpenMissingFile(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"trajectories.jsonl", "calls.jsonl", "final_state.jsonl", "db/retail_users.json"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			files := complete()
			delete(files, name)
			_, err := OpenFS(files)
			require.ErrorIs(t, err, fs.ErrNotExist)
			require.ErrorContains(t, err, "recording file "+name+": ")
		})
	}
	_, err := Open(t.TempDir())
	require.ErrorIs(t, err, fs.ErrNotExist)
}

func TestOpenFSUnzips(t *testing.T) {
	t.Parallel()
	var zipped bytes.Buffer
	writer := gzip.NewWriter(&zipped)
	_, err := writer.Write([]byte(`{"z":{},"a":{"n":1.10}}`))
	require.NoError(t, err)
	require.NoError(t, writer.Close())

	t.Run("Whole", func(t *testing.T) {
		t.Parallel()
		files := complete()
		files["db/retail_users.json.gz"] = &fstest.MapFile{Data: zipped.Bytes()}
		rec, err := OpenFS(files)
		require.NoError(t, err)
		require.Equal(t, []Row{{"z", []byte(`{}`)}, {"a", []byte(`{"n":1.10}`)}}, rec.Tables["retail_users"])
	})
	for name, data := range map[string][]byte{
		"CutShort":     zipped.Bytes()[:zipped.Len()-4], // in the checksum
		"NotZipped":    []byte(`{}`),
		"EmptyArchive": nil,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			files := complete()
			files["db/retail_users.json.gz"] = &fstest.MapFile{Data: data}
			_, err := OpenFS(files)
			require.ErrorContains(t, err, "recording file db/retail_users.json.gz: ")
		})
	}
}

func TestOpenFSResults(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ text, want string }{
		"Text":   {`"result":"\u00e9 {"`, "é {"},
		"Empty":  {`"result":""`, ""},
		"Null":   {`"result":null`, Null},
		"Absent": {`"is_error":false`, Null},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			files := complete()
			files["calls.jsonl"] = &fstest.MapFile{Data: []byte(strings.Replace(oneCall, `"result":""`, tt.text, 1))}
			rec, err := OpenFS(files)
			require.NoError(t, err)
			require.Equal(t, tt.want, rec.Sessions[0].Calls[0].Result)
		})
	}
}
