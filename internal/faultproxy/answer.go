package faultproxy

import (
	"encoding/binary"
	"slices"
)

// cutAt is how much of the answer ReplyCut lets pass.
const cutAt = 3

// answers is the state of the goroutine that passes the server's messages on.
type answers struct {
	reader frameReader
	out    []byte    // to be passed on at the end of the block
	kept   []byte    // an answer that ReplyDelayed holds
	fuse   *byteFuse // set by ReplyCut and CutAfterBytes
}

func (s *session) passAnswers() {
	defer s.serverGone()
	block := make([]byte, blockSize)
	for {
		n, err := s.server.Read(block)
		if n > 0 && !s.answer(block[:n]) || err != nil {
			return
		}
	}
}

// serverGone closes the client's connection in the way the faults want it.
func (s *session) serverGone() {
	s.mu.Lock()
	after := s.afterGone
	s.mu.Unlock()
	if after != nil {
		after.apply(s.reset)
	}
	_ = s.client.Close()
}

// answer takes the next bytes of the server and reports whether the session goes on.
func (s *session) answer(block []byte) bool {
	for len(block) > 0 {
		n, done, err := s.answers.reader.next(block)
		if err != nil {
			s.reset()
			return false
		}
		s.piece(block[:n])
		block = block[n:]
		if done {
			s.answered()
		}
	}
	return s.pass()
}

// piece puts a part of one message where it belongs.
func (s *session) piece(bytes []byte) {
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
		passing := min(a.fuse.left, int64(len(bytes)))
		a.out = append(a.out, bytes[:passing]...)
		a.fuse.left -= passing
		if blown := a.fuse.shot; a.fuse.left == 0 && blown.armed.fault.Kind == CutAfterBytes {
			s.pass()
			s.discardAnswers(nil)
			blown.apply(s.hangUp)
		}
	case shot == nil || shot.done || shot.armed.fault.Kind == Hold:
		a.out = append(a.out, bytes...)
	case shot.armed.fault.Kind == ReplyDelayed:
		a.kept = append(a.kept, bytes...)
	}
}

// answered handles the server's message that has just become complete.
func (s *session) answered() {
	a := &s.answers
	kind, body := a.reader.kind(), a.reader.body
	if kind == kindDataRow || kind == kindCopyData {
		return // of which there may be millions
	}
	if kind == kindComplete && string(body) == "COMMIT\x00" {
		s.count(func(c *Snapshot) { c.Committed++ })
	}
	if head, _ := s.head(); head.shot != nil && s.endsAnswer(kind, body) {
		s.strike(head.shot)
	}
	_, silent := s.head()
	heard := !silent && kind != kindNotice && kind != kindNotify && kind != kindSetting
	s.mu.Lock()
	if kind != kindReady || len(s.pending) == 0 {
		s.mu.Unlock()
		return
	}
	first := s.pending[0]
	s.pending = s.pending[1:]
	trip := len(s.pending) == 0 && heard && !first.startup
	s.mu.Unlock()
	if trip {
		s.count(func(c *Snapshot) { c.RoundTrips++ })
	}
}

// endsAnswer reports whether the server has done what it does before it hears from the client again.
func (s *session) endsAnswer(kind byte, body []byte) bool {
	switch kind {
	case kindReady, kindCopyIn, kindCopyBoth:
		return true
	case kindAuth:
		const ok, final = 0, 12
		return len(body) == 4 && !slices.Contains([]uint32{ok, final}, binary.BigEndian.Uint32(body))
	}
	return false
}

// strike does to a complete answer what the fault wants.
func (s *session) strike(shot *shot) {
	a := &s.answers
	if shot.done {
		shot.end() // Hold, or the second part of an answer whose first one was delayed
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

// pass writes to the client what is ready for it. When the client has left by itself, its query need not go on.
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

// head returns the unit being answered, and whether the client shall get nothing more.
func (s *session) head() (head pending, silent bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.pending) > 0 {
		head = s.pending[0]
	}
	return head, s.discard
}
