package recording

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
)

// eachLine decodes every line of a .jsonl file into a fresh T and hands it to
// visit. An error of visit is reported with the line it is about.
func eachLine[T any](fsys fs.FS, name string, visit func(T) error) error {
	file, err := fsys.Open(name)
	if err != nil {
		return &FileError{File: name, Err: err}
	}
	defer file.Close()

	// Lines have no bound worth naming: a result may be a whole list of
	// flights. So no bufio.Scanner.
	reader := bufio.NewReader(file)
	for line := 1; ; line++ {
		text, err := reader.ReadBytes('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return &FileError{File: name, Line: line, Err: err}
		}
		if len(bytes.TrimSpace(text)) > 0 {
			var value T
			if err := json.Unmarshal(text, &value); err != nil {
				return damaged(name, line, "%w", err)
			}
			if err := visit(value); err != nil {
				return damaged(name, line, "%w", err)
			}
		}
		if err != nil {
			return nil
		}
	}
}
