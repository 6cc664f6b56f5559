package migrations

import (
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

func (t *catalogTable) primaryKeyProblems() []Problem {
	key := t.PrimaryKey
	const ours = "ADD CONSTRAINT tool_dedup_pkey PRIMARY KEY (" + identityColumns + ") WITH (fillfactor = 75)"
	if key == nil {
		return []Problem{problem(ProblemPrimaryKeyMissing,
			t.Name+" has no primary key: nothing keeps a twin from running a call again",
			t.unlessPartitioned(run("ALTER TABLE %s %s", t.Name, ours)))}
	}

	again := t.unlessPartitioned(run("ALTER TABLE %s DROP CONSTRAINT %s, %s", t.Name, key.Name, ours))
	var found []Problem
	switch {
	case !slices.Equal(key.Columns, []string{"key", "scope", "tool"}): // sorted
		found = append(found, problem(ProblemPrimaryKeyColumns,
			fmt.Sprintf("the primary key of %s is made of %s, not of %s: it tells calls apart wrongly", t.Name, strings.Join(key.Columns, ", "), identityColumns), again))
	case key.Deferrable:
		found = append(found, problem(ProblemPrimaryKeyDeferrable,
			fmt.Sprintf("the primary key of %s is DEFERRABLE: a lost race can show too late, and ON CONFLICT refuses it", t.Name), again))
	}
	if !key.Valid {
		found = append(found, problem(ProblemPrimaryKeyInvalid,
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
		found = append(found, problem(ProblemUniqueExtra,
			fmt.Sprintf("%s of %s can refuse a record whose identity is new; only the primary key may decide", what, unique.Table), fix))
	}
	return found
}

func (t *catalogTable) dueIndexProblems() []Problem {
	create := fmt.Sprintf("CREATE INDEX tool_dedup_due ON %s ((%s))", t.Name, dueExpression)
	index := t.DueIndex
	switch {
	case index == nil:
		return []Problem{problem(ProblemDueIndexMissing,
			t.Name+" has no index tool_dedup_due: every sweep reads the whole table", run("%s", create))}
	case !index.Plain || !sameExpression(index.Expression, dueExpression):
		return []Problem{problem(ProblemDueIndexOther,
			index.Name+" is not the index that the sweep asks for: every sweep reads the whole table",
			run("DROP INDEX %s; %s", index.Name, create))}
	case !index.Valid:
		return []Problem{problem(ProblemDueIndexInvalid,
			index.Name+" is not valid: every sweep reads the whole table", run("REINDEX INDEX %s", index.Name))}
	default:
		return nil
	}
}

// quote quotes a name that comes from the catalogues bare.
func quote(name string) string {
	return pgx.Identifier{name}.Sanitize()
}
