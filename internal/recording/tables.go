package recording

import (
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
)

// tablesOf are the starting tables that sessions of a domain need.
func tablesOf(domain string) []string {
	switch domain {
	case "airline":
		return []string{"airline_users", "airline_reservations", "airline_flights"}
	case "retail":
		return []string{"retail_users", "retail_orders", "retail_products"}
	}
	return nil
}

func readTables(fsys fs.FS, sessions []Session) (map[string][]Row, error) {
	tables := map[string][]Row{}
	for _, session := range sessions {
		names := tablesOf(session.Domain)
		if names == nil {
			return nil, damaged(trajectoriesFile, 0, "session %s is of the unknown domain %q", session.ID, session.Domain)
		}
		for _, name := range names {
			if _, read := tables[name]; read {
				continue
			}
			rows, err := readTable(fsys, name)
			if err != nil {
				return nil, err
			}
			tables[name] = rows
		}
	}
	return tables, nil
}

// readTable reads db/<name>.json.gz, or db/<name>.json where that is absent.
func readTable(fsys fs.FS, name string) ([]Row, error) {
	zipped := path.Join("db", name+".json.gz")
	file, err := fsys.Open(zipped)
	if errors.Is(err, fs.ErrNotExist) {
		return readPlainTable(fsys, name)
	}
	if err != nil {
		return nil, &FileError{File: zipped, Err: err}
	}
	defer file.Close()
	unzipped, err := gzip.NewReader(file)
	if err != nil {
		return nil, damaged(zipped, 0, "%w", err)
	}
	return decodeRows(unzipped, zipped)
}

func readPlainTable(fsys fs.FS, name string) ([]Row, error) {
	plain := path.Join("db", name+".json")
	file, err := fsys.Open(plain)
	if err != nil {
		return nil, &FileError{File: plain + ".gz", Err: err}
	}
	defer file.Close()
	return decodeRows(file, plain)
}

// decodeRows reads one JSON object of id: document and keeps the order of its
// keys, which is the order in which searches list their hits.
func decodeRows(r io.Reader, name string) ([]Row, error) {
	decoder := json.NewDecoder(r)
	if start, err := decoder.Token(); err != nil || start != json.Delim('{') {
		return nil, damaged(name, 0, "expected one JSON object: %w", orUnexpected(err, start))
	}
	var rows []Row
	seen := map[string]bool{}
	for decoder.More() {
		key, err := decoder.Token()
		if err != nil {
			return nil, damaged(name, 0, "after %d rows: %w", len(rows), err)
		}
		row := Row{ID: key.(string)} // the decoder lets nothing else be a key
		if err := decoder.Decode(&row.Doc); err != nil {
			return nil, damaged(name, 0, "row %s: %w", row.ID, err)
		}
		if seen[row.ID] {
			return nil, damaged(name, 0, "row %s occurs twice", row.ID)
		}
		seen[row.ID] = true
		rows = append(rows, row)
	}
	if _, err := decoder.Token(); err != nil {
		return nil, damaged(name, 0, "after %d rows: %w", len(rows), err)
	}
	// Reading on to the end lets gzip check its sum.
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, damaged(name, 0, "after the object: %w", orUnexpected(err, "more text"))
	}
	return rows, nil
}

func orUnexpected(err error, found any) error {
	if err != nil {
		return err
	}
	return fmt.Errorf("found %v", found)
}
