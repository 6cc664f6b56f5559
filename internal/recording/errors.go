package recording

import (
	"errors"
	"fmt"
)

// ErrDamaged is what a *FileError wraps where a file could be read but does
// not hold what a recording holds. Open and OpenFS return it.
var ErrDamaged = errors.New("damaged recording")

// FileError says which file of a recording could not be used, and where.
// Open, OpenFS and Small return it. A missing file matches fs.ErrNotExist,
// everything that could be read but not understood matches ErrDamaged.
type FileError struct {
	// File is relative to the recording's folder.
	File string
	// Line counts from 1; 0 means the file as a whole.
	Line int
	Err  error
}

func (e *FileError) Error() string {
	if e.Line == 0 {
		return fmt.Sprintf("recording file %s: %v", e.File, e.Err)
	}
	return fmt.Sprintf("recording file %s, line %d: %v", e.File, e.Line, e.Err)
}

// Unwrap returns the cause.
func (e *FileError) Unwrap() error { return e.Err }

func damaged(file string, line int, format string, args ...any) *FileError {
	cause := fmt.Errorf(format, args...)
	return &FileError{File: file, Line: line, Err: fmt.Errorf("%w: %w", ErrDamaged, cause)}
}
