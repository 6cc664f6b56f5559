package recording

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
)

// The files of a recording, beside the tables.
const (
	callsFile        = "calls.jsonl"
	trajectoriesFile = "trajectories.jsonl"
	finalStateFile   = "final_state.jsonl"
	toolsFile        = "tools.json"
)

// tables are the starting tables that sessions of a domain need.
var tables = map[string][]string{
	"airline": {"airline_users", "airline_reservations", "airline_flights"},
	"retail":  {"retail_users", "retail_orders", "retail_products"},
}

// OpenFS reads the recording at the root of fsys. An error names the file, and the line where it is about one.
func OpenFS(fsys fs.FS) (*Recording, error) {
	rec := &Recording{Tables: map[string][]Row{}}
	if err := rec.readSessions(fsys); err != nil {
		return nil, err
	}
	for _, session := range rec.Sessions {
		for _, name := range tables[session.Domain] {
			if _, read := rec.Tables[name]; read {
				continue
			}
			rows, err := readTable(fsys, name)
			if err != nil {
				return nil, err
			}
			rec.Tables[name] = rows
		}
	}
	text, err := fs.ReadFile(fsys, toolsFile)
	if errors.Is(err, fs.ErrNotExist) {
		return rec, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &rec.Tools)
	}
	if err != nil {
		return nil, fmt.Errorf("recording file %s: %w", toolsFile, err)
	}
	return rec, nil
}

// readSessions joins three files by the session's id.
func (r *Recording) readSessions(fsys fs.FS) error {
	// The sizes let a file that was cut short be noticed; one that is absent is not checked.
	type trajectory struct {
		ID            string `json:"trajectory_id"`
		Domain, Model string
		Calls, Writes *int
	}
	type call struct {
		Call
		Result *string `json:"result"` // nil for null, which is not ""
	}
	type end struct {
		ID      string `json:"trajectory_id"`
		Changed State
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
		case tables[line.Domain] == nil:
			return fmt.Errorf("session %s is of the unknown domain %q", line.ID, line.Domain)
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
	ends := map[string]State{}
	err = eachLine(fsys, finalStateFile, func(line end) error {
		_, known := at[line.ID]
		_, twice := ends[line.ID]
		if !known || twice {
			return fmt.Errorf("session %q is not in %s, or has two final states", line.ID, trajectoriesFile)
		}
		ends[line.ID] = line.Changed
		return nil
	})
	if err != nil {
		return err
	}
	for i := range r.Sessions {
		s, want := &r.Sessions[i], said[i]
		var ended bool
		if s.Changed, ended = ends[s.ID]; !ended {
			return fmt.Errorf("recording file %s: session %s has no final state", finalStateFile, s.ID)
		}
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

	// Lines have no bound worth naming: a result may be a whole list of
	// flights. So no bufio.Scanner.
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

// readTable reads db/<name>.json.gz, or db/<name>.json where that is absent.
func readTable(fsys fs.FS, name string) ([]Row, error) {
	from := path.Join("db", name+".json.gz")
	text, err := fs.ReadFile(fsys, from)
	if errors.Is(err, fs.ErrNotExist) {
		from = strings.TrimSuffix(from, ".gz")
		text, err = fs.ReadFile(fsys, from)
	} else if err == nil {
		text, err = unzip(text)
	}
	var rows []Row
	if err == nil {
		rows, err = decodeRows(text)
	}
	if err != nil {
		return nil, fmt.Errorf("recording file %s: %w", from, err)
	}
	return rows, nil
}

func unzip(text []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}

// decodeRows reads one JSON object of id: document and keeps the order of its
// keys, which is the order in which searches list their hits.
func decodeRows(text []byte) (rows []Row, err error) {
	var unordered map[string]json.RawMessage // it is decoded for its error: the tokens below do not show all that is wrong
	if err := json.Unmarshal(text, &unordered); err != nil {
		return nil, err
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	_, err = decoder.Token()
	for err == nil && decoder.More() {
		var id json.Token
		var doc json.RawMessage
		if id, err = decoder.Token(); err == nil {
			err = decoder.Decode(&doc)
			rows = append(rows, Row{ID: id.(string), Doc: doc}) // the decoder lets nothing else be a key
		}
	}
	if err == nil && len(rows) != len(unordered) {
		err = errors.New("a row occurs twice")
	}
	return rows, err
}
