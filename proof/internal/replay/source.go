package replay

import (
	"github.com/tooldedup/dedup/internal/exit"
	"github.com/tooldedup/dedup/internal/recording"
)

// openRecording opens the recording that is named, or the first there is, and
// says which.
func openRecording(named string) (rec *recording.Recording, from string, err error) {
	if from = named; from == "" {
		from = recording.LargeDir()
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
