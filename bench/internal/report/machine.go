package report

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// A Machine is what was measured on, so that figures are not compared that cannot
// be.
type Machine struct {
	OS       string            `json:"os"`
	Cores    int               `json:"cores"`
	Go       string            `json:"go"`
	Postgres string            `json:"postgres"`
	Redis    string            `json:"redis,omitempty"`
	Source   string            `json:"source"`   // where Postgres comes from, and where its data lies
	Settings map[string]string `json:"settings"` // of Postgres
}

// machineSettings are the settings that say most about what is measured.
var machineSettings = []string{
	"fsync", "full_page_writes", "synchronous_commit", "shared_buffers", "max_wal_size", "checkpoint_timeout", "autovacuum",
}

// MachineSettings are the names of Machine.Settings.
func MachineSettings() []string { return slices.Clone(machineSettings) }

// Write writes it as the head of a result.
func (m Machine) Write(w io.Writer) {
	fmt.Fprintf(w, "%s\n%s\n", m.Text(), m.Source)
	var settings []string
	for _, name := range machineSettings {
		if value, ok := m.Settings[name]; ok {
			settings = append(settings, name+" "+value)
		}
	}
	fmt.Fprintln(w, strings.Join(settings, ", "))
}

// Text is the machine on one line.
func (m Machine) Text() string {
	text := fmt.Sprintf("%s, %d cores, %s, PostgreSQL %s", m.OS, m.Cores, m.Go, m.Postgres)
	if m.Redis != "" {
		text += ", Redis " + m.Redis
	}
	return text
}
