package doctor

import (
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup/cmd/dedup/internal/cli"
)

// EffectsSQL returns the SQL of the checks of effects for a schema, and its arguments.
func EffectsSQL(schema string) (sql []string, given pgx.NamedArgs) {
	s := &session{Query: cli.Query{Target: cli.Target{Schema: schema}}}
	for _, c := range upkeepChecks() {
		if c.only == hasEffects {
			sql = append(sql, targetSQL+s.rowsSQL(c.sql, true))
		}
	}
	return sql, s.given()
}

// Declared returns the ids of the checks, and the ids of their errors and warnings. Problems of the
// examiner have other ids.
func Declared() (checked, found []string) {
	for _, c := range checks() {
		checked = append(checked, c.id)
		for _, j := range c.judge {
			if (j.Severity == SeverityError || j.Severity == SeverityWarning) && !strings.HasPrefix(j.ID, "{") {
				found = append(found, j.ID)
			}
		}
	}
	return checked, found
}
