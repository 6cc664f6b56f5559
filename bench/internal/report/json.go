package report

import (
	"encoding/json"
	"fmt"
	"os"
)

// WriteJSON writes a result, as a Report, to the file.
func WriteJSON(file string, result any) error {
	text, err := json.MarshalIndent(result, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding the result: %w", err)
	}
	if err := os.WriteFile(file, append(text, '\n'), 0o644); err != nil {
		return fmt.Errorf("writing the result: %w", err)
	}
	return nil
}

// ReadJSON reads what [WriteJSON] has written.
func ReadJSON[R any](file string) (*R, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading the result: %w", err)
	}
	r := new(R)
	if err := json.Unmarshal(text, r); err != nil {
		return nil, fmt.Errorf("reading the result %s: %w", file, err)
	}
	return r, nil
}
