package docs_test

import (
	"net"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/internal/pgtest"
)

// guideServer is the address at which the servers of the guide listen.
const guideServer = "localhost:8080"

// guideSections returns the sections of the guide that have a program, by title: the first block of
// each language, whether the page shows two runs of it, and whether each run is another intent. The
// program with gorm is one of examples/orm.
func guideSections(t *testing.T) map[string]map[string]string {
	t.Helper()
	text, err := os.ReadFile("docs/guide.md")
	require.NoError(t, err)
	sections := map[string]map[string]string{}
	for _, section := range strings.Split(string(text), "\n## ")[1:] {
		blocks := map[string]string{}
		for _, block := range regexp.MustCompile("(?s)\n```([a-z]+)\n(.*?)```\n").FindAllStringSubmatch(section, -1) {
			if _, there := blocks[block[1]]; !there {
				blocks[block[1]] = block[2]
			}
		}
		if strings.HasPrefix(blocks["go"], "package main\n") {
			for block, sentence := range map[string]string{
				"twice": "\nRun twice it prints\n", "intents": "\nA second run of the program inserts a second job, which is a second intent.",
			} {
				if strings.Contains(section, sentence) {
					blocks[block] = "yes"
				}
			}
			title, _, _ := strings.Cut(section, "\n")
			sections[title] = blocks
		}
	}
	return sections
}

// TestGuidePrograms runs the program of each section of the guide on the section's tables. It
// prints the section's text, or it serves the section's requests and the answers have the lines of
// the text. The program or the requests run three times, and the second and third write nothing.
func TestGuidePrograms(t *testing.T) {
	t.Parallel()

	sections := guideSections(t)
	require.Len(t, sections, 6)
	for title, blocks := range sections {
		t.Run(title, func(t *testing.T) {
			t.Parallel()
			db := pgtest.New(t)
			pool := db.Pool(t)
			_, err := pool.Exec(t.Context(), blocks["sql"])
			require.NoError(t, err)
			free, err := net.Listen("tcp", "localhost:0")
			require.NoError(t, err)
			address := free.Addr().String()
			require.NoError(t, free.Close())

			program := exec.CommandContext(t.Context(), build(t, "guideprogram", strings.ReplaceAll(blocks["go"], guideServer, address)))
			program.Env = append(os.Environ(), "DATABASE_URL="+db.URL)
			if requests := blocks["sh"]; requests != "" {
				thrice := strings.Repeat(requests, 3)
				requireInOrder(t, served(t, program, address, strings.ReplaceAll(thrice, guideServer, address)), blocks["text"])
				require.Equal(t, 1, rowsOf(t, pool))
				return
			}
			out, err := program.Output()
			require.NoError(t, err, string(out))
			rows := rowsOf(t, pool)
			require.NotZero(t, rows)
			for n := 2; n <= 3 && blocks["intents"] == ""; n++ {
				again := exec.CommandContext(t.Context(), program.Path)
				again.Env = program.Env
				printed, err := again.Output()
				require.NoError(t, err, string(printed))
				require.Equal(t, rows, rowsOf(t, pool), "run %d has written", n)
				if n == 2 && blocks["twice"] != "" {
					out = append(out, printed...)
				}
			}
			require.Equal(t, blocks["text"], string(out))
		})
	}
}

// served starts a server, and returns what the script of its requests prints.
func served(t *testing.T, server *exec.Cmd, address, script string) string {
	t.Helper()
	for _, program := range []string{"bash", "curl"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("%s is not installed: the requests of the guide were not tried", program)
		}
	}
	require.NoError(t, server.Start())
	defer func() {
		_ = server.Process.Kill()
		_ = server.Wait()
	}()
	require.Eventually(t, func() bool {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	}, 10*time.Minute, 10*time.Millisecond)
	out, err := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", script).Output()
	require.NoError(t, err, string(out))
	return string(out)
}

// requireInOrder finds each line of want among the lines of got.
func requireInOrder(t *testing.T, got, want string) {
	t.Helper()
	rest := strings.Split(strings.ReplaceAll(got, "\r", ""), "\n")
	for _, line := range strings.Split(strings.TrimSpace(want), "\n") {
		i := 0
		for i < len(rest) && rest[i] != line {
			i++
		}
		require.Less(t, i, len(rest), "%q is missing in\n%s", line, got)
		rest = rest[i+1:]
	}
}
