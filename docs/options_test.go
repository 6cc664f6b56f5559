package docs_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
)

// defaults returns the options of a Deduper that was made without any.
func defaults(t *testing.T) dedup.Options {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), "") // no call connects
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	d, err := dedup.New(pool, nil)
	require.NoError(t, err)
	return d.Options()
}

// TestOptionsTable compares the guide's table of options with the defaults.
func TestOptionsTable(t *testing.T) {
	t.Parallel()

	text, err := os.ReadFile("docs/guide.md")
	require.NoError(t, err)
	_, section, found := strings.Cut(string(text), "\n## Options and their defaults\n")
	require.True(t, found)
	section, _, _ = strings.Cut(section, "\n## ")
	rows := map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `([A-Za-z.]+)` \\| ([^|:]+)[^|]* \\| .+ \\|$").FindAllStringSubmatch(section, -1) {
		rows[row[1]] = strings.TrimSpace(row[2])
	}
	want := map[string]string{}
	describe(want, "", reflect.ValueOf(defaults(t)))
	require.Equal(t, want, rows)
}

// describe adds each field of a struct to rows, by its path, in the words of the table.
func describe(rows map[string]string, path string, fields reflect.Value) {
	for i := range fields.NumField() {
		name := path + fields.Type().Field(i).Name
		switch value := fields.Field(i).Interface().(type) {
		case dedup.Retention, dedup.RetryPolicy:
			describe(rows, name+".", reflect.ValueOf(value))
		case time.Duration:
			rows[name] = inUnits(int64(value), []unit{
				{int64(48 * time.Hour), int64(24 * time.Hour), "days"},
				{int64(time.Hour), int64(time.Hour), "h"},
				{int64(time.Minute), int64(time.Minute), "min"},
				{int64(time.Second), int64(time.Second), "s"},
				{int64(time.Millisecond), int64(time.Millisecond), "ms"},
			})
		case pgx.TxIsoLevel:
			rows[name] = string(value)
		case string:
			rows[name] = "`" + value + "`"
		case int:
			rows[name] = inUnits(int64(value), []unit{{1 << 20, 1 << 20, "MiB"}})
		case nil:
			rows[name] = "none"
		default:
			rows[name] = fmt.Sprint(value)
		}
	}
}

// unit is used for values from a lower bound.
type unit struct {
	from, size int64
	name       string
}

func inUnits(value int64, units []unit) string {
	if value == 0 {
		return "none"
	}
	for _, u := range units {
		if value >= u.from && value%u.size == 0 {
			return fmt.Sprintf("%d %s", value/u.size, u.name)
		}
	}
	return strconv.FormatInt(value, 10)
}

// TestFailoverFigures computes the pauses that operations.md names.
func TestFailoverFigures(t *testing.T) {
	t.Parallel()

	text, err := os.ReadFile("docs/operations.md")
	require.NoError(t, err)
	_, section, found := strings.Cut(string(text), "\n## Failover and durability\n")
	require.True(t, found)
	section = strings.Join(strings.Fields(section), " ")

	policy := defaults(t).Retry
	longest := sum(bounds(policy))
	require.Contains(t, section, fmt.Sprintf("The default of %d attempts pauses for %.1f s on average and %.1f s at most.",
		policy.MaxAttempts, longest/2, longest))

	figures := regexp.MustCompile("To cover (\\d+) s, set `Retry: dedup.RetryPolicy{MaxAttempts: (\\d+)}`: its pauses are (\\d+) s on average\\.").
		FindStringSubmatch(section)
	require.NotNil(t, figures)
	var figure [4]int
	for i, text := range figures[1:] {
		figure[i+1], err = strconv.Atoi(text)
		require.NoError(t, err)
	}
	policy.MaxAttempts = figure[2]
	pauses := bounds(policy)
	require.InDelta(t, sum(pauses)/2, figure[3], 0.5)

	random := rand.New(rand.NewPCG(1, 1))
	const calls = 10_000
	short := 0
	for range calls {
		total := 0.0
		for _, bound := range pauses {
			total += random.Float64() * bound
		}
		if total < float64(figure[1]) {
			short++
		}
	}
	require.Less(t, short, calls/1_000, "calls that pause less")
}

// bounds returns the bounds of the pauses of a call, in seconds, as the section describes them.
func bounds(p dedup.RetryPolicy) (all []float64) {
	bound := p.BaseDelay
	for range p.MaxAttempts - 1 {
		all = append(all, bound.Seconds())
		bound = min(2*bound, p.MaxDelay)
	}
	return all
}

func sum(values []float64) (total float64) {
	for _, value := range values {
		total += value
	}
	return total
}
