package replay

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// compared is a result with two arms.
func compared() *result {
	faults := func(n int) map[faultKind]int {
		all := map[faultKind]int{}
		for i, kind := range faultKinds {
			all[kind] = n * (i + 1)
		}
		return all
	}
	dedup := &result{
		Mode: "dedup", Through: "http", Recording: "/home/someone/taubench", Postgres: "PostgreSQL 15.1 <here>", Seed: 42,
		Sessions: 196, Calls: 1436, Writes: 269, Reads: 1114,
		Deliveries: 3491, Rounds: rounds{287, 247, 292, 269}, Processes: 113,
		Faults: faults(38), FaultsTotal: 798,
		Replayed: 3336, ReusedIDs: 66, RepeatedWrites: 8, RepeatedWritesRan: 8,
		Checked: checked{4500, 222, 269}, Seconds: 16.0615,
	}
	naive := *dedup
	naive.Mode, naive.Replayed = "naive", 0
	naive.Faults, naive.FaultsTotal = faults(30), 630
	naive.Doubled, naive.Wrong = 1083, 1981
	naive.Checked.Records = 0
	dedup.Naive = &naive
	return dedup
}

// golden compares with a file of testdata. With UPDATE_GOLDEN it writes the file.
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
		"compare.txt":  func(out io.Writer) error { return writeTable(out, compared()) },
		"alone.txt":    func(out io.Writer) error { return writeTable(out, alone) },
		"compare.json": func(out io.Writer) error { return write(&flags{json: true}, out, nil, compared()) },
		"page.html":    func(out io.Writer) error { return writePage(out, compared()) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			require.NoError(t, write(&out))
			golden(t, name, out.Bytes())
		})
	}
}

// TestPageStandsAlone parses the page strictly and requires that it loads and runs nothing.
func TestPageStandsAlone(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	require.NoError(t, writePage(&out, compared()))
	require.NotContains(t, out.String(), "/home/someone")
	require.NotContains(t, out.String(), "url(")

	elements, barCount := map[string]int{}, 0
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
			if attr.Name.Local == "class" && strings.HasPrefix(attr.Value, "bar ") {
				barCount++
			}
			require.NotContains(t, []string{"src", "href", "onclick", "onload"}, attr.Name.Local)
		}
	}
	require.Equal(t, 2*(3+len(faultKinds)), barCount)
	require.Zero(t, elements["script"]+elements["link"]+elements["img"])
}

func TestHTMLNeedsTwoArms(t *testing.T) {
	t.Parallel()
	require.ErrorIs(t, writePage(io.Discard, &result{}), errNoNaive)
}

func TestFailure(t *testing.T) {
	t.Parallel()
	r := compared()
	require.Empty(t, r.failure())
	require.Equal(t, "1083 doubled effects, 1981 wrong answers", r.Naive.failure())
	require.Equal(t, "2 lost writes", (&result{Lost: 2}).failure())
}

func TestThousands(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", -1234: "-1,234", -123: "-123", 1234567: "1,234,567"} {
		require.Equal(t, want, thousands(n))
	}
}
