package recording

import (
	"encoding/json"
	"errors"
	"io/fs"
)

const toolsFile = "tools.json"

// readTools reads tools.json, which a recording need not have.
func readTools(fsys fs.FS) ([]ToolSpec, error) {
	text, err := fs.ReadFile(fsys, toolsFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, &FileError{File: toolsFile, Err: err}
	}
	var tools []ToolSpec
	if err := json.Unmarshal(text, &tools); err != nil {
		return nil, damaged(toolsFile, 0, "%w", err)
	}
	return tools, nil
}
