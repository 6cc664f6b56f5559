package bed

import (
	"context"
	"fmt"
	"io"
	"maps"
	"runtime"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

// A Machine describes the machine of a measurement, so that only comparable figures are compared.
type Machine struct {
	OS       string `json:"os"`
	Cores    int    `json:"cores"`
	Go       string `json:"go"`
	Postgres string `json:"postgres"`
	Redis    string `json:"redis,omitempty"`
	Source   string `json:"source"` // the origin of Postgres and the place of its data
	// Settings are the settings of Postgres that matter most: production's.
	Settings map[string]string `json:"settings"`
}

// Machine describes this machine. The server is asked for its part.
func (b *Bed) Machine(ctx context.Context) (Machine, error) {
	m := Machine{
		OS: runtime.GOOS + "/" + runtime.GOARCH, Cores: runtime.NumCPU(), Go: runtime.Version(),
		Source: b.Source, Settings: map[string]string{},
	}
	rows, _ := b.Admin.Query(ctx, `
		SELECT name, current_setting(name), split_part(current_setting('server_version'), ' ', 1)
		FROM unnest($1::text[]) name`, slices.Collect(maps.Keys(production)))
	var name, value string
	_, err := pgx.ForEachRow(rows, []any{&name, &value, &m.Postgres}, func() error {
		m.Settings[name] = value
		return nil
	})
	if err != nil {
		return m, fmt.Errorf("asking for the server's settings: %w", err)
	}
	if b.Redis != nil {
		m.Redis = b.Redis.Version
	}
	return m, nil
}

// Write writes the head of a result.
func (m Machine) Write(w io.Writer) {
	fmt.Fprintf(w, "%s, %d cores, %s, PostgreSQL %s", m.OS, m.Cores, m.Go, m.Postgres)
	if m.Redis != "" {
		fmt.Fprintf(w, ", Redis %s", m.Redis)
	}
	var settings []string
	for _, name := range slices.Sorted(maps.Keys(m.Settings)) {
		settings = append(settings, name+" "+m.Settings[name])
	}
	fmt.Fprintf(w, "\n%s\n%s\n", m.Source, strings.Join(settings, ", "))
}
