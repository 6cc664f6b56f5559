package cli

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

const day = 24 * time.Hour

// AddDuration adds a flag for a duration. It must not be negative and may begin with days: 7d,
// 1d12h, 30s.
func AddDuration(cmd *cobra.Command, d *time.Duration, name string, value time.Duration, usage string) {
	*d = value
	cmd.Flags().Var((*duration)(d), name, usage+"; 30s, 5m, 2h, 7d")
}

// duration implements pflag.Value.
type duration time.Duration

// String implements pflag.Value. [duration.Set] reads it.
func (d *duration) String() string {
	of := time.Duration(*d)
	if of >= 2*day && of%day == 0 {
		return strconv.FormatInt(int64(of/day), 10) + "d"
	}
	return strings.NewReplacer("h0m0s", "h", "m0s", "m").Replace(of.String())
}

// Type implements pflag.Value.
func (*duration) Type() string { return "duration" }

// Set implements pflag.Value.
func (d *duration) Set(text string) error {
	if days, rest, found := strings.Cut(text, "d"); found {
		if n, err := strconv.ParseUint(days, 10, 32); err == nil {
			text = strconv.FormatUint(24*n, 10) + "h" + rest
		}
	}
	of, err := time.ParseDuration(text)
	if err != nil || of < 0 {
		return errors.New("give a duration such as 30s, 5m, 2h or 7d")
	}
	*d = duration(of)
	return nil
}
