// Package keys is the command `dedup key`, which derives the keys of calls as the library does.
package keys

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/cmd/dedup/internal/cli"
	"github.com/tooldedup/dedup/internal/exit"
	"github.com/tooldedup/dedup/tool"
)

const long = `Write the key that a call has whose caller derives it from what the operator knows too. It is
what ` + "`dedup show`" + ` and ` + "`dedup reset`" + ` are given, and with --json its hash is beside it, as logs
have it. No database is asked.

A key of NewKey is drawn, and cannot be derived: it is saved where the caller has saved it. Give
--at where the caller puts a time in front with TimedKey.`

// derivation is a kind of key.
type derivation struct {
	use, short, example string
	args                int // at least, where it is negative
	// derive makes the key of the arguments. turn is the second one where there is a TURN.
	derive func(args []string, turn int) (string, error)
}

// Command returns the command `dedup key` and those below it.
func Command() *cobra.Command {
	var w writer
	var repeat int
	var of []*cobra.Command
	for _, k := range []derivation{
		{"intent PART…", "the key of an intent's names, as KeyFromIntent does", "dedup key intent invoice 2026-117 send", -1, func(args []string, _ int) (string, error) {
			return dedup.KeyFromIntent(args...)
		}},
		{"tool-call SESSION TURN CALL_ID", "the key of a model's tool call, as KeyFromToolCall does", "dedup key tool-call 'conversation 17' 4 call_0", 3, func(args []string, turn int) (string, error) {
			return dedup.KeyFromToolCall(args[0], turn, args[2])
		}},
		{"tool-call-args SESSION TURN TOOL ARGS", "the key of a tool call without a usable id, as KeyFromToolCallArgs does", `dedup key tool-call-args 'conversation 17' 4 add_note '{"text":"a"}'`, 4, func(args []string, turn int) (string, error) {
			return dedup.KeyFromToolCallArgs(args[0], turn, args[2], json.RawMessage(args[3]), repeat)
		}},
		{"args SESSION ARGS", "the key of arguments alone, as KeyFromArgsMergingRepeats does", `dedup key args 'conversation 17' '{"text":"a"}'`, 2, func(args []string, _ int) (string, error) {
			return dedup.KeyFromArgsMergingRepeats(args[0], json.RawMessage(args[1]))
		}},
		{"given KEY", "a key as it is given: for its hash, or with --at", "dedup key given order-7 --json", 1, func(args []string, _ int) (string, error) { return args[0], nil }},
	} {
		cmd := &cobra.Command{
			Use: k.use, Short: "Write " + k.short, Example: "  " + k.example,
			Args: counted(k.args),
			RunE: func(cmd *cobra.Command, args []string) error { return w.run(cmd, k, args) },
		}
		if k.args == 4 {
			cmd.Flags().IntVar(&repeat, "repeat", 0, "how many equal calls the message has before this one")
		}
		of = append(of, cmd)
	}
	cmd := cli.Group(&cobra.Command{
		Use: "key", Short: "Write the key of a call, as the library derives it", Long: long,
		Example: `  dedup show acme import_row "$(dedup key intent import m 17)"`,
	}, append(of, scopeCommand())...)
	cmd.PersistentFlags().BoolVar(&w.json, "json", false, "write key and hash as a line of JSON")
	cmd.PersistentFlags().StringVar(&w.at, "at", "", "the `time` that TimedKey puts in front, such as 2026-05-03T09:12:44.102Z")
	return cmd
}

// counted wants so many arguments.
func counted(n int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if n < 0 && len(args) == 0 || n >= 0 && len(args) != n {
			return exit.Usage("a key of what? Give %s", cmd.Use)
		}
		return nil
	}
}

// writer is what the command line says of how a key is written.
type writer struct {
	json bool
	at   string
}

func (w *writer) run(cmd *cobra.Command, k derivation, args []string) error {
	turn := 0
	if strings.Contains(k.use, "TURN") {
		var err error
		if turn, err = strconv.Atoi(args[1]); err != nil {
			return exit.Usage("TURN is %q, and must be a number", args[1])
		}
	}
	key, err := k.derive(args, turn)
	if err == nil && w.at != "" {
		at, parseErr := time.Parse(time.RFC3339Nano, w.at)
		if parseErr != nil {
			return exit.Usage("--at: %q is no time such as 2026-05-03T09:12:44.102Z", w.at)
		}
		key, err = dedup.TimedKey(at, key)
	}
	switch {
	case errors.Is(err, dedup.ErrInvalid):
		return exit.Usage("%w", err)
	case err != nil:
		return err
	}
	q := cli.Query{JSON: w.json}
	return q.Write(cmd.OutOrStdout(), &written{key, dedup.KeyHash(key)})
}

// written is a key as --json writes it. Its fields are stable: more may come, none goes.
type written struct {
	Key     string `json:"key"`
	KeyHash string `json:"key_hash"`
}

// WriteText implements [cli.Entry].
func (k *written) WriteText(out io.Writer) error {
	_, err := fmt.Fprintln(out, k.Key)
	return err
}

// scopeCommand writes no key, and what stands beside one.
func scopeCommand() *cobra.Command {
	return &cobra.Command{
		Use: "session-scope SCOPE SESSION", Short: "Write the scope of a tool whose ScopeRule is PerSession",
		Example: "  dedup list --scope \"$(dedup key session-scope acme 'conversation 17')\"",
		Args:    counted(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			scope, err := tool.PerSession.Scope(args[0], args[1])
			if err != nil {
				return exit.Usage("%w", err)
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), scope)
			return err
		},
	}
}
