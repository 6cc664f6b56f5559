package migrations_test

// brokenEffect are databases whose tool_effect is not as the migrations make it.
func brokenEffect() []broken {
	missing, wrong := []string{"effect_missing"}, []string{"effect_broken"}
	return []broken{
		{name: "EffectMissing", sql: `DROP TABLE tool_effect`, want: missing, left: missing},
		{name: "EffectMissingInAPlainSchema", sql: `DROP TABLE tool_effect, tool_dedup_version`, want: missing, left: missing},
		{name: "EffectWithoutKey", sql: `ALTER TABLE tool_effect DROP CONSTRAINT tool_effect_pkey`, want: wrong},
		{name: "EffectWithoutAColumn", sql: `ALTER TABLE tool_effect DROP COLUMN twice`, want: wrong},
		{name: "EffectWithARule", sql: `CREATE RULE swallow AS ON INSERT TO tool_effect DO INSTEAD NOTHING`, want: wrong},
	}
}
