package recording

import (
	"embed"
	"io/fs"
)

//go:embed small
var smallFiles embed.FS

// Small returns the project's own recording: a handful of invented users,
// orders, reservations and flights and six sessions that use every write tool
// at least once. It needs no file, so a replay can always be tried.
func Small() (*Recording, error) {
	folder, err := fs.Sub(smallFiles, "small")
	if err != nil {
		return nil, err
	}
	return OpenFS(folder)
}
