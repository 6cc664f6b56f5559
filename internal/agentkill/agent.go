package agentkill

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/pgtest"
	"github.com/tooldedup/dedup/tool"
)

// Agent is a program under test.
type Agent struct {
	Name string
	// Run answers a request from its beginning, and returns the model's last text.
	Run func(ctx context.Context, s *Start) (string, error)
}

// Start is one start of a run, in a new process.
type Start struct {
	// Tools has the tool open_ticket.
	Tools *tool.Registry
	// Scope is the user's account. Session names the conversation and the user's message in it.
	Scope, Session string
	// Pool is the one of Tools.
	Pool *pgxpool.Pool
	// Reach reports a step, and returns if the process is to go on.
	Reach func(step string)
}

// ticketIn and ticket are the arguments and the result of open_ticket.
type ticketIn struct {
	Title string `json:"title"`
}

type ticket struct {
	ID    int    `json:"id"`
	Title string `json:"title"`
}

const openTicket = "open_ticket"

// childEnv is set in the process of a start.
const childEnv = "DEDUP_AGENT"

// errand is the first line to a process. Each further one is true, and lets it go on from a step.
type errand struct{ Agent, URL, Scope, Session string }

// line is a line from a process.
type line struct {
	Step       string // reached
	Ended      bool
	Text, Fail string // of a run that has ended
}

// Main runs the tests as [pgtest.Main] does, and in the process of a start the agent. Call it from
// TestMain.
func Main(m *testing.M, agents ...Agent) {
	if os.Getenv(childEnv) == "" {
		pgtest.Main(m)
	}
	out := json.NewEncoder(os.Stdout)
	os.Stdout = os.Stderr // for what a framework prints
	text, err := start(agents, json.NewDecoder(os.Stdin), out)
	last := line{Ended: true, Text: text}
	if err != nil {
		last.Fail = err.Error()
	}
	if out.Encode(last) != nil {
		os.Exit(1) // the test is gone
	}
	os.Exit(0)
}

// start makes one start of a run.
func start(agents []Agent, in *json.Decoder, out *json.Encoder) (string, error) {
	var e errand
	if err := in.Decode(&e); err != nil {
		return "", err
	}
	i := slices.IndexFunc(agents, func(a Agent) bool { return a.Name == e.Agent })
	if i < 0 {
		return "", errors.New("Main was not given the agent " + e.Agent)
	}
	ctx := context.Background()
	config, err := pgxpool.ParseConfig(e.URL)
	if err != nil {
		return "", err
	}
	config.MaxConns = pgtest.DefaultMaxConns
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return "", err
	}
	defer pool.Close()
	s := &steps{in: in, out: out}
	d, err := dedup.New(pool, &dedup.Options{Tracer: &tracer{Tracer: dedup.MultiTracer(), reach: s.reach}})
	if err != nil {
		return "", err
	}
	tools := tool.NewRegistry(d, nil)
	if err := tools.Add(ticketTool(s.reach)); err != nil {
		return "", err
	}
	return agents[i].Run(ctx, &Start{Tools: tools, Scope: e.Scope, Session: e.Session, Pool: pool, Reach: s.reach})
}

func ticketTool(reach func(string)) tool.Definition {
	return tool.Tool[ticketIn, ticket]{
		Name: openTicket, Description: "Opens a ticket.", Class: tool.Write,
		Run: func(ctx context.Context, tx pgx.Tx, in ticketIn) (out ticket, err error) {
			nameCall(ctx, in.Title)
			reach(in.Title + " begins")
			err = tx.QueryRow(ctx, `INSERT INTO tickets (account, title) VALUES ($1, $2) RETURNING id, title`,
				tool.InvocationOf(ctx).Scope, in.Title).Scan(&out.ID, &out.Title)
			reach(in.Title + " is written")
			return out, err
		},
	}
}
