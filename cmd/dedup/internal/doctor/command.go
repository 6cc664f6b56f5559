// Package doctor is the command `dedup doctor`: it names every condition under
// which the library's promise would be false, with what was read and the fix.
//
// It looks at a server as an application does: as the application's role, with
// no more rights, and through the same pooler. Nothing is changed.
package doctor

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/tooldedup/dedup/cmd/dedup/internal/cli"
)

const long = `Look for every condition under which the promise would be false: in the tables, in
the settings of the server, the database and the role, in its standbys, and in a
pooler on the way; and for records and effects outside of the database that are overdue.
What is found is listed with the value that was read and the fix.

  error     a call can run twice, can lose its record, or is refused
  warning   something else can be lost, or is slow
  unknown   it could not be read, so that nothing is known about it
  ok        it was read, and is sound

Run it as the role of the application and with the application's URL: settings,
privileges and the exec mode are taken from there. It needs no other rights; with
pg_read_all_stats it sees how standbys replicate. It changes nothing: it reads in
read-only transactions, over one connection, and a second one for a moment where
there is a pooler.

The exit code is 0 when there is no error, 1 when there is one (with --strict, or
a warning, or something that could not be read) or the database cannot be reached,
and 2 when the command line cannot be carried out.`

// Command returns the command `dedup doctor`.
func Command() *cobra.Command {
	var s session
	var strict bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Name everything that makes the promise false, with the fix",
		Long:  long,
		Example: `  dedup doctor --database-url postgres://app:password@localhost:5432/mydb
  dedup doctor --json --strict`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return s.run(cmd, strict) },
	}
	s.AddFlags(cmd, "write the findings as JSON")
	cmd.Flags().BoolVar(&strict, "strict", false, "let warnings, and what could not be read, fail as well")
	cli.AddDuration(cmd, &s.overdue, "overdue", time.Hour, "how long records and effects may be due before it is a warning")
	return cmd
}

func (s *session) run(cmd *cobra.Command, strict bool) (err error) {
	const oneBesideForPoolers = 2
	if s.pool, err = s.Pool(cmd, oneBesideForPoolers, 0); err != nil {
		return err
	}
	defer s.pool.Close()
	ctx := cmd.Context()
	subject, err := s.introduce(ctx)
	switch {
	case err != nil && ctx.Err() != nil:
		return err
	case err != nil:
		return fmt.Errorf("doctor: nothing was looked at: %w", err)
	}
	found, err := examine(ctx, s)
	if err != nil {
		return err
	}
	r := newReport(subject, found)
	write := r.writeText
	if s.JSON {
		write = r.writeJSON
	}
	if err := write(cmd.OutOrStdout()); err != nil {
		return fmt.Errorf("writing: %w", err)
	}
	return r.verdict(strict)
}
