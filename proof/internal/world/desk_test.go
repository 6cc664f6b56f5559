package world

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/proof/internal/world/kit"
)

func TestCalculate(t *testing.T) {
	t.Parallel()
	for expression, want := range map[string]string{
		"1 + 2 * 3":                      "7.0",
		"(1 + 2) * 3":                    "9.0",
		"10 - 4 - 3":                     "3.0",
		"7 / 2 / 2":                      "1.75",
		"2 * -3":                         "-6.0",
		"-(2 + .5)":                      "-2.5",
		" ( ( 54.04 ) ) ":                "54.04",
		"0.1 + 0.2":                      "0.3",
		"2 / 3":                          "0.67",
		"+4":                             "4.0",
		"195.11 - 180.93 + 27.46":        "41.64",
		strings.Repeat("1+", 9000) + "1": "9001.0",
	} {
		t.Run(expression[:min(20, len(expression))], func(t *testing.T) {
			t.Parallel()
			got, err := calculate(t.Context(), nil, calculateIn{Expression: expression})
			require.NoError(t, err)
			require.Equal(t, want, *got)
		})
	}
}

func TestCalculateRefuses(t *testing.T) {
	t.Parallel()
	for expression, want := range map[string]string{
		"":                         "invalid expression",
		"1 +":                      "invalid expression",
		"(1":                       "invalid expression",
		"1)":                       "invalid expression",
		"1 2":                      "invalid expression",
		"1.2.3":                    "invalid expression",
		"2 ** 3":                   "invalid expression",
		"exit()":                   "invalid expression",
		"1e3":                      "invalid expression",
		"1 / 0":                    "division by zero",
		"1/(2-2)":                  "division by zero",
		strings.Repeat("(", 10000): "invalid expression",
		strings.Repeat("-", 10000): "invalid expression",
	} {
		t.Run(expression[:min(20, len(expression))], func(t *testing.T) {
			t.Parallel()
			_, err := calculate(t.Context(), nil, calculateIn{Expression: expression})
			var refusal *kit.Refusal
			require.ErrorAs(t, err, &refusal)
			require.Equal(t, want, refusal.Message)
		})
	}
}
