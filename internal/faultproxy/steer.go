package faultproxy

// Pilot decides about a unit that has arrived whole. The unit, and what follows on its connection, waits until the
// pilot returns. The fault that it returns hits the unit; nil lets the unit pass.
type Pilot func(Unit) *Armed

// Steer has a pilot decide about every unit that arrives from now on, start-up exchanges too, in place of the faults
// that are armed. Units of several connections come to it at once. Nil takes the pilot away.
//
// A steered proxy passes no cancel request on: it could meet a unit that the pilot has let go since.
func (p *Proxy) Steer(pilot Pilot) {
	p.armory.mu.Lock()
	defer p.armory.mu.Unlock()
	p.armory.pilot = pilot
}

// Aim makes a fault for a pilot to return, for one unit. Only its kind, its delay and its answer count. It is settled
// also where the connection has ended before it could happen.
func (p *Proxy) Aim(f Fault) *Armed {
	a := p.prepare(f)
	a.aimed = true
	return a
}

// Settled is closed when [Armed.WaitSettled] returns.
func (a *Armed) Settled() <-chan struct{} { return a.settled.c }
