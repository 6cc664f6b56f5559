// Package doctor has the command `dedup doctor`. It names every condition that makes the library's
// promise false, with the value that it read and the fix.
//
// It connects like an application: with the application's role and its privileges, through the same
// pooler. It changes nothing.
package doctor

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/tooldedup/dedup/cmd/dedup/internal/cli"
)

const long = `Look for every condition that makes the promise false: in the tables, in the settings
of the server, the database and the role, in its standbys, and in a pooler. Also look for
records and effects outside the database that are overdue. Each finding has the value
that was read and the fix.

  error     a call can run twice, can lose its record, or is refused
  warning   something else can be lost, or is slow
  unknown   the value could not be read
  ok        the value was read and is sound

Run it as the role of the application and with the application's URL, so that settings,
privileges and the exec mode are those of the application. It needs no other rights; with
pg_read_all_stats it sees how standbys replicate. It changes nothing: it reads in
read-only transactions over one connection, and over a second one for a moment if there
is a pooler.

The exit code is 1 if there is an error, if the database cannot be reached or, with
--strict, if there is a warning or an unknown value; 2 for a usage error; else 0.`

// Command returns the command `dedup doctor`.
func Command() *cobra.Command {
	var s session
	var strict bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Name every condition that makes the promise false, with the fix",
		Long:  long,
		Example: `  dedup doctor --database-url postgres://app:password@localhost:5432/mydb
  dedup doctor --json --strict`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return s.run(cmd, strict) },
	}
	s.AddFlags(cmd, "write the findings as JSON")
	cmd.Flags().BoolVar(&strict, "strict", false, "also fail for warnings and unknown values")
	cli.AddDuration(cmd, &s.overdue, "overdue", time.Hour, "how long records and effects may be due without a warning")
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
		return fmt.Errorf("doctor: nothing was checked: %w", err)
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
