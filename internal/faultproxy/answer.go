package faultproxy

import (
	"bufio"
	"encoding/binary"
	"slices"
)

// cutAt is the number of bytes of an answer that ReplyCut passes on.
const cutAt = 3

// answers is the state of the goroutine that passes the server's messages on.
type answers struct {
	out  []byte    // to pass on before waiting for the server
	kept []byte    // an answer that ReplyDelayed holds
	fuse *byteFuse // set by ReplyCut and CutAfterBytes
}

func (s *session) passAnswers() {
	defer s.serverGone()
	from := bufio.NewReaderSize(s.server, blockSize)
	var message []byte
	for {
		var err error
		if message, err = readMessage(from, message[:0]); err != nil {
			s.pass()
			return
		}
		s.aim(message)
		s.answered(message[0], message[headerSize:])
		if (from.Buffered() == 0 || len(s.answers.out) >= blockSize) && !s.pass() {
			return
		}
	}
}

// serverGone closes the client's connection as the session's faults demand.
func (s *session) serverGone() {
	s.mu.Lock()
	after := s.afterGone
	s.mu.Unlock()
	if after != nil {
		after.apply(s.reset)
	}
	_ = s.client.Close()
}

// aim appends a message to the output of the unit's fault.
func (s *session) aim(message []byte) {
	a := &s.answers
	head, silent := s.head()
	shot := head.shot
	if shot != nil && a.fuse == nil {
		switch fault := shot.armed.fault; fault.Kind {
		case ReplyCut:
			a.fuse = &byteFuse{left: cutAt, shot: shot}
		case CutAfterBytes:
			a.fuse = &byteFuse{left: fault.Bytes, shot: shot}
		}
	}
	switch {
	case silent:
	case a.fuse != nil:
		passing := min(a.fuse.left, int64(len(message)))
		a.out = append(a.out, message[:passing]...)
		a.fuse.left -= passing
		if blown := a.fuse.shot; a.fuse.left == 0 && blown.armed.fault.Kind == CutAfterBytes {
			s.pass()
			s.discardAnswers(nil)
			blown.apply(s.hangUp)
		}
	case shot == nil || shot.done || shot.armed.fault.Kind == Hold:
		a.out = append(a.out, message...)
	case shot.armed.fault.Kind == ReplyDelayed:
		a.kept = append(a.kept, message...)
	}
}

// answered handles a message of the server.
func (s *session) answered(kind byte, body []byte) {
	if kind == kindDataRow || kind == kindCopyData {
		return // there may be millions
	}
	if kind == kindBackend && len(body) >= 4 {
		s.backend.Store(int32(binary.BigEndian.Uint32(body)))
	}
	if kind == kindComplete && string(body) == "COMMIT\x00" {
		s.count(func(c *Snapshot) { c.Committed++ })
	}
	if head, _ := s.head(); head.shot != nil && endsAnswer(kind, body) {
		s.strike(head.shot)
	}
	if kind != kindReady {
		return
	}
	s.mu.Lock()
	heard, trip := !s.discard, false
	if len(s.pending) > 0 {
		first := s.pending[0]
		s.pending = s.pending[1:]
		trip = len(s.pending) == 0 && heard && !first.startup
	}
	s.mu.Unlock()
	if trip {
		s.count(func(c *Snapshot) { c.RoundTrips++ })
	}
}

// endsAnswer reports whether the server now waits for the client.
func endsAnswer(kind byte, body []byte) bool {
	switch kind {
	case kindReady, kindCopyIn, kindCopyBoth:
		return true
	case kindAuth:
		const ok, final = 0, 12
		return len(body) == 4 && !slices.Contains([]uint32{ok, final}, binary.BigEndian.Uint32(body))
	}
	return false
}

// strike applies a fault to a complete answer.
func (s *session) strike(shot *shot) {
	a := &s.answers
	if shot.done {
		shot.end() // Hold, or the second part of a delayed answer
		return
	}
	switch shot.armed.fault.Kind {
	case ReplyReset:
		s.pass()
		s.discardAnswers(nil)
		shot.apply(s.reset)
	case ReplyClosed, ReplyCut:
		s.pass()
		s.discardAnswers(nil)
		shot.apply(s.hangUp)
	case Blackhole:
		s.discardAnswers(nil)
		shot.apply(func() {})
		shot.end()
	case ReplyDelayed:
		s.pass()
		shot.apply(func() {})
		shot.end()
		if s.hold(shot, s.cut.c, s.clientLeft.c) {
			a.out = append(a.out, a.kept...)
		} else {
			s.discardAnswers(nil)
		}
		a.kept = nil
	}
}

// pass writes the ready output to the client. After the client has left, its query need not go on.
func (s *session) pass() bool {
	a := &s.answers
	out := a.out
	a.out = a.out[:0]
	if len(out) == 0 {
		return true
	}
	s.count(func(c *Snapshot) { c.BytesToClient += int64(len(out)) })
	if _, err := s.client.Write(out); err == nil || s.wasCut() {
		return true
	}
	_, silent := s.head()
	return silent
}

// head returns the unit being answered, and whether the client gets no more output.
func (s *session) head() (head pending, silent bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.pending) > 0 {
		head = s.pending[0]
	}
	return head, s.discard
}
