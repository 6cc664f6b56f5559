package doctor

import (
	"context"
	"strings"
)

// guard is a setting of the server that records depend on.
type guard struct {
	name, want string
	id         string
	what       string
	afterwards string // what to do besides, once it is as wanted
}

func guards() []guard {
	return []guard{
		{
			name: "fsync", want: "on", id: IDFsyncOff,
			what:       "fsync is off: after a crash of the machine records can be gone whose effects are there, and their calls run again",
			afterwards: "; if the machine has crashed meanwhile, restore a backup",
		},
		{
			name: "full_page_writes", want: "on", id: IDFullPageWritesOff,
			what:       "full_page_writes is off: a page that a crash tears in half stays torn, and the records on it, or their index entries, are lost",
			afterwards: "; only a file system that never tears a page, such as ZFS, is safe without",
		},
		{
			name: "zero_damaged_pages", want: "off", id: IDZeroDamagedPages,
			what: "zero_damaged_pages is on: a damaged page is read as an empty one, so its records vanish without an error and their calls run again",
		},
		{
			name: "ignore_checksum_failure", want: "off", id: IDIgnoreChecksumFailure,
			what: "ignore_checksum_failure is on: a damaged page is read as if it were sound, and a record or index entry that is wrong lets a twin in",
		},
	}
}

// checkCrashSafety looks at what a record's survival of a crash depends on.
func checkCrashSafety(ctx context.Context, s *session) ([]Finding, error) {
	var names []string
	for _, g := range guards() {
		names = append(names, g.name)
	}
	everywhere, found, err := readSettingsEverywhere(ctx, s, "crash_safety", names...)
	if err != nil {
		return nil, err
	}
	for _, g := range guards() {
		found = append(found, g.look(everywhere)...)
	}
	return found, nil
}

// look returns a finding for each server that has it wrong, or one that is sound.
func (g guard) look(everywhere []*settings) []Finding {
	var wrong []Finding
	var evidence []string
	for _, read := range everywhere {
		got := read.effective(g.name)
		evidence = append(evidence, got.evidence())
		if got.value != g.want {
			wrong = append(wrong, Finding{
				ID: g.id, Severity: SeverityError,
				What: g.what, Evidence: got.evidence(), Fix: got.fix(g.want) + g.afterwards,
			})
		}
	}
	if wrong == nil {
		return []Finding{sound(g.name, strings.Join(evidence, "; "))}
	}
	return wrong
}
