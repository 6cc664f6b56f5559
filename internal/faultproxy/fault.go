package faultproxy

import "time"

// A Kind is the effect of a fault on its unit and on the connection.
type Kind string

// If a kind cuts the connection, the server reads the delivered bytes and then the end of the
// stream. It is never reset, so its work on the unit does not depend on timing.
const (
	// ReplyReset lets the server answer completely, drops the answer, and resets (RST) the client's
	// connection.
	ReplyReset Kind = "reply-reset"
	// ReplyClosed does the same with an orderly close (FIN).
	ReplyClosed Kind = "reply-closed"
	// ReplyCut passes the first 3 bytes of the answer on, awaits the rest, and closes (FIN).
	ReplyCut Kind = "reply-cut"
	// ReplyDelayed holds the complete answer back until released.
	ReplyDelayed Kind = "reply-delayed"
	// Blackhole delivers the unit and drops its answer and all that follows. The connection stays
	// open until the client or the server closes it.
	Blackhole Kind = "blackhole"
	// Dropped keeps the unit from the server and resets the client.
	Dropped Kind = "dropped"
	// CutBeforeSync delivers all of the unit but its Sync, waits until the server is done with it
	// and gone, and resets the client. A simple Query has no Sync and is delivered whole.
	CutBeforeSync Kind = "cut-before-sync"
	// Delayed resets the client at once and delivers the unit when released. A client that answers
	// a broken connection with a CancelRequest, as pgx does, may cancel the unit if it is released
	// right away.
	Delayed Kind = "delayed"
	// Hold keeps the unit from the server until released, on a healthy connection. If the
	// connection is cut in the meantime, the unit is dropped.
	Hold Kind = "hold"
	// CutAfterBytes cuts the connection behind the byte that Fault.Direction and Fault.Bytes name.
	CutAfterBytes Kind = "cut-after-bytes"
)

// A Direction is one of the two streams of a connection.
type Direction int

// The directions of CutAfterBytes.
const (
	// ToServer counts from the first byte of the unit; units that follow it count on. After the
	// last byte the proxy waits until the server is gone, as CutBeforeSync does.
	ToServer Direction = iota
	// ToClient counts from the first byte of the unit's answer; the client gets the bytes and an
	// orderly close.
	ToClient
)

// A Fault is a kind of fault, its target and its number of hits.
type Fault struct {
	Kind Kind

	// Where picks the units to hit: AtCommit, AtSQL("insert into") or any function. Nil picks every
	// unit except the start-up exchange, which only a function can pick (AtConnect does). Several
	// connections may call it at once, and a call does not mean that the fault will hit.
	Where func(Unit) bool
	// Skip lets that many picked units pass first, over all connections.
	Skip int
	// Times is the number of units to hit; 0 means 1, a negative number means all.
	Times int

	// Delay releases a unit of the kinds Hold, Delayed and ReplyDelayed after that time; 0 leaves
	// it to Armed.Release.
	Delay time.Duration

	// Direction and Bytes belong to CutAfterBytes. 0 bytes cut before the first one.
	Direction Direction
	Bytes     int64

	// Answer belongs to Dropped and Delayed: the client gets it instead of the unit's own answer,
	// and then an orderly close (FIN).
	Answer []byte
}

func (f Fault) picks(u Unit) bool {
	if f.Where == nil {
		return u.Index > 0
	}
	return f.Where(u)
}
