package examiner

import (
	"fmt"
	"slices"
	"strings"
)

func (t *catalogTable) primaryKeyProblems(want Table) []Problem {
	key := t.PrimaryKey
	if key == nil {
		return []Problem{problem("primary_key_missing",
			t.Name+" has no primary key: "+want.without,
			t.unlessPartitioned(run("ALTER TABLE %s ADD %s", t.Name, want.keyDefinition())))}
	}

	again := t.unlessPartitioned(run("ALTER TABLE %s DROP CONSTRAINT %s, ADD %s", t.Name, key.Name, want.keyDefinition()))
	var found []Problem
	switch {
	case !slices.Equal(key.Columns, want.keyColumns()):
		found = append(found, problem("primary_key_columns",
			fmt.Sprintf("the primary key of %s is made of %s, not of %s: %s", t.Name, strings.Join(key.Columns, ", "), want.key, want.otherKey), again))
	case key.Deferrable:
		found = append(found, problem("primary_key_deferrable",
			fmt.Sprintf("the primary key of %s is DEFERRABLE: a lost race can show too late, and ON CONFLICT refuses it", t.Name), again))
	}
	if !key.Valid {
		found = append(found, problem("primary_key_invalid",
			fmt.Sprintf("the index of the primary key of %s is not valid: it may not know every record", t.Name),
			run("REINDEX INDEX %s", key.Index)))
	}
	return found
}

// unlessPartitioned returns the fix of a primary key where the table can have
// one: its columns must include those of the partition key.
func (t *catalogTable) unlessPartitioned(fix string) string {
	if t.Kind == "p" && t.PartitionKey != distribution {
		return "repair the partition key first"
	}
	return fix
}

// uniqueProblems are unique indexes beside the primary key. A record that meets
// one of them looks like a lost race, but there is no winner to read.
func (t *catalogTable) uniqueProblems() []Problem {
	var found []Problem
	for _, unique := range t.UniqueExtra {
		what, fix := "unique index "+unique.Index, run("DROP INDEX %s", unique.Index)
		if unique.Constraint != nil {
			what, fix = "constraint "+*unique.Constraint, run("ALTER TABLE %s DROP CONSTRAINT %s", unique.Table, *unique.Constraint)
		}
		found = append(found, problem("unique_extra",
			fmt.Sprintf("%s of %s can refuse a record whose identity is new; only the primary key may decide", what, unique.Table), fix))
	}
	return found
}

// constraintProblems are constraints of somebody else's that act on records. A
// foreign key that only refuses a record is none: its scope is then unknown to
// the application, and the effect is rolled back as well.
func (t *catalogTable) constraintProblems() []Problem {
	var found []Problem
	for _, check := range t.Checks {
		found = append(found, problem("check_constraint",
			fmt.Sprintf("constraint %s of %s, %s, can refuse what the library writes: a refusal, a claim, or a tombstone, which has no result", check.Name, check.Table, check.Definition),
			run("ALTER TABLE %s DROP CONSTRAINT %s", check.Table, check.Name)))
	}
	for _, key := range t.ForeignKeys {
		found = append(found, problem("foreign_key",
			fmt.Sprintf("constraint %s of %s, %s, deletes or changes records when the row that it refers to goes: their calls run again", key.Name, key.Table, key.Definition),
			run("ALTER TABLE %s DROP CONSTRAINT %s", key.Table, key.Name)))
	}
	return found
}

func (t *catalogTable) dueIndexProblems() []Problem {
	create := fmt.Sprintf("CREATE INDEX tool_dedup_due ON %s (%s)", t.Name, DueExpression)
	index := t.DueIndex
	switch {
	case index == nil:
		return []Problem{problem("due_index_missing",
			t.Name+" has no index tool_dedup_due: every sweep reads the whole table", run("%s", create))}
	case !index.Plain || !sameExpression(index.Expression, DueExpression):
		return []Problem{problem("due_index_other",
			index.Name+" is not the index that the sweep asks for: every sweep reads the whole table",
			run("DROP INDEX %s; %s", index.Name, create))}
	case !index.Valid:
		return []Problem{problem("due_index_invalid",
			index.Name+" is not valid: every sweep reads the whole table", run("REINDEX INDEX %s", index.Name))}
	default:
		return nil
	}
}
