package recording

import (
	"os"
	"path/filepath"
)

// LargeDir returns the folder of the large recording, which is no part of the project: the
// one that TAUBENCH_DIR names, or ../shared/taubench beside the folder with go.work that the
// program runs in. It is "" where there is neither.
func LargeDir() string {
	if dir := os.Getenv("TAUBENCH_DIR"); dir != "" {
		return dir
	}
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
