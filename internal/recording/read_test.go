package recording

import (
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
)

// complete is the smallest recording.
func complete() fstest.MapFS {
	return fstest.MapFS{
		"trajectories.jsonl": {Data: []byte(oneTrajectory)},
		"calls.jsonl":        {Data: []byte(oneCall)},
	}
}

func TestOpenFSReadsTheLeast(t *testing.T) {
	t.Parallel()
	rec, err := OpenFS(complete())
	require.NoError(t, err)
	require.Len(t, rec.Sessions, 1)
	require.Len(t, rec.Sessions[0].Calls, 1)
}

func TestOpenFSDamage(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, file, content string
		line                int
		says                string
	}{
		{"CallIsNoJSON", "calls.jsonl", oneCall + "{\"traj", 2, ""},
		{"CallOfUnknownSession", "calls.jsonl", strings.Replace(oneCall, `"s"`, `"other"`, 1), 1, `session "other" is not in trajectories.jsonl`},
		{"CallOfOtherDomain", "calls.jsonl", strings.Replace(oneCall, "retail", "airline", 1), 1, "domain"},
		{"CallMissingInBetween", "calls.jsonl", oneCall + strings.Replace(oneCall, `"seq":0`, `"seq":2`, 1), 2, "seq is 2, expected 1"},
		{"CallWithoutTool", "calls.jsonl", strings.Replace(oneCall, "think", "", 1), 1, "no tool"},
		{"CallOfUnknownClass", "calls.jsonl", strings.Replace(oneCall, "noop", "maybe", 1), 1, `unknown class "maybe"`},
		{"CallsCutShort", "calls.jsonl", "", 0, "session s has 0 calls and 0 writes"},
		{"WritesCutShort", "calls.jsonl", strings.Replace(oneCall, "noop", "write", 1), 0, "1 writes"},
		{"SessionTwice", "trajectories.jsonl", oneTrajectory + oneTrajectory, 2, "listed twice"},
		{"SessionWithoutID", "trajectories.jsonl", `{"domain":"retail"}`, 1, "required"},
		{"SessionOfNoDomain", "trajectories.jsonl", strings.Replace(oneTrajectory, "retail", "a/b", 1), 1, `the domain "a/b"`},
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
	for _, name := range []string{"trajectories.jsonl", "calls.jsonl"} {
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
