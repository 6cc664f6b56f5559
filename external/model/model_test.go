// Package model checks the protocol of package external. effect.pml describes it to spin,
// which tries every order of its steps.
package model

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// configuration is a set of the model's defines.
type configuration struct {
	name, defines string
	// violated is the assertion that must fail, empty if none must.
	violated string
}

// The checker's names of the assertions.
const (
	twice        = "assertion violated (0||(effects==1))"
	refusedWrong = "assertion violated (0||((0||(record!=10))||(effects==0)))"
	silentTwice  = "assertion violated ((effects<2)||twice)"
	silentWrong  = "assertion violated (((0||(record!=10))||(effects==0))||twice)"
	finishTwice  = "assertion violated ((finished&(1<<"
	neverSent    = "assertion violated sent"
	cycle        = "non-progress cycle"
)

// sound are the kinds of providers and the optional faults.
var sound = []configuration{
	{name: "Nothing", defines: "READ_FIRST"},
	{name: "NothingAndAPerson", defines: "HUMAN REUSE"},
	{name: "Find", defines: "FIND READ_FIRST HEARTBEAT TIMEOUT=2"},
	{name: "FindAndAPerson", defines: "FIND HUMAN REUSE"},
	{name: "FindSettles", defines: "FIND SETTLES READ_FIRST"},
	{name: "FindSettlesFourWorkers", defines: "FIND SETTLES WORKERS=4"},
	{name: "FindSettlesGivesUp", defines: "FIND SETTLES GIVES_UP HUMAN WORKERS=2"},
	{name: "FindSettlesLongLease", defines: "FIND SETTLES LEASE=2 SETTLE=2"},
	{name: "FindSettlesExtended", defines: "FIND SETTLES HEARTBEAT TIMEOUT=2"},
	{name: "FindSettlesUsedAnew", defines: "FIND SETTLES REUSE"},
	{name: "FindSettlesTooShort", defines: "FIND SETTLES LATE=3 REPORTED"},
	{name: "FindSettlesTooShortUsedAnew", defines: "FIND SETTLES LATE=2 REPORTED REUSE WORKERS=2"},
	{name: "Key", defines: "KEY REFUSAL_MAY_BE_WRONG"},
	{name: "KeyReadFirst", defines: "KEY DECLINES_KEPT READ_FIRST WORKERS=2"},
	{name: "KeyDeclinesKept", defines: "KEY DECLINES_KEPT"},
	{name: "KeyAndAPerson", defines: "KEY HUMAN REFUSAL_MAY_BE_WRONG"},
	{name: "KeyDeclinesKeptAndAPerson", defines: "KEY DECLINES_KEPT HUMAN"},
	{name: "KeyExtended", defines: "KEY DECLINES_KEPT HEARTBEAT TIMEOUT=2 KEPT=6 WORKERS=2"},
	{name: "KeyUsedAnew", defines: "KEY REUSE KEPT=4 REFUSAL_MAY_BE_WRONG"},
	{name: "KeySettles", defines: "KEY SETTLES"},
	{name: "KeySettlesAndAPerson", defines: "KEY SETTLES HUMAN"},
	{name: "KeySettlesLong", defines: "KEY SETTLES SETTLE=3 KEPT=7 WORKERS=2"},
	{name: "KeySettlesExtended", defines: "KEY SETTLES HEARTBEAT TIMEOUT=2 KEPT=6 WORKERS=2"},
	{name: "KeyGivesUp", defines: "KEY GIVES_UP HUMAN REFUSAL_MAY_BE_WRONG WORKERS=2"},
	{name: "KeyFind", defines: "KEY FIND REFUSAL_MAY_BE_WRONG"},
	{name: "KeyFindDeclinesKept", defines: "KEY FIND DECLINES_KEPT WORKERS=2"},
	{name: "KeyFindGivesUp", defines: "KEY FIND DECLINES_KEPT GIVES_UP HUMAN WORKERS=2"},
	{name: "KeyOfOneRelease", defines: "KEY RELEASES REFUSAL_MAY_BE_WRONG WORKERS=2"},
	{name: "KeyOfOneReleaseFind", defines: "KEY FIND RELEASES REFUSAL_MAY_BE_WRONG WORKERS=2"},
	{name: "KeyFindRejects", defines: "KEY FIND REJECTS REFUSAL_MAY_BE_WRONG WORKERS=2"},
	{name: "KeyRejects", defines: "KEY REJECTS REFUSAL_MAY_BE_WRONG WORKERS=2"},
	{name: "KeyFindSettles", defines: "KEY FIND SETTLES"},
	{name: "KeyFindSettlesReadFirst", defines: "KEY FIND SETTLES READ_FIRST WORKERS=2"},
	{name: "KeyFindSettlesExtended", defines: "KEY FIND SETTLES HEARTBEAT TIMEOUT=2 KEPT=6 WORKERS=2"},
	{name: "KeyFindSettlesUsedAnew", defines: "KEY FIND SETTLES REUSE WORKERS=2"},
	{name: "KeyFindSettlesTooShort", defines: "KEY FIND SETTLES LATE=3 REPORTED WORKERS=2"},
}

// ending are the configurations in which faults are counted: each operation ends when they are used
// up.
var ending = []configuration{
	{name: "Nothing", defines: "PROGRESS=3"},
	{name: "Find", defines: "FIND PROGRESS=3"},
	{name: "FindSettles", defines: "FIND SETTLES PROGRESS=3"},
	{name: "FindSettlesRecoverer", defines: "FIND SETTLES PROGRESS=3 ONLY_RECOVERER"},
	{name: "FindSettlesFinishFails", defines: "FIND SETTLES PROGRESS=3 FINISH_FAILS"},
	{name: "Key", defines: "KEY PROGRESS=3 REFUSAL_MAY_BE_WRONG"},
	{name: "KeySettles", defines: "KEY SETTLES PROGRESS=3"},
	{name: "KeyFind", defines: "KEY FIND PROGRESS=2 REFUSAL_MAY_BE_WRONG"},
	{name: "KeyFindSettles", defines: "KEY FIND SETTLES PROGRESS=2"},
	{name: "KeyFindSettlesRecoverer", defines: "KEY FIND SETTLES PROGRESS=3 ONLY_RECOVERER"},
}

// planted are the configurations without one rule, and those that cannot hold by the package's
// documentation.
var planted = []configuration{
	{name: "SettledSinceItsStart", defines: "FIND SETTLES SETTLE_FROM_START", violated: twice},
	{name: "SettledAtTheAnswer", defines: "FIND SETTLES SETTLED_AT_ANSWER", violated: twice},
	{name: "NoLeaseCheck", defines: "FIND SETTLES NO_LEASE_CHECK", violated: twice},
	{name: "FenceBeginsAnew", defines: "FIND SETTLES REUSE NO_FENCE_SEQUENCE REFUSAL_MAY_BE_WRONG", violated: twice},
	{name: "FenceBeginsAnewWithKey", defines: "KEY REUSE KEPT=4 NO_FENCE_SEQUENCE REFUSAL_MAY_BE_WRONG", violated: twice},
	{name: "LateResend", defines: "KEY DECLINES_KEPT NO_KEY_WINDOW", violated: twice},
	{name: "WindowAnewAfterNotDone", defines: "KEY DECLINES_KEPT WINDOW_ANEW WORKERS=2", violated: twice},
	{name: "WindowAnewAfterNever", defines: "KEY HUMAN WINDOW_ANEW REFUSAL_MAY_BE_WRONG WORKERS=2", violated: twice},
	{name: "WindowWithoutSettles", defines: "KEY SETTLES SETTLE=3 WINDOW_WITHOUT_SETTLES", violated: twice},
	{name: "KeyJudgedBeforeTheTake", defines: "KEY DECLINES_KEPT READ_FIRST JUDGED_BEFORE_TAKE", violated: twice},
	{name: "KeyJudgedAtTheLook", defines: "KEY FIND REFUSAL_MAY_BE_WRONG JUDGED_AT_LOOK", violated: twice},
	{name: "KeyGoneAndSettledSinceTheLook", defines: "KEY FIND SETTLES SETTLED_AT_SEND WORKERS=2", violated: twice},
	{name: "StateAsRead", defines: "READ_FIRST STATE_AS_READ", violated: neverSent},
	{name: "NotDoneForgetsWhatWasSent", defines: "FIND SETTLES NO_NOTDONE_MEMORY", violated: twice},
	{name: "NotDoneForgetsWhatWasSentWithoutFind", defines: "NO_NOTDONE_MEMORY", violated: twice},
	{name: "RefusalForgetsWhatWasSent", defines: "FIND SETTLES NO_REFUSAL_MEMORY", violated: refusedWrong},
	{name: "RefusalForgetsWhatWasSentWithKey", defines: "KEY SETTLES NO_REFUSAL_MEMORY", violated: refusedWrong},
	{name: "RefusalForgetsWhatWasSentWithAKeyThatEnds", defines: "KEY DECLINES_KEPT NO_REFUSAL_MEMORY WORKERS=2", violated: refusedWrong},
	{name: "RefusalBesideALateSuccess", defines: "KEY SETTLES NO_LOOK_BEFORE_REFUSAL", violated: refusedWrong},
	{name: "RefusalBesideALateSuccessWithFind", defines: "KEY FIND SETTLES NO_LOOK_BEFORE_REFUSAL", violated: refusedWrong},
	{name: "RefusalSettledWhenItCame", defines: "KEY SETTLES SETTLED_AT_DECLINE", violated: silentWrong},
	{name: "RefusalSettledWhenTheLeaseWasExtended", defines: "KEY SETTLES HEARTBEAT TIMEOUT=2 KEPT=6 SETTLED_AT_EXTENSION", violated: silentWrong},
	{name: "RefusalAfterAnyLook", defines: "KEY FIND", violated: refusedWrong},
	{name: "RefusalWithAKeyAlone", defines: "KEY", violated: refusedWrong},
	{name: "RefusalAfterNeverWithAWindowAnew", defines: "KEY DECLINES_KEPT HUMAN WINDOW_ANEW", violated: refusedWrong},
	{name: "KeyOfAnotherRelease", defines: "KEY RELEASES KEY_OF_ANOTHER_RELEASE REFUSAL_MAY_BE_WRONG WORKERS=2", violated: twice},
	{name: "ExistsForgotten", defines: "KEY FIND REJECTS EXISTS_FORGOTTEN REFUSAL_MAY_BE_WRONG WORKERS=2", violated: twice},
	{name: "SettlesTooShort", defines: "FIND SETTLES LATE=3", violated: twice},
	{name: "NoRecheck", defines: "FIND SETTLES LATE=3 REPORTED NO_RECHECK", violated: silentTwice},
	{name: "NoRecheckOfARefusal", defines: "FIND SETTLES LATE=3 REPORTED NO_REFUSAL_RECHECK", violated: silentWrong},
	{name: "ForgottenBeforeTheRecheck", defines: "FIND SETTLES LATE=2 REPORTED REUSE FORGET_BEFORE_RECHECK WORKERS=2", violated: silentTwice},
	{name: "SuccessOfAnEarlierLife", defines: "FIND SETTLES REUSE NO_LIFE_CHECK", violated: finishTwice},
	{name: "SuccessAfterItsRecordIsForgotten", defines: "FIND SETTLES REUSE NO_DONE_CHECK", violated: finishTwice},
	{name: "FinishFailsForGood", defines: "FIND SETTLES PROGRESS=2 FINISH_FAILS NO_PARK_AFTER_FINISH", violated: cycle},
}

// TestModel is the short form: one protocol, and one mistake in it.
func TestModel(t *testing.T) {
	t.Parallel()
	for _, c := range []configuration{
		{name: "FindSettles", defines: "FIND SETTLES WORKERS=2"},
		{name: "SettledSinceItsStart", defines: "FIND SETTLES SETTLE_FROM_START WORKERS=2", violated: twice},
	} {
		check(t, c)
	}
}

func TestLongProtocolHolds(t *testing.T) {
	t.Parallel()
	for _, c := range sound {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			check(t, c)
		})
	}
}

func TestLongOperationsEnd(t *testing.T) {
	t.Parallel()
	for _, c := range ending {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			check(t, c)
		})
	}
}

// TestLongEveryRuleIsNeeded removes each rule of the protocol. The model finds the failure.
func TestLongEveryRuleIsNeeded(t *testing.T) {
	t.Parallel()
	for _, c := range planted {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			check(t, c)
		})
	}
}

// TestPageCounts compares the counts of docs/proof.md with the tables above.
func TestPageCounts(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/proof.md")
	require.NoError(t, err)
	text := strings.Join(strings.Fields(string(page)), " ")
	for _, count := range []string{
		strconv.Itoa(len(sound)) + " configurations have no unreported double effect",
		strconv.Itoa(len(planted)) + " more lack a rule",
		strconv.Itoa(len(ending)) + " more show that each operation ends",
	} {
		require.Contains(t, text, count)
	}
}

// check has spin write the checker of a configuration, builds and runs it, and compares the failed
// assertion with the expected one.
func check(t *testing.T, c configuration) {
	t.Helper()
	spin, cc := tool(t, "spin", "spin"), tool(t, compiler(), "gcc")
	model, err := filepath.Abs("effect.pml")
	require.NoError(t, err)
	dir := t.TempDir()
	run := func(name string, args ...string) string {
		cmd := exec.CommandContext(t.Context(), name, args...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		return string(out)
	}
	var args []string
	for _, define := range strings.Fields(c.defines) {
		args = append(args, "-D"+define)
	}
	run(spin, append(args, "-a", model)...)

	report := ""
	for _, search := range searches(c) {
		run(cc, append(search.build, "-O1", "-DMEMLIM=2048", "-o", "pan", "pan.c")...)
		found := run(filepath.Join(dir, "pan"), append(search.run, "-m500000", "-w22")...)
		t.Logf("%s (%s): %s states, depth %s, %s MB", c.defines, search.name, figure(found, `(\d+) states, stored`),
			figure(found, `depth reached (\d+)`), figure(found, `([\d.]+)\s+total actual memory`))
		report += found
		if c.violated == "" {
			require.Equal(t, "0", figure(found, `errors: (\d+)`), "%s", found)
			require.NotContains(t, found, "Search not completed")
			require.NotContains(t, found, "max search depth too small")
		}
	}
	require.Contains(t, report, c.violated)
}

// search is a way to build and run the checker.
type search struct {
	name       string
	build, run []string
}

// searches are for assertions and, if faults are counted, also for cycles. NOSTUTTER: the end of a
// run does not count as a cycle.
func searches(c configuration) []search {
	all := []search{{name: "assertions", build: []string{"-DSAFETY"}}}
	if strings.Contains(c.defines, "PROGRESS") {
		all = append(all, search{name: "cycles", build: []string{"-DNP", "-DNOSTUTTER"}, run: []string{"-l"}})
	}
	return all
}

// tool returns the path of a program that the test needs.
func tool(t *testing.T, name, debian string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("%s is not installed (Debian's package %s): the model of package external is not checked", name, debian)
	}
	return path
}

func compiler() string {
	if cc := os.Getenv("CC"); cc != "" {
		return cc
	}
	return "cc"
}

// figure returns the first match of the expression's group in the checker's report.
func figure(report, expression string) string {
	found := regexp.MustCompile(expression).FindStringSubmatch(report)
	if found == nil {
		return "no"
	}
	return found[1]
}
