// Package recording reads recorded agent sessions: the tool calls that agents
// made in order, the text each call was answered with, the database they
// started from, and the rows that ended different.
//
// A recording is a folder of calls.jsonl, trajectories.jsonl, final_state.jsonl
// and db/*.json or db/*.json.gz, with an optional tools.json.
package recording

import (
	"embed"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"

	"github.com/tooldedup/dedup/internal/process"
)

// Class says what a call may do to the database.
type Class string

const (
	// Write changes the database.
	Write Class = "write"
	// Read looks at the database.
	Read Class = "read"
	// Noop does neither.
	Noop Class = "noop"
)

// Null is the Result of a call that was answered with nothing: a null or
// absent result. An empty text stays an empty text.
const Null = "null"

// Recording is everything a folder holds. It is read once and never changed,
// so goroutines may share it.
type Recording struct {
	// Sessions are in the order of trajectories.jsonl.
	Sessions []Session
	// Tables hold the database at the start of every session, by file name
	// without its ending ("airline_users"), rows in the order of the file.
	Tables map[string][]Row
	// Tools is the content of tools.json; nil where there is none.
	Tools []ToolSpec
}

// Row is one document of a starting table.
type Row struct {
	ID  string
	Doc json.RawMessage
}

// Session is one trajectory: it starts from the pristine database.
type Session struct {
	ID     string
	Domain string
	Model  string
	Calls  []Call
	// Changed are the rows that differ from the starting database at the end.
	Changed State
}

// State is documents by table ("users") and id. A row that is gone is null.
type State map[string]map[string]json.RawMessage

// Call is one tool call and its recorded answer.
type Call struct {
	Session    string          `json:"trajectory_id"`
	Domain     string          `json:"domain"`
	Seq        int             `json:"seq"`  // position in the session, from 0
	Turn       int             `json:"turn"` // message index, growing
	ToolCallID string          `json:"tool_call_id"`
	Tool       string          `json:"tool"`
	Class      Class           `json:"class"`
	Arguments  json.RawMessage `json:"arguments"` // null for an injected call
	// ArgumentsRaw is the exact text that the model wrote.
	ArgumentsRaw string `json:"arguments_raw"`
	// Result is the exact text returned, or Null.
	Result  string `json:"-"`
	IsError bool   `json:"is_error"`
	// InjectedByHarness marks a call that no model made; it cannot be replayed.
	InjectedByHarness bool `json:"injected_by_harness"`
}

// ToolSpec is one entry of tools.json.
type ToolSpec struct {
	Domain     string          `json:"domain"`
	Tool       string          `json:"tool"`
	Class      Class           `json:"class"`
	Parameters json.RawMessage `json:"parameters"`
}

// Open reads the recording in the folder dir.
func Open(dir string) (*Recording, error) {
	if _, err := os.Stat(dir); err != nil {
		return nil, err
	}
	return OpenFS(os.DirFS(dir))
}

//go:embed small
var small embed.FS

// Small returns the project's own recording: a handful of invented users,
// orders, reservations and flights and six sessions that use every write tool
// at least once. It needs no file, so a replay can always be tried.
func Small() (*Recording, error) {
	folder, err := fs.Sub(small, "small")
	if err != nil {
		return nil, err
	}
	return OpenFS(folder)
}

// LargeDir returns the folder of the large recording, which is no part of the project: the
// one that TAUBENCH_DIR names, or ../shared/taubench beside the folder with go.work that the
// program runs in. It is "" where there is neither.
func LargeDir() string {
	if dir := os.Getenv("TAUBENCH_DIR"); dir != "" {
		return dir
	}
	if root := process.Checkout(); root != "" {
		found := filepath.Join(filepath.Dir(root), "shared", "taubench")
		if info, err := os.Stat(found); err == nil && info.IsDir() {
			return found
		}
	}
	return ""
}

// Equal reports whether two results say the same: as JSON values, numbers as
// float64, where both are JSON, and as plain text otherwise. The result of a
// call that answered nothing is Null, which equals only itself.
func Equal(a, b string) bool { return a == b || EqualJSON([]byte(a), []byte(b)) }

// EqualJSON reports whether two texts are both JSON and of equal value.
func EqualJSON(a, b []byte) bool {
	var x, y any
	if json.Unmarshal(a, &x) != nil || json.Unmarshal(b, &y) != nil {
		return false
	}
	return reflect.DeepEqual(x, y)
}

// Counts are the sizes of a recording, for a report.
type Counts struct {
	Sessions, Calls, Writes, WriteErrors, Reads, Noops, Injected int
}

// Counts counts the recording's sessions and calls.
func (r *Recording) Counts() Counts {
	counts := Counts{Sessions: len(r.Sessions)}
	for _, session := range r.Sessions {
		for _, call := range session.Calls {
			counts.add(call)
		}
	}
	return counts
}

func (c *Counts) add(call Call) {
	c.Calls++
	if call.InjectedByHarness {
		c.Injected++
	}
	switch call.Class {
	case Write:
		c.Writes++
		if call.IsError {
			c.WriteErrors++
		}
	case Read:
		c.Reads++
	case Noop:
		c.Noops++
	}
}
