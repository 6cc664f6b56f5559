package scale

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/tooldedup/dedup/bench/internal/report"
)

// finding is what a measurement found out.
type finding interface {
	// write writes it for the terminal.
	write(w io.Writer)
	// verdict is an error where what was found must not be: an answer or an
	// effect that is wrong. A figure that is worse than wanted is no error.
	verdict() error
}

// measurement is a command to be.
type measurement struct {
	use, short, long string
	settings         map[string]string // of the server, beside serverSettings
	check            func() error      // of the flags
	measure          func(ctx context.Context, s stand) (finding, error)
}

func (m measurement) command() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use: m.use, Short: m.short, Long: m.long,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := m.check(); err != nil {
				return err
			}
			return m.run(cmd, file)
		},
	}
	cmd.Flags().StringVar(&file, "json", "", "also write the result to `FILE`")
	return cmd
}

// run writes what was found before it judges it: a bad result is the one to look
// at.
func (m measurement) run(cmd *cobra.Command, file string) error {
	say := func(format string, args ...any) { fmt.Fprintf(cmd.ErrOrStderr(), format+"\n", args...) }
	var found finding
	err := serve(cmd.Context(), m.settings, say, func(s stand) (err error) {
		found, err = m.measure(cmd.Context(), s)
		return err
	})
	if err != nil {
		return err
	}
	found.write(cmd.OutOrStdout())
	if file != "" {
		if err := report.WriteJSON(file, found); err != nil {
			return err
		}
	}
	return found.verdict()
}
