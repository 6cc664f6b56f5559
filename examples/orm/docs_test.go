package orm_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/internal/pgtest"
)

// TestDocs compares docs/guide.md with the code here: its program with gorm is the one in start/,
// and each line of the other block that needs gorm is in an example.
func TestDocs(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/guide.md")
	require.NoError(t, err)
	files, err := filepath.Glob("*_test.go")
	require.NoError(t, err)
	lines := map[string]bool{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for line := range strings.Lines(string(text)) {
			lines[strings.TrimSpace(line)] = true
		}
	}
	program, err := os.ReadFile("start/main.go")
	require.NoError(t, err)
	blocks := regexp.MustCompile(`(?s)~~~go\n(.*?)~~~`).FindAllStringSubmatch(string(page), -1)
	require.Len(t, blocks, 2)
	_, program2, _ := strings.Cut(string(program), "\n") // without the comment
	require.Equal(t, program2, blocks[0][1])
	for _, block := range blocks[1:] {
		for line := range strings.Lines(block[1]) {
			require.True(t, lines[strings.TrimSpace(line)], "docs/guide.md has a line that stands in no example: %s", line)
		}
	}
}

// TestStart runs the program of docs/guide.md three times. It writes one row.
func TestStart(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	for _, want := range []string{"reminder 1 replayed: false\n", "reminder 1 replayed: true\n", "reminder 1 replayed: true\n"} {
		cmd := exec.Command("go", "run", "./start")
		cmd.Env = append(os.Environ(), "DATABASE_URL="+db.URL)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, string(out))
		require.True(t, strings.HasSuffix(string(out), want), string(out)) // gorm may log a slow statement before it
	}
	var rows int
	require.NoError(t, db.Pool(t).QueryRow(t.Context(), `SELECT count(*) FROM reminders`).Scan(&rows))
	require.Equal(t, 1, rows)
}
