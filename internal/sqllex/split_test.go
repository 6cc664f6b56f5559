package sqllex_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/internal/sqllex"
)

func TestSplit(t *testing.T) {
	t.Parallel()

	for _, test := range []struct {
		text string
		want []string
	}{
		{"", nil},
		{" ; ;\n-- nothing; here\n/* or; /* here; */ */;", nil},
		{"commit", []string{"commit"}},
		{"insert into t values ('a')\n;commit", []string{"insert into t values ('a')", "commit"}},
		{"select 'it''s; one'; select 2;", []string{"select 'it''s; one'", "select 2"}},
		{`select E'a\';b'; end`, []string{`select E'a\';b'`, "end"}},
		{`select e'a'';\';b'; end`, []string{`select e'a'';\';b'`, "end"}},
		{`select 'a\'; commit`, []string{`select 'a\'`, "commit"}},
		{`select type'a\'; commit`, []string{`select type'a\'`, "commit"}},
		{`select "a;""b"; commit`, []string{`select "a;""b"`, "commit"}},
		{"do $$begin; end$$; commit", []string{"do $$begin; end$$", "commit"}},
		{"do $x1$ $$;$x$; $x1$; commit", []string{"do $x1$ $$;$x$; $x1$", "commit"}},
		{"select $1; select a$b$c; commit", []string{"select $1", "select a$b$c", "commit"}},
		{"select 1 -- why; not\n; commit", []string{"select 1 -- why; not", "commit"}},
		{"select 'open; commit", []string{"select 'open; commit"}},
		{"select $$open; commit", []string{"select $$open; commit"}},
		{"select /* open; commit", []string{"select /* open; commit"}},
	} {
		require.Equal(t, test.want, sqllex.Split(test.text), test.text)
	}
}

func TestCommits(t *testing.T) {
	t.Parallel()

	for _, sql := range []string{
		"commit", "COMMIT", " Commit work", "commit and chain", "end", "END TRANSACTION", "-- why\ncommit", "/* x /* y */ */commit",
	} {
		require.True(t, sqllex.Commits(sql), sql)
	}
	for _, sql := range []string{
		"", "begin", "rollback", "commit prepared 'x'", "COMMIT /* */ Prepared 'x'", "committed", "ending", "-- commit", "select 'commit'",
	} {
		require.False(t, sqllex.Commits(sql), sql)
	}
}

func FuzzSplit(f *testing.F) {
	f.Add("insert into t values (E'a\\';b', $$;$$) -- x\n;commit")
	f.Add("\u00a0;commit") // no space to Postgres
	f.Fuzz(func(t *testing.T, text string) {
		for _, sql := range sqllex.Split(text) {
			require.NotEmpty(t, sql)
			require.Contains(t, text, sql)
			sqllex.Commits(sql)
		}
	})
}
