package outside

import "time"

// fault is what becomes of a request.
type fault string

const (
	lostRequest   fault = "request lost"
	busy          fault = "429"
	failsBefore   fault = "500 before"
	failsAfter    fault = "502 after"
	lateEffect    fault = "late effect"
	lateAndCut    fault = "late effect, cut off"
	lateAnswer    fault = "late answer"
	lostAnswer    fault = "answer lost"
	chanceRefusal fault = "refusal by chance"
	inFlight      fault = "409"
	tooLate       fault = "too late, lost"
	notFound      fault = "look-up failed"
	keptFailure   fault = "kept 500"
	conflictAfter fault = "409 after"
	busyAfter     fault = "429 after"
	brokenAfter   fault = "500 after"
)

// faults are in per cent of the requests.
var faults = []struct {
	fault
	percent float64
}{
	{lostRequest, 2}, {busy, 1}, {failsBefore, 1}, {failsAfter, 1}, {lateEffect, 0.75}, {lateAndCut, 0.75},
	{lateAnswer, 1.5}, {lostAnswer, 3}, {chanceRefusal, 1}, {inFlight, 0.5},
}

// draw draws what becomes of a request, and how late it is.
func (p *provider) draw(tool, key string, op int) (f fault, late time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	most := p.arm.honest(p.form.bound)
	if most == 0 {
		most = latest
	}
	late = leases(soonest+p.rng.Float64()*(most-soonest), p.form.lease)
	if !p.calm {
		f = p.drawFault()
	}
	switch {
	case f == chanceRefusal && (p.arm.keepsRefusals && key == "" || tool == sagaRefund), f == inFlight && key == "":
		f = ""
	}
	if f != "" {
		p.counts[string(f)]++
	}
	return f, late
}

func (p *provider) drawFault() fault {
	if time.Now().Before(p.down) {
		if p.arm.firstUse && p.rng.IntN(4) > 0 {
			return busy
		}
		if p.rng.IntN(2) == 0 {
			return lostRequest
		}
		return lostAnswer
	}
	at := p.rng.Float64() * 100 / p.form.rate
	if p.arm.after {
		if at -= answeredAfter; at < 0 {
			return [...]fault{conflictAfter, busyAfter, brokenAfter}[p.rng.IntN(3)]
		}
	}
	for _, f := range faults {
		if f.fault == lateAndCut && p.arm.control == settlesEarly {
			f.percent *= manyLate
		}
		if at -= f.percent; at < 0 {
			return f.fault
		}
	}
	return ""
}
