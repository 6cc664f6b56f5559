package server

import (
	"context"
	"fmt"
	"runtime"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup/bench/internal/report"
)

// Machine says what is measured on. The server is asked for its part.
func (s *Server) Machine(ctx context.Context) (report.Machine, error) {
	m := report.Machine{
		OS: runtime.GOOS + "/" + runtime.GOARCH, Cores: runtime.NumCPU(), Go: runtime.Version(),
		Source: s.Source, Settings: map[string]string{},
	}
	rows, _ := s.Admin.Query(ctx, `
		SELECT name, current_setting(name), split_part(current_setting('server_version'), ' ', 1)
		FROM unnest($1::text[]) name`, report.MachineSettings())
	var name, value string
	_, err := pgx.ForEachRow(rows, []any{&name, &value, &m.Postgres}, func() error {
		m.Settings[name] = value
		return nil
	})
	if err != nil {
		return m, fmt.Errorf("asking for the server's settings: %w", err)
	}
	if s.Redis != nil {
		m.Redis = s.Redis.Version
	}
	return m, nil
}
