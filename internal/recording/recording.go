// Package recording reads recorded agent sessions: the agents' tool calls in order, and the text of
// each answer.
//
// A recording is a folder with two files of JSON lines. trajectories.jsonl has a line for each
// session, with trajectory_id and domain, and optionally model, calls and writes, the numbers of
// its calls. calls.jsonl has a line for each call, in the order of a session:
//
//	trajectory_id, domain   the session, and the application that it works with
//	seq, turn               the position in the session from 0, and the number of the model's message
//	tool_call_id            the id that the model's provider gave the call
//	tool, class             the tool, and "write", "read" or "noop"
//	arguments               a JSON value
//	result, is_error        the text of the answer, and whether it says that nothing was done
//	injected_by_harness     true if no model made the call; it is not replayed
package recording

import (
	"embed"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/tooldedup/dedup/internal/process"
)

// Class is the relation of a call to the database.
type Class string

const (
	// Write changes the database.
	Write Class = "write"
	// Read looks at the database.
	Read Class = "read"
	// Noop does neither.
	Noop Class = "noop"
)

// Null is the Result of a call without an answer: a null or absent result. An empty text stays an
// empty text.
const Null = "null"

// Recording is the contents of a folder. It never changes, so goroutines may share it.
type Recording struct {
	// Sessions are in the order of trajectories.jsonl.
	Sessions []Session
}

// Session is one trajectory.
type Session struct {
	ID     string
	Domain string
	Model  string
	Calls  []Call
}

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

// Open reads the recording in the folder dir.
func Open(dir string) (*Recording, error) {
	if _, err := os.Stat(dir); err != nil {
		return nil, err
	}
	return OpenFS(os.DirFS(dir))
}

//go:embed small
var small embed.FS

// Small returns the project's own recording: six invented sessions of an airline and a shop. It
// needs no file.
func Small() (*Recording, error) {
	folder, err := fs.Sub(small, "small")
	if err != nil {
		return nil, err
	}
	return OpenFS(folder)
}

// LargeDir returns the folder of the large recording, which is not part of the project.
// TAUBENCH_DIR names it. The default is ../shared/taubench beside the folder of go.work. It is ""
// if there is neither.
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

// Counts has the sizes of a recording, for a report.
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
