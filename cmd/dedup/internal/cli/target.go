package cli

import (
	"cmp"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/tooldedup/dedup/internal/exit"
)

// urlVariable is the environment variable with the URL, used without --database-url.
const urlVariable = "DATABASE_URL"

// connectWait bounds connecting if the URL has no connect_timeout.
const connectWait = 10 * time.Second

// Target is the database and the schema of a command.
type Target struct{ URL, Schema string }

// AddFlags adds the flags that name the target to a command and those below it.
func (t *Target) AddFlags(cmd *cobra.Command) {
	set := cmd.PersistentFlags()
	set.StringVar(&t.URL, "database-url", "", "`URL` of the database, postgres://… (default $"+urlVariable+")")
	set.StringVar(&t.Schema, "schema", "public", "`name` of the schema that holds the table; a search_path in the URL does not matter")
}

// Config returns the configuration of a pool of connections to the target. The error is an
// [*exit.UsageError].
func (t *Target) Config(command string) (*pgxpool.Config, error) {
	url := cmp.Or(t.URL, os.Getenv(urlVariable))
	if url == "" {
		return nil, exit.Usage("give --database-url or set %s", urlVariable)
	}
	if t.Schema == "" {
		return nil, exit.Usage("--schema: the name is empty")
	}
	// An application's URL may have settings of its pool.
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, exit.Usage("the database's URL: %w", err)
	}
	conn := config.ConnConfig
	conn.ConnectTimeout = cmp.Or(conn.ConnectTimeout, connectWait)
	conn.RuntimeParams["application_name"] = cmp.Or(conn.RuntimeParams["application_name"], command)
	return config, nil
}

// Table returns the qualified name of tool_dedup, for messages and SQL.
func (t *Target) Table() string {
	return pgx.Identifier{t.Schema, "tool_dedup"}.Sanitize()
}
