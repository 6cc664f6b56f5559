package deduptest

import (
	"fmt"
	"slices"
	"strings"
)

// notes collect the facts of a case: the calls with one key.
type notes struct {
	what    string // the case's event, for reports
	first   string // the first answer
	history []string
	trouble []string
	hint    string // a likely cause, for reports
}

// problemf reports a problem once, though two hundred calls may have it.
func (n *notes) problemf(format string, args ...any) {
	if problem := fmt.Sprintf(format, args...); !slices.Contains(n.trouble, problem) {
		n.trouble = append(n.trouble, problem)
	}
}

// note keeps the result of a call. After the first eight, results are dropped.
func (n *notes) note(format string, args ...any) {
	const most, longest = 8, 160
	switch len(n.history) {
	case most:
		n.history = append(n.history, "…")
	case most + 1:
	default:
		n.history = append(n.history, clipped(fmt.Sprintf(format, args...), longest))
	}
}

// answer records an answer, and reports whether it is the first one.
func (n *notes) answer(text string) (first bool) {
	n.note("answer %s", text)
	if n.first == "" {
		n.first = text
		return true
	}
	if text != n.first {
		n.problemf("two callers get different answers")
	}
	return false
}

// report fails the scenario if the case has problems.
func (n *notes) report(out *ScenarioReport) {
	if len(n.trouble) > 0 {
		out.failf("%s: %s [%s]%s", n.what, strings.Join(n.trouble, "; "), strings.Join(n.history, ", "), n.hint)
	}
}

// clipped cuts a text to about n bytes.
func clipped(text string, n int) string {
	if len(text) <= n {
		return text
	}
	return strings.ToValidUTF8(text[:n], "") + "…"
}
