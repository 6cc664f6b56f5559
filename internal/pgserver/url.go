package pgserver

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	urlVariable = "DEDUP_DATABASE_URL"

	// urlWait is how long a server named by the variable may take to accept
	// its first connection, once something listens.
	urlWait = 15 * time.Second
)

// fromURL takes the server named by DEDUP_DATABASE_URL, if its user may create
// databases.
func fromURL(ctx context.Context, opts *Options) (*Server, string, error) {
	const tried = "the environment variable " + urlVariable
	raw := opts.look.getenv(urlVariable)
	if raw == "" {
		return nil, tried, fmt.Errorf("the variable is not set: %w", errAbsent)
	}

	u, err := url.Parse(raw)
	if err != nil || (u.Scheme != "postgres" && u.Scheme != "postgresql") {
		// The parser's own error would show the password.
		return nil, tried, errors.New("the variable is not a URL that begins with postgres://")
	}

	ctx, cancel := context.WithTimeout(ctx, urlWait)
	defer cancel()
	version, err := checkServer(ctx, raw)
	if err != nil {
		return nil, tried + ", " + u.Redacted(), err
	}
	return &Server{URL: raw, Source: fmt.Sprintf("PostgreSQL %s at %s, from %s", version, u.Redacted(), urlVariable)}, tried, nil
}

// checkServer returns the server's version, once it accepts connections and the
// user may create databases there.
func checkServer(ctx context.Context, dsn string) (version string, err error) {
	conn, err := connect(ctx, dsn)
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()

	var user string
	var mayCreate bool
	err = conn.QueryRow(ctx, `
		SELECT current_setting('server_version'), rolname, rolcreatedb OR rolsuper
		FROM pg_roles
		WHERE rolname = current_user`).Scan(&version, &user, &mayCreate)
	if err != nil {
		return "", fmt.Errorf("asking for the server's version: %w", err)
	}
	if !mayCreate {
		return "", fmt.Errorf("user %s may not create databases: ALTER ROLE ... CREATEDB lets it", pgx.Identifier{user}.Sanitize())
	}
	version, _, _ = strings.Cut(version, " ") // "15.18 (Debian 15.18-0+deb12u1)"
	return version, nil
}
