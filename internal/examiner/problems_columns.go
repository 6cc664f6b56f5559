package examiner

func columnProblems() []problem {
	const retype = `run: ALTER TABLE {table} ALTER COLUMN {column} TYPE {ddl}`
	const each = `JOIN columns c ON c.oid = t.oid `
	return []problem{{
		name: "column_missing", of: ofTables,
		columns: `c."column", c.ddl || CASE WHEN c.nullable THEN '' ELSE ' NOT NULL' END AS ddl`,
		from:    each + `WHERE c.attnum IS NULL`,
		what:    "{table} has no column {column}",
		fix:     "run: ALTER TABLE {table} ADD COLUMN {column} {ddl}",
	}, {
		name: "column_type", of: ofTables,
		columns: `c."column", c.ddl, c.type, c.wanted`,
		from:    each + `WHERE c.type <> c.wanted`,
		what:    "column {column} of {table} is {type}, not {wanted}",
		fix:     retype,
	}, {
		name: "column_collation", of: ofTables,
		columns: `c."column", c.ddl, c.collation`,
		from:    each + `WHERE c.type = c.wanted AND c.ordered AND c.collation <> '"C"'`,
		what:    `column {column} of {table} is COLLATE {collation}, not "C": a change of the locale data can put the index out of order and let a twin in`,
		fix:     retype,
	}, {
		name: "column_nullable", of: ofTables,
		columns: `c."column"`,
		from:    each + `WHERE NOT c.nullable AND NOT c.attnotnull`,
		what:    "column {column} of {table} may be NULL",
		fix:     "run: ALTER TABLE {table} ALTER COLUMN {column} SET NOT NULL",
	}, {
		name: "column_not_nullable", of: ofTables,
		columns: `c."column"`,
		from:    each + `WHERE c.nullable AND c.attnotnull`,
		what:    "column {column} of {table} is NOT NULL, but a record without one needs that",
		fix:     "run: ALTER TABLE {table} ALTER COLUMN {column} DROP NOT NULL",
	}, {
		name: "column_extra", of: ofTables,
		columns: `format('%I', a.attname) AS "column"`,
		from: `JOIN pg_catalog.pg_attribute a ON a.attrelid = t.oid AND a.attnum > 0 AND NOT a.attisdropped
 WHERE a.attnotnull AND NOT a.atthasdef AND a.attidentity = ''
   AND NOT EXISTS (SELECT FROM columns c WHERE c.oid = t.oid AND c.attnum = a.attnum)`,
		what: "column {column} of {table} is not the library's and NOT NULL without a default: no record can be inserted",
		fix:  "run: ALTER TABLE {table} ALTER COLUMN {column} DROP NOT NULL",
	}}
}
