package examiner

import (
	"fmt"
	"slices"
)

func (t *catalogTable) columnProblems(want Table) []Problem {
	var found []Problem
	for _, column := range want.columns {
		found = append(found, t.compareColumn(column)...)
	}
	for _, got := range t.Columns {
		ours := slices.ContainsFunc(want.columns, func(column column) bool { return column.name == got.Name })
		if !ours && got.NotNull && !got.Filled {
			found = append(found, problem("column_extra",
				fmt.Sprintf("column %s of %s is not the library's and NOT NULL without a default: no record can be inserted", quote(got.Name), t.Name),
				run("ALTER TABLE %s ALTER COLUMN %s DROP NOT NULL", t.Name, quote(got.Name))))
		}
	}
	return found
}

func (t *catalogTable) compareColumn(want column) []Problem {
	i := slices.IndexFunc(t.Columns, func(got catalogColumn) bool { return got.Name == want.name })
	if i < 0 {
		nullability := " NOT NULL"
		if want.nullable {
			nullability = ""
		}
		return []Problem{problem("column_missing",
			fmt.Sprintf("%s has no column %s", t.Name, want.name),
			run("ALTER TABLE %s ADD COLUMN %s %s%s", t.Name, want.name, want.definition(), nullability))}
	}

	got := t.Columns[i]
	retype := run("ALTER TABLE %s ALTER COLUMN %s TYPE %s", t.Name, want.name, want.definition())
	var found []Problem
	switch {
	case got.Type != want.typ:
		found = append(found, problem("column_type",
			fmt.Sprintf("column %s of %s is %s, not %s", want.name, t.Name, got.Type, want.typ), retype))
	case want.ordered && got.Collation != `"C"`:
		found = append(found, problem("column_collation",
			fmt.Sprintf(`column %s of %s is COLLATE %s, not "C": a change of the locale data can put the index out of order and let a twin in`, want.name, t.Name, got.Collation), retype))
	}
	switch {
	case !want.nullable && !got.NotNull:
		found = append(found, problem("column_nullable",
			fmt.Sprintf("column %s of %s may be NULL", want.name, t.Name),
			run("ALTER TABLE %s ALTER COLUMN %s SET NOT NULL", t.Name, want.name)))
	case want.nullable && got.NotNull:
		found = append(found, problem("column_not_nullable",
			fmt.Sprintf("column %s of %s is NOT NULL, but a record without one needs that", want.name, t.Name),
			run("ALTER TABLE %s ALTER COLUMN %s DROP NOT NULL", t.Name, want.name)))
	}
	return found
}
