package replay

import (
	"os"
	"path/filepath"

	"github.com/tooldedup/dedup/internal/exit"
	"github.com/tooldedup/dedup/internal/recording"
)

// openRecording opens the recording that is named, or the first there is, and
// says which.
func openRecording(named string) (rec *recording.Recording, from string, err error) {
	switch {
	case named != "":
		from = named
	case os.Getenv("TAUBENCH_DIR") != "":
		from = os.Getenv("TAUBENCH_DIR")
	default:
		from = besideRepository()
	}
	if from == "" {
		rec, err = recording.Small()
		return rec, "the small one inside this program", err
	}
	rec, err = recording.Open(from)
	if err != nil && named != "" {
		return nil, "", exit.Usage("--recording %s: %w", named, err)
	}
	return rec, from, err
}

// besideRepository returns the folder ../shared/taubench beside the folder with
// go.work that the program is run in, "" where there is none.
func besideRepository() string {
	dir, err := os.Getwd()
	if err != nil {
		return ""
	}
	for ; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.work")); err == nil {
			found := filepath.Join(filepath.Dir(dir), "shared", "taubench")
			if info, err := os.Stat(found); err == nil && info.IsDir() {
				return found
			}
		}
		if dir == filepath.Dir(dir) {
			return ""
		}
	}
}
