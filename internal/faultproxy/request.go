package faultproxy

import (
	"bufio"
	"bytes"
)

// syncMessage ends a unit of the extended protocol.
const syncMessage = "S\x00\x00\x00\x04"

// requests is the state of the goroutine that passes the client's messages on.
type requests struct {
	tracker *tracker
	begun   bool      // a part of the unit was passed on, so no fault can hit it
	limit   *byteFuse // set by CutAfterBytes
}

// byteFuse blows after a number of bytes.
type byteFuse struct {
	left int64
	shot *shot
}

// passRequests delivers the client's messages, a whole unit at a time.
func (s *session) passRequests(startup []byte) {
	r := &s.requests
	if !s.finish(r.tracker.next(), startup) {
		return
	}
	from := bufio.NewReaderSize(s.client, blockSize)
	var held []byte
	for {
		at := len(held)
		var err error
		if held, err = readMessage(from, held); err != nil {
			if !s.wasCut() { // the client left in the middle of a unit
				s.send(held)
			}
			return
		}
		kind := held[at]
		if kind == kindQuit {
			s.clientLeft.fire()
		}
		complete := r.tracker.add(kind, held[at+headerSize:])
		held = s.proxy.armory.rewritten(held, at)
		var goesOn bool
		switch {
		case complete:
			goesOn = s.finish(r.tracker.next(), held)
			r.begun = false
		case !r.tracker.open:
			goesOn = s.send(held)
		case kind == kindFlush: // the client wants the answer so far
			goesOn = s.send(held)
			r.begun = true
		default:
			continue
		}
		if !goesOn {
			return
		}
		held = held[:0]
	}
}

// finish delivers the rest of a unit as its fault demands, and reports whether the session goes on.
func (s *session) finish(unit Unit, raw []byte) bool {
	awaited := pending{startup: unit.Index == 0}
	unit.Backend = s.backend.Load()
	if !awaited.startup {
		s.proxy.ledger.sent(unit)
	}
	if !s.requests.begun {
		awaited.shot = s.take(unit)
	}
	shot := awaited.shot
	if shot == nil {
		return s.deliver(awaited, raw)
	}
	switch fault := shot.armed.fault; fault.Kind {
	case Hold:
		shot.apply(func() {})
		return s.hold(shot, s.cut.c, s.ended) && s.deliver(awaited, raw)
	case Dropped:
		s.discardAnswers(nil)
		shot.apply(func() { s.cutOff(fault.Answer) })
		return false
	case Delayed:
		s.discardAnswers(nil)
		shot.apply(func() { s.cutOff(fault.Answer) })
		if s.hold(shot, s.ended) {
			s.deliver(pending{}, raw)
		}
		return false
	case CutBeforeSync:
		s.discardAnswers(shot)
		s.deliver(pending{}, bytes.TrimSuffix(raw, []byte(syncMessage)))
		return false
	case CutAfterBytes:
		if fault.Direction == ToServer {
			s.requests.limit = &byteFuse{left: fault.Bytes, shot: shot}
			awaited.shot = nil
		}
	}
	return s.deliver(awaited, raw)
}

func (s *session) deliver(p pending, raw []byte) bool {
	s.expect(p)
	return s.send(raw)
}

// send writes to the server, up to where a fault cuts the stream.
func (s *session) send(raw []byte) bool {
	limit := s.requests.limit
	if limit != nil && limit.left <= int64(len(raw)) {
		raw = raw[:limit.left]
		s.discardAnswers(limit.shot)
	}
	s.count(func(c *Snapshot) { c.BytesToServer += int64(len(raw)) })
	if _, err := s.server.Write(raw); err != nil {
		return false
	}
	if limit == nil {
		return true
	}
	limit.left -= int64(len(raw))
	return limit.left > 0
}
