package faultproxy

import "bytes"

// syncMessage ends a unit of the extended protocol.
const syncMessage = "S\x00\x00\x00\x04"

// requests is the state of the goroutine that passes the client's messages on.
type requests struct {
	reader  frameReader
	tracker *tracker
	out     []byte    // to be delivered, and nothing to be done about it
	held    []byte    // the current unit, while a fault may be aimed at it
	aiming  bool      // the current unit is being held
	limit   *byteFuse // set by CutAfterBytes
}

// byteFuse blows when its bytes have passed.
type byteFuse struct {
	left int64
	shot *shot
}

func (s *session) passRequests(startup []byte) {
	if !s.finish(s.requests.tracker.next(), startup) {
		return
	}
	block := make([]byte, blockSize)
	for {
		n, err := s.client.Read(block)
		if n > 0 && !s.request(block[:n]) || err != nil {
			return
		}
	}
}

// request takes the next bytes of the client and reports whether the session goes on.
func (s *session) request(block []byte) bool {
	r := &s.requests
	for len(block) > 0 {
		if r.reader.atStart() && !r.tracker.open {
			r.aiming = !s.proxy.armory.empty()
		}
		n, done, err := r.reader.next(block)
		if err != nil {
			s.reset()
			return false
		}
		if r.aiming {
			r.held = append(r.held, block[:n]...)
		} else {
			r.out = append(r.out, block[:n]...)
		}
		block = block[n:]
		if done && !s.message() {
			return false
		}
	}
	return s.flush()
}

// message handles the client's message that has just become complete.
func (s *session) message() bool {
	r := &s.requests
	kind := r.reader.kind()
	if kind == kindQuit {
		s.clientLeft.fire()
	}
	complete := r.tracker.add(kind, r.reader.body)
	switch {
	case !r.aiming && complete:
		unit := r.tracker.next()
		s.proxy.ledger.sent(unit)
		s.expect(pending{})
	case r.aiming && complete:
		held := r.held
		r.held = nil
		unit := r.tracker.next()
		s.proxy.ledger.sent(unit)
		return s.flush() && s.finish(unit, held)
	case r.aiming && (!r.tracker.open || kind == kindFlush):
		// No part of a unit, or the client wants an answer to what it has sent so far.
		r.out = append(r.out, r.held...)
		r.held, r.aiming = nil, false
	}
	return true
}

// finish delivers a whole unit, as the fault that hits it wants it, and reports whether the session goes on.
func (s *session) finish(unit Unit, raw []byte) bool {
	shot := s.take(unit)
	awaited := pending{startup: unit.Index == 0, shot: shot}
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

func (s *session) flush() bool {
	r := &s.requests
	out := r.out
	r.out = r.out[:0]
	return len(out) == 0 || s.send(out)
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
