package lookalikes

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/recording"
)

// Setting is how a guard is set, and how the tools say that they failed.
type Setting struct {
	// Refuse: what looks alike is not run. Otherwise it is reported.
	Refuse bool
	// FailuresAreResults: a tool that cannot do its work answers with a text that
	// says so, and commits, as the recorded ones do. Otherwise it returns an
	// error, and the guard keeps nothing of it.
	FailuresAreResults bool
	// Within is how many messages later a call may look like an earlier one;
	// zero is any number. Recordings have no clock.
	Within int
}

// Spoken is to how many calls a guard would have spoken.
type Spoken struct {
	Setting
	// Calls are all of them. SecondActions succeeded after an equal call that
	// had succeeded too: each is an effect that a guard that refuses keeps from
	// happening until it is confirmed.
	Calls, SecondActions int
}

// Repeats counts the writes of a tool that equal an earlier one of their
// session, by what became of the latest earlier one and of the call itself.
type Repeats struct {
	Tool   string
	Writes int
	// AfterFailure failed again, Repaired succeeded after a failure, SecondAction
	// succeeded after a success, TooLate failed after a success.
	AfterFailure, Repaired, SecondAction, TooLate int
}

// Report is what a recording says of the guard.
type Report struct {
	Sessions int
	Tools    []Repeats // sorted by name
	Settings []Spoken
}

// Settings are those that are reported.
func Settings() (all []Setting) {
	for _, results := range []bool{false, true} {
		for _, refuse := range []bool{false, true} {
			for _, within := range []int{4, 16, 0} {
				all = append(all, Setting{Refuse: refuse, FailuresAreResults: results, Within: within})
			}
		}
	}
	return all
}

// Measure counts in a recording. Every call counts under a key of its own, as
// session, turn and id make it.
func Measure(rec *recording.Recording) (Report, error) {
	report := Report{Sessions: len(rec.Sessions)}
	tools := map[string]*Repeats{}
	for _, setting := range Settings() {
		report.Settings = append(report.Settings, Spoken{Setting: setting})
	}
	for _, session := range rec.Sessions {
		writes, err := writesOf(session)
		if err != nil {
			return Report{}, err
		}
		countRepeats(tools, writes)
		for i := range report.Settings {
			report.Settings[i].add(writes)
		}
	}
	for _, repeats := range tools {
		report.Tools = append(report.Tools, *repeats)
	}
	slices.SortFunc(report.Tools, func(a, b Repeats) int { return strings.Compare(a.Tool, b.Tool) })
	return report, nil
}

// write is a call that writes, and what is compared of it.
type write struct {
	tool   string
	like   string // tool and fingerprint
	turn   int
	failed bool
}

func writesOf(session recording.Session) (writes []write, err error) {
	for _, call := range session.Calls {
		if call.Class != recording.Write {
			continue
		}
		fingerprint, err := dedup.FingerprintOf(call.Arguments)
		if err != nil {
			return nil, fmt.Errorf("session %s, call %d: %w", session.ID, call.Seq, err)
		}
		writes = append(writes, write{tool: call.Tool, like: call.Tool + "\x00" + fingerprint.String(), turn: call.Turn, failed: call.IsError})
	}
	return writes, nil
}

func countRepeats(tools map[string]*Repeats, writes []write) {
	earlier := map[string]write{}
	for _, w := range writes {
		if tools[w.tool] == nil {
			tools[w.tool] = &Repeats{Tool: w.tool}
		}
		counts := tools[w.tool]
		counts.Writes++
		if before, found := earlier[w.like]; found {
			switch {
			case before.failed && w.failed:
				counts.AfterFailure++
			case before.failed:
				counts.Repaired++
			case w.failed:
				counts.TooLate++
			default:
				counts.SecondAction++
			}
		}
		earlier[w.like] = w
	}
}

// add plays a session's writes to the guard.
func (s *Spoken) add(writes []write) {
	kept := map[string]write{}
	for _, w := range writes {
		before, found := kept[w.like]
		alike := found && (s.Within == 0 || w.turn-before.turn <= s.Within)
		rolledBack := w.failed && !s.FailuresAreResults
		if alike && (s.Refuse || !rolledBack) {
			s.Calls++
			if !w.failed && !before.failed {
				s.SecondActions++
			}
		}
		if !rolledBack && !(alike && s.Refuse) {
			kept[w.like] = w
		}
	}
}
