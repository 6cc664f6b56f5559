package outside

import (
	"net/http"
	"time"
)

// fault is a fault of a request.
type fault struct {
	kind    string
	percent float64 // of the requests
	without bool    // the provider does not act
	status  int     // the answer's false status
}

var (
	conflictAfter = fault{kind: "409 after", percent: 2, status: http.StatusConflict}
	busyAfter     = fault{kind: "429 after", percent: 2, status: http.StatusTooManyRequests}
	brokenAfter   = fault{kind: "500 after", percent: 2, status: http.StatusInternalServerError}

	lostRequest   = fault{kind: "request lost", percent: 2, without: true, status: cut}
	busy          = fault{kind: "429", percent: 1, without: true, status: http.StatusTooManyRequests}
	inFlight      = fault{kind: "409", percent: 0.5, without: true, status: http.StatusConflict}
	failsBefore   = fault{kind: "500 before", percent: 1, without: true, status: http.StatusInternalServerError}
	failsAfter    = fault{kind: "502 after", percent: 1, status: http.StatusBadGateway}
	lateEffect    = fault{kind: "late effect", percent: 0.75}
	lateAndCut    = fault{kind: "late effect, cut off", percent: 0.75, status: cut}
	lateAnswer    = fault{kind: "late answer", percent: 1.5}
	lostAnswer    = fault{kind: "answer lost", percent: 3, status: cut}
	chanceRefusal = fault{kind: "refusal by chance", percent: 1}
	keptFailure   = fault{kind: "kept 500", without: true, status: http.StatusInternalServerError} // never drawn
)

var (
	// answeredAfter are the faults of a provider that acts and then answers with an error.
	answeredAfter = []fault{conflictAfter, busyAfter, brokenAfter}
	faults        = []fault{
		lostRequest, busy, failsBefore, failsAfter, lateEffect, lateAndCut, lateAnswer, lostAnswer, chanceRefusal, inFlight,
	}
)

// These faults are not of a single request.
const tooLate, notFound, outageMet = "too late, lost", "look-up failed", "outage"

const (
	// rate scales the percentages, and controlRate those of a control.
	rate, controlRate = 2, 5
	// manyLate scales the share of late requests in the arms with veryLate.
	manyLate = 8
)

// draw draws a request's fault and its delay.
func (p *provider) draw(of operation, key string) (f fault, late time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	most := max(p.arm.Settles, p.arm.Late)
	if most == 0 {
		most = latest
	}
	late = leases(soonest + p.rng.Float64()*(most-soonest))
	f = p.drawFault()
	switch {
	case f == chanceRefusal && (p.arm.KeepsRefusals && key == "" || of.Tool == sagaRefund), f == inFlight && key == "":
		f = fault{}
	}
	if f != lostRequest && p.arm.FirstUse {
		p.key(key, time.Now())
	}
	if f != lostRequest && p.arm.Keeps500 {
		f = p.keep(f, of.Op)
	}
	if f != (fault{}) {
		p.fault(f.kind)
	}
	return f, late
}

// keep keeps a failure under the key for ever.
func (p *provider) keep(f fault, op int) fault {
	switch {
	case p.stuck[op]:
		return keptFailure
	case f == failsAfter:
		f = brokenAfter
	case f != failsBefore:
		return f
	}
	p.stuck[op] = true
	return f
}

func (p *provider) drawFault() fault {
	if p.calm {
		return fault{}
	}
	switch down := p.down(); {
	case down && p.arm.FirstUse && p.rng.IntN(4) > 0:
		return busy
	case down && p.rng.IntN(2) == 0:
		return lostRequest
	case down:
		return lostAnswer
	}
	at := p.rng.Float64() * 100 / p.rate
	if p.arm.After {
		for _, f := range answeredAfter {
			if at -= f.percent; at < 0 {
				return f
			}
		}
	}
	for _, f := range faults {
		percent := f.percent
		if f == lateAndCut && p.arm.Control == settlesEarly {
			percent *= manyLate
		}
		if at -= percent; at < 0 {
			return f
		}
	}
	return fault{}
}

// down reports whether there is an outage. During it no request is answered, and half of them are
// carried out. The first outage begins after a lease.
func (p *provider) down() bool {
	since := time.Since(p.began.Add(lease))
	every := leases(outage + betweenOutages)
	if !p.arm.Outages || since < 0 || since%every >= leases(outage) {
		return false
	}
	if n := int(since/every) + 1; n > p.outages {
		p.outages = n
		p.fault(outageMet)
	}
	return true
}
