package recording

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"regexp"
)

// The files of a recording.
const (
	callsFile        = "calls.jsonl"
	trajectoriesFile = "trajectories.jsonl"
)

// domains are names that can be a part of a URL and of a schema's name.
var domains = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)

// OpenFS reads the recording at the root of fsys. An error names the file, and the line if it is
// about one.
func OpenFS(fsys fs.FS) (*Recording, error) {
	rec := &Recording{}
	if err := rec.readSessions(fsys); err != nil {
		return nil, err
	}
	return rec, nil
}

// readSessions joins the two files by the session's id.
func (r *Recording) readSessions(fsys fs.FS) error {
	// The sizes reveal a truncated file. A missing size is not checked.
	type trajectory struct {
		ID            string `json:"trajectory_id"`
		Domain, Model string
		Calls, Writes *int
	}
	type call struct {
		Call
		Result *string `json:"result"` // nil for null, which is not ""
	}
	at := map[string]int{} // the positions of the sessions
	var said []trajectory
	err := eachLine(fsys, trajectoriesFile, func(line trajectory) error {
		_, twice := at[line.ID]
		switch {
		case line.ID == "":
			return errors.New("trajectory_id is required")
		case twice:
			return fmt.Errorf("session %s is listed twice", line.ID)
		case !domains.MatchString(line.Domain):
			return fmt.Errorf("session %s: the domain %q is not made of lower case letters, digits and _", line.ID, line.Domain)
		}
		at[line.ID] = len(said)
		said = append(said, line)
		r.Sessions = append(r.Sessions, Session{ID: line.ID, Domain: line.Domain, Model: line.Model})
		return nil
	})
	if err != nil {
		return err
	}
	err = eachLine(fsys, callsFile, func(line call) error {
		i, ok := at[line.Session]
		if !ok {
			return fmt.Errorf("session %q is not in %s", line.Session, trajectoriesFile)
		}
		s, c := &r.Sessions[i], line.Call
		switch {
		case c.Domain != s.Domain:
			return fmt.Errorf("session %s is of domain %q, its call of %q", s.ID, s.Domain, c.Domain)
		case c.Seq != len(s.Calls):
			return fmt.Errorf("session %s: seq is %d, expected %d", s.ID, c.Seq, len(s.Calls))
		case c.Tool == "":
			return fmt.Errorf("session %s, seq %d: no tool", s.ID, c.Seq)
		case c.Class != Write && c.Class != Read && c.Class != Noop:
			return fmt.Errorf("session %s, seq %d: unknown class %q", s.ID, c.Seq, c.Class)
		}
		c.Result = Null
		if line.Result != nil {
			c.Result = *line.Result
		}
		if len(c.Arguments) == 0 {
			c.Arguments = json.RawMessage(Null)
		}
		s.Calls = append(s.Calls, c)
		return nil
	})
	if err != nil {
		return err
	}
	for i := range r.Sessions {
		s, want := &r.Sessions[i], said[i]
		counts := (&Recording{Sessions: []Session{*s}}).Counts()
		if want.Calls != nil && *want.Calls != counts.Calls || want.Writes != nil && *want.Writes != counts.Writes {
			return fmt.Errorf("recording file %s: session %s has %d calls and %d writes, %s says otherwise",
				callsFile, s.ID, counts.Calls, counts.Writes, trajectoriesFile)
		}
	}
	return nil
}

// eachLine decodes every line of a .jsonl file into a fresh T and hands it to visit.
func eachLine[T any](fsys fs.FS, name string, visit func(T) error) error {
	file, err := fsys.Open(name)
	if err != nil {
		return fmt.Errorf("recording file %s: %w", name, err)
	}
	defer file.Close()

	// A line may be very long: a result may be a whole list of flights. So no bufio.Scanner.
	reader := bufio.NewReader(file)
	for line := 1; ; line++ {
		text, end := reader.ReadBytes('\n')
		if end != nil && !errors.Is(end, io.EOF) {
			return fmt.Errorf("recording file %s, line %d: %w", name, line, end)
		}
		if len(bytes.TrimSpace(text)) > 0 {
			var value T
			err := json.Unmarshal(text, &value)
			if err == nil {
				err = visit(value)
			}
			if err != nil {
				return fmt.Errorf("recording file %s, line %d: %w", name, line, err)
			}
		}
		if end != nil {
			return nil
		}
	}
}
