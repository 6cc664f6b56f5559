package doctor

import "github.com/tooldedup/dedup/cmd/dedup/internal/cli"

// EffectsSQL is what the checks of effects read of the tables of a schema, with the parameter.
func EffectsSQL(schema string) (sql []string, given string) {
	s := &session{Target: cli.Target{Schema: schema}}
	for _, c := range []check{effects(), forgotten()} {
		sql = append(sql, givenSQL+s.rows(c.sql, true))
	}
	return sql, s.given()
}

// Declared are the ids of the checks, and those of the errors and warnings of the table.
func Declared() (checked, found []string) {
	for _, c := range checks() {
		checked = append(checked, c.id)
		for _, j := range c.judge {
			if j.severity == SeverityError || j.severity == SeverityWarning {
				found = append(found, j.id)
			}
		}
	}
	return checked, found
}
