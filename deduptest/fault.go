package deduptest

import (
	"fmt"
	"strings"
	"time"

	"github.com/tooldedup/dedup/internal/faultproxy"
)

// A Kind says what a fault does to the unit that it meets.
//
// Where a kind cuts the connection, the server reads all that was delivered to it
// and then the end of the stream: what it does with the unit does not depend on
// timing.
type Kind string

// The kinds of faults. "Resets" is a TCP RST, "closes" a FIN.
const (
	// DropRequest keeps the unit from the server and resets the client.
	DropRequest Kind = "drop request"
	// CutRequest delivers Fault.Bytes bytes of the unit, and of what follows it if
	// it is shorter, and resets the client.
	CutRequest Kind = "cut request"
	// OmitSync delivers the unit without its Sync, waits until the server is done
	// with it and gone, and resets the client. A COMMIT is executed all the same. A
	// simple query has no Sync and is delivered whole.
	OmitSync Kind = "omit sync"
	// HoldRequest keeps the unit from the server until it is released. The
	// connection stays.
	HoldRequest Kind = "hold request"
	// LateRequest resets the client at once and delivers the unit when it is
	// released: a COMMIT that arrives while its retry is already under way.
	LateRequest Kind = "late request"

	// ResetAnswer lets the server answer, drops the answer and resets the client.
	ResetAnswer Kind = "reset answer"
	// CloseAnswer does the same and closes the client's connection.
	CloseAnswer Kind = "close answer"
	// CutAnswer passes Fault.Bytes bytes of the answer on and closes the client's
	// connection.
	CutAnswer Kind = "cut answer"
	// HoldAnswer holds the complete answer until it is released.
	HoldAnswer Kind = "hold answer"
	// SwallowAnswer drops the answer and all that follows, and leaves the connection
	// open until client or server closes it.
	SwallowAnswer Kind = "swallow answer"
)

// A Unit is what the server answers as one: one simple query, or all that a client
// sends up to a Sync. A pipeline is one unit, also where it carries many
// statements.
type Unit struct {
	// Conn is the connection's number at the proxy, from 1.
	Conn int
	// Index is the unit's number on its connection, from 1; 0 is the start-up.
	Index int
	// Statements are the texts that the unit executes, in order; for prepared
	// statements, those that they were prepared with.
	Statements []string
	// Prepared are the texts that the unit parses.
	Prepared []string
	// Commits says that one of Statements is COMMIT or END.
	Commits bool
}

// AtCommit aims at the units that carry a COMMIT.
func AtCommit(u Unit) bool { return u.Commits }

// AtStatement aims at the units that execute something, and so at none that only
// prepare. With Fault.Skip n-1 it is the nth statement.
func AtStatement(u Unit) bool { return len(u.Statements) > 0 }

// AtSQL aims at the units that execute a statement whose text contains part, in
// upper or lower case.
func AtSQL(part string) func(Unit) bool {
	part = strings.ToLower(part)
	return func(u Unit) bool {
		for _, sql := range u.Statements {
			if strings.Contains(strings.ToLower(sql), part) {
				return true
			}
		}
		return false
	}
}

// A Fault says what shall happen, where, and how often.
type Fault struct {
	// Kind is what happens. It is required.
	Kind Kind
	// At picks the units to hit: AtCommit, AtStatement, AtSQL or any function. Nil
	// picks every unit after start-up. It is asked once for each unit, by several
	// goroutines at once, and a unit that it picks may still be skipped.
	At func(Unit) bool
	// Skip lets that many picked units pass first, over all connections.
	Skip int
	// Times is the number of units to hit. Zero means 1, a negative number all.
	Times int
	// Delay releases what HoldRequest, LateRequest and HoldAnswer hold. Zero leaves
	// that to [Injected.Release].
	Delay time.Duration
	// Bytes is where CutRequest and CutAnswer cut, counted from the first byte of
	// the unit or of its answer; 0 cuts before it.
	Bytes int64
}

// onTheWire translates f for the proxy. It panics at what no fault can be.
func (f Fault) onTheWire() faultproxy.Fault {
	if f.Bytes < 0 || f.Skip < 0 {
		panic("deduptest: Fault.Bytes and Fault.Skip must not be negative")
	}
	wire := faultproxy.Fault{Skip: f.Skip, Times: f.Times, Delay: f.Delay, Bytes: f.Bytes}
	if f.At != nil {
		wire.Where = func(u faultproxy.Unit) bool { return f.At(unitOf(u)) }
	}
	switch f.Kind {
	case DropRequest:
		wire.Kind = faultproxy.Dropped
	case CutRequest:
		wire.Kind, wire.Direction = faultproxy.CutAfterBytes, faultproxy.ToServer
	case OmitSync:
		wire.Kind = faultproxy.CutBeforeSync
	case HoldRequest:
		wire.Kind = faultproxy.Hold
	case LateRequest:
		wire.Kind = faultproxy.Delayed
	case ResetAnswer:
		wire.Kind = faultproxy.ReplyReset
	case CloseAnswer:
		wire.Kind = faultproxy.ReplyClosed
	case CutAnswer:
		wire.Kind, wire.Direction = faultproxy.CutAfterBytes, faultproxy.ToClient
	case HoldAnswer:
		wire.Kind = faultproxy.ReplyDelayed
	case SwallowAnswer:
		wire.Kind = faultproxy.Blackhole
	default:
		panic(fmt.Sprintf("deduptest: unknown kind of fault %q; use one of the constants", f.Kind))
	}
	return wire
}

func unitOf(u faultproxy.Unit) Unit {
	return Unit{Conn: u.Conn, Index: u.Index, Statements: u.Executes, Prepared: u.Prepares, Commits: u.Commits}
}
