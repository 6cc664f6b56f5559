// Package progress shows how far a replay is.
package progress

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
)

// State is how far a replay is.
type State struct {
	Arm                        string
	Sessions, SessionsTotal    int
	Writes, Deliveries, Faults int
}

// every is after how many sessions a line is written where there is no
// terminal.
const every = 20

// barWidth is the length of the bar in characters; refresh is the shortest time
// between two drawings of it.
const (
	barWidth = 24
	refresh  = 100 * time.Millisecond
)

// Display shows states: as a bar that is drawn over itself on a terminal, as a
// line now and then elsewhere. Its methods may be called from any goroutine.
type Display struct {
	out      io.Writer
	terminal bool

	mu    sync.Mutex // guards out and the fields below
	drawn time.Time
	open  bool // the cursor stands behind a bar
}

// New returns a display on out.
func New(out io.Writer) *Display {
	return &Display{out: out, terminal: isTerminal(out)}
}

func isTerminal(out io.Writer) bool {
	file, ok := out.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("TERM") != "dumb"
}

// Show is told of every step.
func (d *Display) Show(s State) {
	if !d.terminal {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if now := time.Now(); now.Sub(d.drawn) >= refresh {
		d.drawn, d.open = now, true
		fmt.Fprintf(d.out, "\r\x1b[K%s", bar(s))
	}
}

// SessionDone is told of every session that is over.
func (d *Display) SessionDone(s State) {
	if d.terminal || s.Sessions%every != 0 && s.Sessions != s.SessionsTotal {
		d.Show(s)
		return
	}
	d.Printf("%s", line(s))
}

// Printf writes a line of its own.
func (d *Display) Printf(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.clear()
	fmt.Fprintf(d.out, format+"\n", args...)
}

// Write writes what a worker has to say, as it is.
func (d *Display) Write(text []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.clear()
	return d.out.Write(text)
}

// Close takes the bar away.
func (d *Display) Close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.clear()
}

func (d *Display) clear() {
	if d.open {
		fmt.Fprint(d.out, "\r\x1b[K")
		d.open = false
	}
}

func bar(s State) string {
	filled := 0
	if s.SessionsTotal > 0 {
		filled = barWidth * s.Sessions / s.SessionsTotal
	}
	return fmt.Sprintf("%-5s %s%s %s", s.Arm, strings.Repeat("█", filled), strings.Repeat("░", barWidth-filled), figures(s))
}

func line(s State) string { return fmt.Sprintf("%-5s %s", s.Arm, figures(s)) }

func figures(s State) string {
	return fmt.Sprintf("%d/%d sessions, %d writes, %d deliveries, %d faults",
		s.Sessions, s.SessionsTotal, s.Writes, s.Deliveries, s.Faults)
}
