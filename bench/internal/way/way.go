package way

import (
	"context"
	"net"

	"github.com/jackc/pgx/v5/pgxpool"
)

// A Way is a way to make a write, run once or not.
type Way struct {
	// Name is what --ways takes; Title is what stands in the table.
	Name, Title string
	// Batch is how many calls one operation makes.
	Batch int
	// Replays says that a second call with the same key has no effect.
	Replays bool
	// OneKey says that replays of one key by many clients are of interest.
	OneKey bool
	// NeedsRedis and NeedsSecondDatabase say what must be in the Env.
	NeedsRedis, NeedsSecondDatabase bool

	// Prepare creates what Open needs beside the table effects. It is run
	// once, on an empty database of the way's own.
	Prepare func(ctx context.Context, pool *pgxpool.Pool) error
	// Open connects.
	Open func(ctx context.Context, env Env) (Session, error)
}

// An Env is what a way is run on.
type Env struct {
	// Postgres is the URL of the way's database, and SecondPostgres that of
	// another one on the same server for ways that keep their records apart.
	Postgres, SecondPostgres string
	// Redis is the address of a Redis server, empty where there is none.
	Redis string
	// Clients is how many call at the same time: a pool has that many
	// connections and two to spare.
	Clients int
	// DialRedis replaces how Redis is connected to. Nil means net.Dialer.
	DialRedis func(ctx context.Context, network, addr string) (net.Conn, error)
}

// A Session is a way that is connected. Call may be called from any goroutine.
type Session interface {
	// Call makes one call for each of the keys, Batch of them. A key that was
	// used before is replayed, if the way can do that.
	Call(ctx context.Context, keys []string) error
	// Pools are the connections to Postgres, whose statistics the caller may
	// want to flush.
	Pools() []*pgxpool.Pool
	Close() error
}

// Scope and Tool name the call for those ways that ask for it.
const (
	scope = "acme"
	tool  = "book"
)

// Effect is the effect of every way; see [Effects].
const effect = `INSERT INTO effects (ref) VALUES ($1) RETURNING id`

// Effects creates the table that all ways write to. It has no index of its own:
// the smaller the effect, the more of the cost is the way's.
const Effects = `CREATE TABLE effects (id int GENERATED ALWAYS AS IDENTITY, ref text NOT NULL)`

// args are the arguments of a call, for those ways that look at them.
type args struct {
	Ref string `json:"ref"`
}

// row is what a call returns.
type row struct {
	ID int `json:"id"`
}
