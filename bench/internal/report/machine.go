package report

import (
	"fmt"
	"io"
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

// MachineSettings are the names of Machine.Settings: those that say most about what
// is measured.
func MachineSettings() []string {
	return []string{"fsync", "full_page_writes", "synchronous_commit", "shared_buffers", "max_wal_size", "checkpoint_timeout", "autovacuum"}
}

// Write writes it as the head of a result.
func (m Machine) Write(w io.Writer) {
	fmt.Fprintf(w, "%s, %d cores, %s, PostgreSQL %s", m.OS, m.Cores, m.Go, m.Postgres)
	if m.Redis != "" {
		fmt.Fprintf(w, ", Redis %s", m.Redis)
	}
	var settings []string
	for _, name := range MachineSettings() {
		if value, ok := m.Settings[name]; ok {
			settings = append(settings, name+" "+value)
		}
	}
	fmt.Fprintf(w, "\n%s\n%s\n", m.Source, strings.Join(settings, ", "))
}
