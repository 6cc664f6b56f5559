package progress

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var state = State{Arm: "dedup", SessionsTotal: 45, Writes: 3, Deliveries: 40, Faults: 9}

func TestLines(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	d := New(&out)
	for i := range 45 {
		s := state
		s.Sessions = i + 1
		d.Show(s)
		d.SessionDone(s)
	}
	d.Close()
	require.Equal(t, `dedup 20/45 sessions, 3 writes, 40 deliveries, 9 faults
dedup 40/45 sessions, 3 writes, 40 deliveries, 9 faults
dedup 45/45 sessions, 3 writes, 40 deliveries, 9 faults
`, out.String())
}

func TestBar(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	d := &Display{out: &out, terminal: true}
	s := state
	s.Sessions = 15
	d.SessionDone(s)
	d.drawn = time.Now().Add(time.Hour) // not again so soon
	d.Show(s)
	d.Printf("a line")
	d.Close()
	const drawn = "\r\x1b[Kdedup ████████░░░░░░░░░░░░░░░░ 15/45 sessions, 3 writes, 40 deliveries, 9 faults"
	require.Equal(t, drawn+"\r\x1b[Ka line\n", out.String())
}
