package report

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/proof/internal/replay/plan"
)

// compared is a result of two arms.
func compared() *Result {
	faults := func(n int) map[plan.Kind]int {
		all := map[plan.Kind]int{}
		for i, kind := range plan.Faults() {
			all[kind] = n * (i + 1)
		}
		return all
	}
	dedup := &Result{
		Mode: "dedup", Through: "http", Recording: "/home/someone/taubench", Postgres: "PostgreSQL 15.1 <here>", Seed: 42,
		Sessions: 196, Calls: 1436, Writes: 269, Reads: 1114,
		Deliveries: 3491, Rounds: Rounds{287, 247, 292, 269}, Processes: 113,
		Faults: faults(38), FaultsTotal: 798,
		Replayed: 3336, ReusedIDs: 66, RepeatedWrites: 8, RepeatedWritesRan: 8,
		Checked: Checked{4500, 222, 196, 269}, Seconds: 16.0615,
	}
	naive := *dedup
	naive.Mode, naive.Replayed, naive.CutShort = "naive", 0, 41
	naive.Faults, naive.FaultsTotal = faults(30), 630
	naive.Doubled, naive.Wrong, naive.StatesWrong = 1083, 1981, 1
	naive.Checked.Records = 0
	dedup.Naive = &naive
	return dedup
}

// golden compares with a file of testdata, and writes it where UPDATE_GOLDEN is
// set.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if os.Getenv("UPDATE_GOLDEN") != "" {
		require.NoError(t, os.WriteFile(path, got, 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), string(got))
}

func TestGolden(t *testing.T) {
	t.Parallel()
	alone := compared()
	alone.Naive = nil
	for name, write := range map[string]func(io.Writer) error{
		"compare.txt":  func(out io.Writer) error { return Table(out, compared()) },
		"alone.txt":    func(out io.Writer) error { return Table(out, alone) },
		"compare.json": func(out io.Writer) error { return JSON(out, compared()) },
		"page.html":    func(out io.Writer) error { return HTML(out, compared()) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			require.NoError(t, write(&out))
			golden(t, name, out.Bytes())
		})
	}
}

// TestPageStandsAlone parses the page strictly and requires that it loads
// nothing and runs nothing.
func TestPageStandsAlone(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	require.NoError(t, HTML(&out, compared()))
	require.NotContains(t, out.String(), "/home/someone")
	require.NotContains(t, out.String(), "url(")

	elements := map[string]int{}
	decoder := xml.NewDecoder(&out)
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		start, ok := token.(xml.StartElement)
		if !ok {
			continue
		}
		elements[start.Name.Local]++
		for _, attr := range start.Attr {
			require.NotContains(t, []string{"src", "href", "onclick", "onload"}, attr.Name.Local)
		}
	}
	require.Equal(t, 2, elements["svg"])
	require.Equal(t, 2*(4+len(plan.Faults())), elements["rect"])
	require.Zero(t, elements["script"]+elements["link"]+elements["img"])
}

func TestHTMLNeedsTwoArms(t *testing.T) {
	t.Parallel()
	require.ErrorIs(t, HTML(io.Discard, &Result{}), errNoNaive)
}

func TestFailure(t *testing.T) {
	t.Parallel()
	r := compared()
	require.Empty(t, r.Failure())
	require.Equal(t, "1083 doubled effects, 1981 wrong answers, 1 wrong final states", r.Naive.Failure())
	require.Equal(t, "2 lost writes", (&Result{Lost: 2}).Failure())
}

func TestJSONHasEveryFigure(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	require.NoError(t, JSON(&out, compared()))
	var object map[string]any
	require.NoError(t, json.Unmarshal(out.Bytes(), &object))
	for _, key := range []string{
		"sessions", "calls", "writes", "deliveries", "faults", "faults_total", "doubled", "wrong", "lost",
		"states_wrong", "seconds", "seed", "mode", "recording", "postgres", "naive",
	} {
		require.Contains(t, object, key)
	}
}

func TestThousands(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", -1234: "-1,234", -123: "-123", 1234567: "1,234,567"} {
		require.Equal(t, want, thousands(n))
	}
}
