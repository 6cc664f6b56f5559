package pgserver

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

const (
	// urlWait is how long a server that is starting up may take to accept connections.
	urlWait = 15 * time.Second

	// dialWait bounds one attempt to connect, and pollEvery is the pause behind it.
	dialWait  = 3 * time.Second
	pollEvery = 10 * time.Millisecond

	// cannotConnectNow is the SQLSTATE of a server that is starting up.
	cannotConnectNow = "57P03"
)

// named takes the server of a URL, if its user may create databases.
func named(raw string) func(context.Context, *Options) (*Server, error) {
	return func(ctx context.Context, _ *Options) (*Server, error) {
		if raw == "" {
			return nil, fmt.Errorf("the variable is not set: %w", errAbsent)
		}
		u, err := url.Parse(raw)
		if err != nil || (u.Scheme != "postgres" && u.Scheme != "postgresql") {
			// The parser's own error would show the password.
			return nil, errors.New("the variable is not a URL that begins with postgres://")
		}
		ctx, cancel := context.WithTimeout(ctx, urlWait)
		defer cancel()
		version, err := await(ctx, raw, func(err error) bool {
			var pgErr *pgconn.PgError
			return errors.As(err, &pgErr) && pgErr.Code == cannotConnectNow
		})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", u.Redacted(), err)
		}
		return &Server{URL: raw, Source: fmt.Sprintf("PostgreSQL %s at %s, from %s", version, u.Redacted(), WayURL)}, nil
	}
}

// await returns a server's version once it answers. It asks again after the errors that starting
// accepts.
func await(ctx context.Context, dsn string, starting func(error) bool) (version string, err error) {
	for {
		version, err = ask(ctx, dsn)
		if err == nil || !starting(err) || !pause(ctx, pollEvery) {
			return version, err
		}
	}
}

// ask returns the server's version, if the user may create databases there.
func ask(ctx context.Context, dsn string) (version string, err error) {
	dialing, cancel := context.WithTimeout(ctx, dialWait)
	defer cancel()
	conn, err := pgx.Connect(dialing, dsn)
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

// pause waits for d, and reports false if ctx ended first.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}
