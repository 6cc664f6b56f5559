package deduptest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"time"
)

// childEnv is set in a process that Verify started. It holds the errand.
const childEnv = "DEDUPTEST_CHILD"

// errand tells a child process which tool to call. The child makes a call for each key on its
// input.
type errand struct {
	Tool     string
	URL      string
	Patience time.Duration
}

// message is the result of a child's call, as a line of JSON.
type message struct {
	Answer string // as canonical JSON
	Err    string // the error, if there is no answer
}

// Child makes the scenario [ProcessKilled] possible. Call it at the very beginning of TestMain,
// with the tools that the package verifies:
//
//	func TestMain(m *testing.M) {
//		deduptest.Child(openTicket, closeTicket)
//		os.Exit(m.Run())
//	}
//
// In a process that Verify started, it makes the calls that Verify asks for, and exits. In any
// other process it does nothing. The tools must not need anything that a test or the rest of
// TestMain sets up.
func Child(tools ...Tool) {
	if !inChild() {
		return
	}
	out := os.Stdout
	os.Stdout = os.Stderr // keeps the tool's own output off the messages
	os.Exit(runChild(os.Getenv(childEnv), tools, os.Stdin, out))
}

func inChild() bool { return os.Getenv(childEnv) != "" }

// runChild runs an errand and returns the exit code.
func runChild(text string, tools []Tool, in io.Reader, out io.Writer) int {
	lines := json.NewEncoder(out)
	if err := runErrand(text, tools, in, lines); err != nil {
		_ = lines.Encode(message{Err: err.Error()}) // nobody may be reading any more
		return 1
	}
	return 0
}

// runErrand makes a call for each key on the input and writes a message for each. It returns an
// error if it cannot make the calls.
func runErrand(text string, tools []Tool, in io.Reader, lines *json.Encoder) error {
	var e errand
	if err := json.Unmarshal([]byte(text), &e); err != nil {
		return fmt.Errorf("reading %s: %w", childEnv, err)
	}
	i := slices.IndexFunc(tools, func(t Tool) bool { return t.Name == e.Tool })
	if i < 0 {
		return fmt.Errorf("deduptest.Child was not given the tool %q; add it in TestMain", e.Tool)
	}
	tool, ctx := tools[i], context.Background()
	s, err := tool.stage(ctx, e.URL, nil)
	if err != nil {
		return err
	}
	defer s.pool.Close()
	for keys := json.NewDecoder(in); ; {
		var key string
		if keys.Decode(&key) != nil {
			return nil // the parent process ended
		}
		r := <-tool.start(ctx, e.Patience, s, key, 0)
		m := message{Answer: r.text}
		if r.err != nil {
			m.Err = r.err.Error()
		}
		if err := lines.Encode(m); err != nil {
			return err
		}
	}
}
