package dedup

import (
	"fmt"
	"strings"
)

// toolError adds the tool's name to an error of the library.
type toolError struct {
	tool string
	err  error
}

// ofTool returns an error as a call of the tool answers it. What begins with the
// library's name is the library's own and gets the tool's, if it has none. The
// effect's own errors stay as they are, and so do refusals.
func ofTool(tool string, err error) error {
	switch err := err.(type) {
	case nil:
		return nil
	case *KeyReusedError, *ExpiredError, *BrokenError, *ConflictError, *BatchError, *toolError, *RefusedError: // which name it
		return err
	}
	if !strings.HasPrefix(err.Error(), errorPrefix) || validateName("Tool", tool) != nil {
		return err
	}
	return &toolError{tool, err}
}

const errorPrefix = "dedup: "

// Error implements error.
func (e *toolError) Error() string {
	return fmt.Sprintf("%stool %q: %s", errorPrefix, e.tool, strings.TrimPrefix(e.err.Error(), errorPrefix))
}

// Unwrap returns the error without the name.
func (e *toolError) Unwrap() error { return e.err }
