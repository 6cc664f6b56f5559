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
	at := map[string]int{} // the positions of the sessions
	find := func(id string) (*Session, error) {
		i, ok := at[id]
		if !ok {
			return nil, fmt.Errorf("session %q is not in %s", id, trajectoriesFile)
		}
		return &r.Sessions[i], nil
	}
	// The sizes let a file that was cut short be noticed; one that is absent is not checked.
	type sizes struct{ Calls, Writes *int }
	var said []sizes
	err := eachLine(fsys, trajectoriesFile, func(line struct {
		ID     string `json:"trajectory_id"`
		Domain string `json:"domain"`
		Model  string `json:"model"`
		sizes
	},
	) error {
		_, twice := at[line.ID]
		switch {
		case line.ID == "" || line.Domain == "":
			return errors.New("trajectory_id and domain are required")
		case twice:
			return fmt.Errorf("session %s is listed twice", line.ID)
		case tables[line.Domain] == nil:
			return fmt.Errorf("session %s is of the unknown domain %q", line.ID, line.Domain)
		}
		at[line.ID] = len(r.Sessions)
		r.Sessions = append(r.Sessions, Session{ID: line.ID, Domain: line.Domain, Model: line.Model})
		said = append(said, line.sizes)
		return nil
	})
	if err != nil {
		return err
	}
	writes := map[string]int{}
	err = eachLine(fsys, callsFile, func(line struct {
		Call
		Result *string `json:"result"` // a pointer tells null from ""
	},
	) error {
		session, err := find(line.Session)
		if err != nil {
			return err
		}
		call := line.Call
		switch {
		case call.Domain != session.Domain:
			return fmt.Errorf("session %s is of domain %q, its call of %q", session.ID, session.Domain, call.Domain)
		case call.Seq != len(session.Calls):
			return fmt.Errorf("session %s: seq is %d, expected %d", session.ID, call.Seq, len(session.Calls))
		case call.Tool == "":
			return fmt.Errorf("session %s, seq %d: no tool", session.ID, call.Seq)
		case call.Class != Write && call.Class != Read && call.Class != Noop:
			return fmt.Errorf("session %s, seq %d: unknown class %q", session.ID, call.Seq, call.Class)
		case call.Class == Write:
			writes[session.ID]++
		}
		call.Result = Null
		if line.Result != nil {
			call.Result = *line.Result
		}
		if len(call.Arguments) == 0 {
			call.Arguments = json.RawMessage(Null)
		}
		session.Calls = append(session.Calls, call)
		return nil
	})
	if err != nil {
		return err
	}
	ended := map[string]bool{}
	err = eachLine(fsys, finalStateFile, func(line struct {
		ID      string `json:"trajectory_id"`
		Changed State  `json:"changed"`
	},
	) error {
		session, err := find(line.ID)
		if err != nil {
			return err
		}
		if ended[line.ID] {
			return fmt.Errorf("session %s has two final states", line.ID)
		}
		ended[line.ID] = true
		session.Changed = line.Changed
		return nil
	})
	if err != nil {
		return err
	}
	for i, session := range r.Sessions {
		if !ended[session.ID] {
			return fmt.Errorf("recording file %s: session %s has no final state", finalStateFile, session.ID)
		}
		calls, writes, want := len(session.Calls), writes[session.ID], said[i]
		if want.Calls != nil && *want.Calls != calls || want.Writes != nil && *want.Writes != writes {
			return fmt.Errorf("recording file %s: session %s has %d calls and %d writes, %s says otherwise",
				callsFile, session.ID, calls, writes, trajectoriesFile)
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
func readTable(fsys fs.FS, name string) (rows []Row, err error) {
	plain := path.Join("db", name+".json")
	from := plain + ".gz"
	file, err := fsys.Open(from)
	if errors.Is(err, fs.ErrNotExist) {
		from = plain
		file, err = fsys.Open(from)
	}
	if err == nil {
		defer file.Close()
		content := io.Reader(file)
		if from != plain {
			content, err = gzip.NewReader(file)
		}
		if err == nil {
			rows, err = decodeRows(content)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("recording file %s: %w", from, err)
	}
	return rows, nil
}

// decodeRows reads one JSON object of id: document and keeps the order of its
// keys, which is the order in which searches list their hits.
func decodeRows(r io.Reader) ([]Row, error) {
	decoder := json.NewDecoder(r)
	if start, err := decoder.Token(); err != nil {
		return nil, err
	} else if start != json.Delim('{') {
		return nil, fmt.Errorf("expected one JSON object, found %v", start)
	}
	var rows []Row
	seen := map[string]bool{}
	for decoder.More() {
		key, err := decoder.Token()
		if err != nil {
			return nil, fmt.Errorf("after %d rows: %w", len(rows), err)
		}
		row := Row{ID: key.(string)} // the decoder lets nothing else be a key
		if err := decoder.Decode(&row.Doc); err != nil {
			return nil, fmt.Errorf("row %s: %w", row.ID, err)
		}
		if seen[row.ID] {
			return nil, fmt.Errorf("row %s occurs twice", row.ID)
		}
		seen[row.ID] = true
		rows = append(rows, row)
	}
	if _, err := decoder.Token(); err != nil {
		return nil, fmt.Errorf("after %d rows: %w", len(rows), err)
	}
	// Reading on to the end lets gzip check its sum.
	if found, err := decoder.Token(); err == nil {
		return nil, fmt.Errorf("found %v after the object", found)
	} else if !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("after the object: %w", err)
	}
	return rows, nil
}
