package docs_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	namedFlag    = regexp.MustCompile(`--[a-z][a-z-]*\b`)
	definedFlag  = regexp.MustCompile(`(?m)^ +(?:-\w, )?(--[a-z][a-z-]*)`)
	flagsTitle   = regexp.MustCompile(`(?m)^(?:Global )?Flags:\n`)
	commandsList = regexp.MustCompile(`(?ms)^Available Commands:\n(.*?)\n\n`)
	// commandLine is a command of a program of this repository, up to the end of its line or of its
	// code.
	commandLine = regexp.MustCompile("(?m)(?:^|[`\"\\s])((?:dedup|proof|bench) [a-z][^`\"|;&#\n]*)")
)

// command is a command of a program, as its help describes it.
type command struct {
	help  string
	flags []string // its own and those of its subcommands
}

// commands returns the commands of the programs by their path, such as "dedup migrate up".
func commands(t *testing.T) map[string]*command {
	t.Helper()
	dir := t.TempDir()
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", dir, "./cmd/dedup", "./proof", "./proof/bench").CombinedOutput()
	require.NoError(t, err, string(out))
	all := map[string]*command{}
	var add func(path []string) *command
	add = func(path []string) *command {
		out, err := exec.CommandContext(t.Context(), filepath.Join(dir, path[0]), append(path[1:], "--help")...).CombinedOutput()
		require.NoError(t, err, "%s: %s", path, out)
		c := &command{help: string(out), flags: []string{"--help"}}
		all[strings.Join(path, " ")] = c
		if title := flagsTitle.FindStringIndex(c.help); title != nil {
			for _, flag := range definedFlag.FindAllStringSubmatch(c.help[title[1]:], -1) {
				c.flags = append(c.flags, flag[1])
			}
		}
		if list := commandsList.FindStringSubmatch(c.help); list != nil {
			for line := range strings.Lines(list[1]) {
				if name := strings.Fields(line)[0]; name != "help" && name != "completion" {
					c.flags = append(c.flags, add(append(slices.Clone(path), name)).flags...)
				}
			}
		}
		return c
	}
	for _, program := range []string{"dedup", "proof", "bench"} {
		add([]string{program})
	}
	return all
}

// commandOf returns the longest beginning of a line that is a command.
func commandOf(commands map[string]*command, line string) *command {
	words := strings.Fields(line)
	for n := len(words); n > 0; n-- {
		if c := commands[strings.Join(words[:n], " ")]; c != nil {
			return c
		}
	}
	return nil
}

// TestNamedFlagsExist: each flag that a help or a document names is a flag of the command.
func TestNamedFlagsExist(t *testing.T) {
	t.Parallel()
	commands := commands(t)
	require.Greater(t, len(commands), 20)
	// check checks the flags of the command lines in a text. It returns the text without them.
	flags := 0
	check := func(where, text string) (rest string) {
		return commandLine.ReplaceAllStringFunc(text, func(line string) string {
			if c := commandOf(commands, line); c != nil {
				for _, flag := range namedFlag.FindAllString(line, -1) {
					flags++
					require.Contains(t, c.flags, flag, "%s: %s", where, line)
				}
			}
			return ""
		})
	}
	pipe := regexp.MustCompile(`\| .*`)
	for path, c := range commands {
		// The help itself names the flags of the command, beside those of others' command lines.
		for _, flag := range namedFlag.FindAllString(check(path, pipe.ReplaceAllString(c.help, "")), -1) {
			require.Contains(t, c.flags, flag, "dedup help %s", path)
		}
	}
	program := strings.NewReplacer("go run ./proof/bench", "bench", "go run ./proof", "proof", "go run ./cmd/dedup", "dedup", ".cache/chaos/proof", "proof")
	for _, file := range append(documents(t), "RELEASE.md", "Makefile") {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		check(file, program.Replace(string(text)))
	}
	require.Greater(t, flags, 50)
}
