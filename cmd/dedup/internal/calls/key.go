package calls

import (
	"encoding/json"
	"errors"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/cmd/dedup/internal/cli"
	"github.com/tooldedup/dedup/internal/exit"
)

const keyLong = `Derive the key of a call from values that the operator knows. Pass the key to ` + "`dedup show`" + `
or ` + "`dedup reset`" + `. With --json the output also has its hash, as logs have it. The command
needs no database.

A key of NewKey is random and cannot be derived; look it up where the caller stored it. Use
--at if the caller adds a time with TimedKey.`

// Key returns the command `dedup key` and those below it, one for each kind of key.
func Key() *cobra.Command {
	var q cli.Query // only how it is written
	var at time.Time
	var repeat int
	kind := func(use, short, example string, args cobra.PositionalArgs, derive func(args []string) (string, error)) *cobra.Command {
		return &cobra.Command{
			Use: use, Short: "Write " + short, Example: "  " + example, Args: args,
			RunE: func(cmd *cobra.Command, args []string) error {
				key, err := derive(args)
				if err == nil && !at.IsZero() {
					key, err = dedup.TimedKey(at, key)
				}
				if errors.Is(err, dedup.ErrInvalid) {
					return exit.Usage("%w", err)
				}
				if err != nil {
					return err
				}
				return q.Write(cmd, &writtenKey{key, dedup.KeyHash(key)}, []string{key})
			},
		}
	}
	withoutID := kind("tool-call-args SESSION TURN TOOL ARGS", "the key of a tool call without a usable id, as KeyFromToolCallArgs does",
		`dedup key tool-call-args 'conversation 17' 4 add_note '{"text":"a"}'`, cobra.ExactArgs(4), func(args []string) (string, error) {
			turn, err := turnOf(args[1])
			if err != nil {
				return "", err
			}
			return dedup.KeyFromToolCallArgs(args[0], turn, args[2], json.RawMessage(args[3]), repeat)
		})
	withoutID.Flags().IntVar(&repeat, "repeat", 0, "number of equal calls earlier in the same message")
	cmd := cli.Group(&cobra.Command{
		Use: "key", Short: "Derive the key of a call, as the library does", Long: keyLong,
		Example: `  dedup show acme import_row "$(dedup key intent import m 17)"`,
	},
		kind("intent PART…", "the key of an intent's names, as KeyFromIntent does", "dedup key intent invoice 2026-117 send", cobra.MinimumNArgs(1),
			func(args []string) (string, error) { return dedup.KeyFromIntent(args...) }),
		kind("tool-call SESSION TURN CALL_ID", "the key of a model's tool call, as KeyFromToolCall does", "dedup key tool-call 'conversation 17' 4 call_0", cobra.ExactArgs(3),
			func(args []string) (string, error) {
				turn, err := turnOf(args[1])
				if err != nil {
					return "", err
				}
				return dedup.KeyFromToolCall(args[0], turn, args[2])
			}),
		withoutID,
		kind("args SESSION ARGS", "the key of arguments alone, as KeyFromArgsMergingRepeats does", `dedup key args 'conversation 17' '{"text":"a"}'`, cobra.ExactArgs(2),
			func(args []string) (string, error) {
				return dedup.KeyFromArgsMergingRepeats(args[0], json.RawMessage(args[1]))
			}),
		kind("given KEY", "a key as it is given: for its hash, or with --at", "dedup key given order-7 --json", cobra.ExactArgs(1),
			func(args []string) (string, error) { return args[0], nil }))
	cmd.PersistentFlags().BoolVar(&q.JSON, "json", false, "write key and hash as a line of JSON")
	cmd.PersistentFlags().TimeVar(&at, "at", time.Time{}, []string{time.RFC3339Nano}, "the `time` that TimedKey puts in front, such as 2026-05-03T09:12:44.102Z")
	return cmd
}

func turnOf(text string) (int, error) {
	turn, err := strconv.Atoi(text)
	if err != nil {
		return 0, exit.Usage("TURN is %q, and must be a number", text)
	}
	return turn, nil
}

// writtenKey is the output of --json. Its fields are stable: later versions only add fields.
type writtenKey struct {
	Key     string `json:"key"`
	KeyHash string `json:"key_hash"`
}
