package measure

import (
	"encoding/json"
	"fmt"
	"os"
)

// WriteJSON writes a result to the file, for [ReadJSON].
func WriteJSON(file string, result any) error {
	text, err := json.MarshalIndent(result, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding the result: %w", err)
	}
	return os.WriteFile(file, append(text, '\n'), 0o644)
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
