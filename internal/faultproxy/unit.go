package faultproxy

import (
	"bytes"
	"slices"
	"strings"

	"github.com/tooldedup/dedup/internal/sqllex"
)

// A Unit is a request that the server answers as a whole: all messages up to and including a Sync,
// or one simple Query. Faults are aimed at units.
type Unit struct {
	Conn  int // the connection's number at the proxy, from 1
	Index int // the unit's number on its connection, from 1; 0 is the start-up exchange
	// Backend is the process id of the connection's server process; 0 in the start-up exchange.
	Backend int32

	// Executes holds the statements the unit runs, in order: the parts of a simple Query, and for
	// each Execute the text its statement was prepared with, in this unit or earlier on the
	// connection.
	Executes []string
	// Prepares holds the texts the unit parses, unnamed statements included.
	Prepares []string
	// Commits is true when one of Executes is COMMIT or END.
	Commits bool
}

// AtCommit aims at the units with a COMMIT, in any form.
func AtCommit(u Unit) bool { return u.Commits }

// AtConnect aims at the start-up exchange of a new connection.
func AtConnect(u Unit) bool { return u.Index == 0 }

// AtSQL aims at the units that execute a statement whose text contains part, in upper or lower
// case.
func AtSQL(part string) func(Unit) bool {
	part = strings.ToLower(part)
	return func(u Unit) bool {
		return slices.ContainsFunc(u.Executes, func(sql string) bool { return strings.Contains(strings.ToLower(sql), part) })
	}
}

// tracker joins a client's messages into units, and knows the prepared statements and portals by
// name.
type tracker struct {
	prepared map[string]string
	portals  map[string]string
	unit     Unit
	open     bool // a unit has begun and not ended
}

func newTracker(conn int) *tracker {
	return &tracker{prepared: map[string]string{}, portals: map[string]string{}, unit: Unit{Conn: conn}}
}

// add takes one whole message and reports whether it completes a unit, which next then returns. It
// leaves open false after a message outside units, such as CopyData.
func (t *tracker) add(kind byte, body []byte) (complete bool) {
	switch kind {
	case kindQuery:
		text, _ := cstring(body)
		for _, sql := range sqllex.Split(text) {
			t.execute(sql)
		}
		return true
	case kindFunction, kindSync:
		return true
	case kindParse:
		name, rest := cstring(body)
		sql, _ := cstring(rest)
		t.prepared[name] = sql
		t.unit.Prepares = append(t.unit.Prepares, sql)
	case kindBind:
		portal, rest := cstring(body)
		name, _ := cstring(rest)
		t.portals[portal] = t.prepared[name]
	case kindExecute:
		portal, _ := cstring(body)
		t.execute(t.portals[portal])
	case kindClose:
		t.forget(body)
	case kindDescribe:
	default:
		return false
	}
	t.open = true
	return false
}

// next numbers the completed unit, returns it and begins another.
func (t *tracker) next() Unit {
	unit := t.unit
	t.open = false
	t.unit = Unit{Conn: unit.Conn, Index: unit.Index + 1}
	return unit
}

func (t *tracker) execute(sql string) {
	t.unit.Executes = append(t.unit.Executes, sql)
	t.unit.Commits = t.unit.Commits || sqllex.Commits(sql)
}

func (t *tracker) forget(body []byte) {
	if len(body) == 0 {
		return
	}
	name, _ := cstring(body[1:])
	if body[0] == 'P' {
		delete(t.portals, name)
	} else {
		delete(t.prepared, name)
	}
}

// cstring splits off a zero-terminated string. Without a zero it takes the whole text.
func cstring(b []byte) (string, []byte) {
	s, rest, _ := bytes.Cut(b, []byte{0})
	return string(s), rest
}
