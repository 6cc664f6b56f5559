package doctor_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/cmd/dedup/internal/doctor"
	"github.com/tooldedup/dedup/internal/pgtest"
)

// scenario is a database or a server that was broken on purpose, or one that
// looks as if it was.
type scenario struct {
	name string

	// sql breaks a database. %role% stands for a role that may use the table;
	// with asRole it is that role that looks.
	sql    string
	asRole bool
	// place makes the place to look at, if it takes more than SQL.
	place func(t *testing.T) place

	// errors, warnings and unknown are the ids that are found, beside those of
	// the tests' server itself, which is fast rather than safe.
	errors, warnings, unknown []string
	// evidence is a part of the finding's Evidence, and says a part of its What or Fix.
	evidence, says string
}

// place is where to look.
type place struct {
	url    string
	owner  string // URL of the server itself, as a role that may repair it
	before report // the findings before the fault
}

func scenarios() []scenario {
	var all []scenario
	for _, some := range [][]scenario{
		schemaScenarios(), roleScenarios(), citusScenarios(), settingScenarios(), upkeepScenarios(), effectScenarios(),
		standbyScenarios(), poolerScenarios(),
	} {
		all = append(all, some...)
	}
	return all
}

func TestBroken(t *testing.T) {
	t.Parallel()

	sound := examine(t, pgtest.New(t).URL)
	for _, sc := range scenarios() {
		t.Run(sc.name, func(t *testing.T) {
			t.Parallel()
			p := sc.prepare(t, sound)
			after, before := examine(t, p.url), p.before
			require.ElementsMatch(t, sc.errors, without(after.with(doctor.SeverityError), before.with(doctor.SeverityError)))
			require.ElementsMatch(t, sc.warnings, without(after.with(doctor.SeverityWarning), before.with(doctor.SeverityWarning)))
			require.ElementsMatch(t, sc.unknown, without(after.with(doctor.SeverityUnknown), before.with(doctor.SeverityUnknown)))
			require.Contains(t, strings.Join(after.evidence(), "\n"), sc.evidence)
			require.True(t, slices.ContainsFunc(after.Findings, func(f doctor.Finding) bool { return strings.Contains(f.What+"\n"+f.Fix, sc.says) }), sc.says)

			// If a fix is SQL, running it removes the finding. Faults of the tests' server stay:
			// other programs may use the server.
			wanted := slices.Concat(sc.errors, sc.warnings, sc.unknown)
			repaired := map[string]bool{}
			for _, f := range after.Findings {
				statement, ok := strings.CutPrefix(f.Fix, "run: ")
				if ok && slices.Contains(wanted, f.ID) {
					exec(t, p.owner, statement)
					repaired[f.ID] = true
				}
			}
			if len(repaired) == 0 {
				return
			}
			for _, f := range examine(t, p.url).Findings {
				require.False(t, f.Severity != doctor.SeverityOK && repaired[f.ID], "still there after the fix: %+v", f)
			}
		})
	}
}

// prepare makes the fault. sound has the findings of a sound database.
func (sc scenario) prepare(t *testing.T, sound report) place {
	t.Helper()
	if sc.place != nil {
		return sc.place(t)
	}
	db := pgtest.New(t)
	p := place{url: db.URL, owner: db.URL, before: sound}
	if strings.Contains(sc.sql, "%role%") || sc.asRole {
		role := asRole(t, db.URL, db.Name)
		if sc.asRole {
			p.url = role
			p.before = examine(t, p.url)
		}
	}
	// Roles and databases are both named for the test.
	name := pgx.Identifier{db.Name}.Sanitize()
	exec(t, db.URL, strings.NewReplacer("%role%", name, "%database%", name).Replace(sc.sql))
	return p
}

// evidence is all that was read.
func (r report) evidence() []string {
	var all []string
	for _, f := range r.Findings {
		all = append(all, f.Evidence)
	}
	return all
}

// without returns the elements of all that are not in some.
func without(all, some []string) []string {
	left := map[string]int{}
	for _, id := range some {
		left[id]++
	}
	result := []string{}
	for _, id := range all {
		if left[id]--; left[id] < 0 {
			result = append(result, id)
		}
	}
	return result
}
