package server

import (
	"context"
	"fmt"
	"runtime"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tooldedup/dedup/bench/internal/report"
)

// Machine says what is measured on. The server is asked for its part.
func Machine(ctx context.Context, pool *pgxpool.Pool) (report.Machine, error) {
	m := report.Machine{
		OS: runtime.GOOS + "/" + runtime.GOARCH, Cores: runtime.NumCPU(), Go: runtime.Version(),
		Settings: map[string]string{},
	}
	rows, err := pool.Query(ctx, `
		SELECT name, current_setting(name)
		FROM unnest($1::text[]) name`, append(report.MachineSettings(), "server_version"))
	if err != nil {
		return m, fmt.Errorf("asking for the server's settings: %w", err)
	}
	var name, value string
	_, err = pgx.ForEachRow(rows, []any{&name, &value}, func() error {
		m.Settings[name] = value
		return nil
	})
	if err != nil {
		return m, fmt.Errorf("asking for the server's settings: %w", err)
	}
	m.Postgres, _, _ = strings.Cut(m.Settings["server_version"], " ")
	delete(m.Settings, "server_version")
	return m, nil
}
