package deduptest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/tooldedup/dedup"
)

// childEnv holds the errand of a process that Verify has started.
const childEnv = "DEDUPTEST_CHILD"

// errand is what a child process is to do: one call to warm up, and after a line
// on its input the one that counts.
type errand struct {
	Tool     string
	URL      string
	WarmUp   string // key
	Key      string
	Patience time.Duration
}

// message is what a child says, a line of JSON behind messageMark. What a tool
// prints by itself is passed over.
type message struct {
	Ready     bool   // the warm-up has been done
	Answer    string // as canonical JSON
	Err       string // why there is none
	Retryable bool   // dedup.IsRetryable says so of Err
}

const messageMark = "deduptest-child: "

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
	os.Exit(runChild(os.Getenv(childEnv), tools, os.Stdin, os.Stdout))
}

func inChild() bool { return os.Getenv(childEnv) != "" }

// runChild does an errand and returns the exit code.
func runChild(text string, tools []Tool, in io.Reader, out io.Writer) int {
	say := func(m message) error {
		line, err := json.Marshal(m)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(out, "%s%s\n", messageMark, line)
		return err
	}
	err := doErrand(text, tools, in, say)
	if err == nil {
		return 0
	}
	_ = say(message{Err: err.Error()}) // if nobody listens, nobody needs it
	return 1
}

// doErrand makes the calls and says what they come to. The error is why they
// could not be made.
func doErrand(text string, tools []Tool, in io.Reader, say func(message) error) error {
	var e errand
	if err := json.Unmarshal([]byte(text), &e); err != nil {
		return fmt.Errorf("reading %s: %w", childEnv, err)
	}
	tool, err := named(tools, e.Tool)
	if err != nil {
		return err
	}
	ctx := context.Background()
	s, err := tool.stage(ctx, e.URL, e.WarmUp, nil)
	if err != nil {
		return err
	}
	defer s.pool.Close()
	if r := <-tool.start(ctx, e.Patience, s, e.WarmUp, 0); r.err != nil {
		return fmt.Errorf("a first call: %w", r.err)
	}
	if err := say(message{Ready: true}); err != nil {
		return err
	}
	if _, err := bufio.NewReader(in).ReadString('\n'); err != nil {
		return errors.New("the process that started this one is gone")
	}
	r := <-tool.start(ctx, e.Patience, s, e.Key, 0)
	m := message{Answer: r.text}
	if r.err != nil {
		m.Err, m.Retryable = r.err.Error(), dedup.IsRetryable(r.err)
	}
	return say(m)
}

func named(tools []Tool, name string) (Tool, error) {
	for _, tool := range tools {
		if tool.Name == name {
			return tool, nil
		}
	}
	return Tool{}, fmt.Errorf("deduptest.Child was not given the tool %q; add it in TestMain", name)
}
