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

// childEnv holds the errand of a process that Verify has started.
const childEnv = "DEDUPTEST_CHILD"

// errand is what a child process is to do: a call for each key on its input.
type errand struct {
	Tool     string
	URL      string
	Patience time.Duration
}

// message is what a call of a child came to, as a line of JSON.
type message struct {
	Answer string // as canonical JSON
	Err    string // why there is none
}

// Child makes the scenario [ProcessKilled] possible. Call it at the very beginning
// of TestMain with the tools that the package verifies:
//
//	func TestMain(m *testing.M) {
//		deduptest.Child(openTicket, closeTicket)
//		os.Exit(m.Run())
//	}
//
// In a process that Verify has started it makes the call that Verify wants, and
// exits. In all others it does nothing. The tools must need nothing that a test
// or the rest of TestMain makes.
func Child(tools ...Tool) {
	if !inChild() {
		return
	}
	out := os.Stdout
	os.Stdout = os.Stderr // for what a tool prints by itself
	os.Exit(runChild(os.Getenv(childEnv), tools, os.Stdin, out))
}

func inChild() bool { return os.Getenv(childEnv) != "" }

// runChild does an errand and returns the exit code.
func runChild(text string, tools []Tool, in io.Reader, out io.Writer) int {
	lines := json.NewEncoder(out)
	if err := doErrand(text, tools, in, lines); err != nil {
		_ = lines.Encode(message{Err: err.Error()}) // if nobody listens, nobody needs it
		return 1
	}
	return 0
}

// doErrand makes the calls and says what they come to, until its input ends. The error is
// why they could not be made.
func doErrand(text string, tools []Tool, in io.Reader, lines *json.Encoder) error {
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
			return nil // the process that started this one is gone
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
