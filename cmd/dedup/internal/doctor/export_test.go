package doctor

import "github.com/tooldedup/dedup/cmd/dedup/internal/cli"

// EffectsSQL is what the check of effects reads of the tables of a schema, with the parameter.
func EffectsSQL(schema string) (sql, given string) {
	s := &session{Target: cli.Target{Schema: schema}}
	return givenSQL + s.rows(effects().sql, true), s.given()
}
